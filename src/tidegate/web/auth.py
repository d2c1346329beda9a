"""Authentication and authorization of requests: one check before every route.

While no user exists, a local request may do everything. Local means: from this machine, addressed to this machine,
without a proxy. All other requests need a session or a token, and so do local ones as soon as a user exists. A route
without a declared permission is for admins only.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from secrets import token_bytes, token_hex
from typing import Any, TypeVar

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from tidegate.accounts import access, users
from tidegate.accounts.access import LOCAL, BadToken, Issuer, Permission, Principal
from tidegate.errors import StoreError
from tidegate.secrets import Secrets
from tidegate.web.problems import Problem
from tidegate.web.proxies import is_local
from tidegate.web.site import Site, site_of

_log = logging.getLogger("tidegate.web")

WHO = "tidegate.who"  # key in the ASGI scope
COOKIE = "tidegate_session"
PUBLIC = "anyone"  # a route that needs no permission
_PERMISSION_MARK = "tidegate_right"  # attribute on a function of an application
NOT_SIGNED_IN = frozenset({"not_signed_in", "no_users"})  # problem codes that signing in solves

# The last segment of a POST path names the action, in the API and on the pages.
_OF_ACTION: Mapping[str, Permission] = {
    "retry": Permission.RETRY,
    "cancel": Permission.CANCEL,
    "forget": Permission.FORGET,
    "pause": Permission.PAUSE,
    "resume": Permission.PAUSE,
    "reset": Permission.RESET,
    "test": Permission.RESET,
    "force": Permission.RESET,
    "hold": Permission.RESET,
    "clear": Permission.CLEAR,
    "enable": Permission.SWITCH,
    "disable": Permission.SWITCH,
    "ack": Permission.READ_NOTICE,
    "read": Permission.READ_NOTICE,
    "snooze": Permission.READ_NOTICE,
    "address": Permission.SEE,  # the user's own address
    "classify": Permission.SEE,  # changes nothing
    "bulk": Permission.SEE,  # the form names the action, so the handler checks the permission
    "bulk-actions": Permission.SEE,
}
_OF_PATH: Mapping[str, Permission | str] = {
    "/settings": Permission.SEE_SETTINGS,
    "/api/v1/config": Permission.SEE_SETTINGS,
    "/sign-in": PUBLIC,
    "/sign-out": PUBLIC,
    "/preferences": PUBLIC,  # only a cookie with display preferences
    "/health/live": PUBLIC,
    "/health/ready": PUBLIC,
    "/api/openapi.json": PUBLIC,
}

_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="tidegate"'}

F = TypeVar("F", bound=Callable[..., Any])


def requires(right: Permission | str) -> Callable[[F], F]:
    """Mark a route or the `show` of a page with the permission it needs. `PUBLIC` opens it to anonymous visitors.

    @router.post("/api/weather/{city}")
    @requires(Permission.PUT_IN)
    def refresh(city: str): ...
    """

    def mark(fn: F) -> F:
        setattr(fn, _PERMISSION_MARK, right)
        return fn

    return mark


def required_permission(fn: object) -> Permission | str | None:
    """Return the permission that `requires` set on a function, or None."""
    permission: Permission | str | None = getattr(fn, _PERMISSION_MARK, None)
    return permission


def permission_for(method: str, path: str, endpoint: object = None) -> Permission | str:
    """Return the permission a request needs: of its function, of the tables above, SEE for reads, else MANAGE."""
    marked = required_permission(endpoint)
    if marked is not None:
        return marked
    if path in _OF_PATH:
        return _OF_PATH[path]
    if method in ("GET", "HEAD"):
        return Permission.SEE
    return _OF_ACTION.get(path.rsplit("/", 1)[-1], Permission.MANAGE)


def current_principal(request: HTTPConnection) -> Principal | None:
    """Return the principal with role and authentication method (`via`), or None for an anonymous visitor."""
    principal = request.scope.get(WHO)
    return principal if isinstance(principal, Principal) else None


class Authenticator:
    """Identifies the principal of a request by a bearer token or a session cookie."""

    def __init__(self, issuers: Sequence[Issuer] = (), secrets: Secrets | None = None) -> None:
        """*secrets* sign the visitor cookies. Without them, every visitor gets a new id after a restart."""
        self._issuers = tuple(issuers)
        self.secrets = secrets or Secrets(token_bytes(32))
        self._has_no_users = False  # last known: no user exists

    def who(self, site: Site, request: Request) -> Principal | None:
        """Return the principal, or None if the request has none. Raises Problem for an invalid token."""
        shown = request.headers.get("authorization")
        if shown is not None:
            return self._bearer(site, shown)
        secret = request.cookies.get(COOKIE)
        if secret:
            session = site.read(lambda tx: users.of_session(tx, secret))
            if session is not None:
                self._has_no_users = False  # a cached result from before this user existed would keep `open` true
                principal, due = session
                if due:
                    site.write(lambda tx: users.session_used(tx, secret))
                return principal
        return LOCAL if self.open(site, request) else None

    def open(self, site: Site, request: Request) -> bool:
        """Whether no sign-in is needed: no user exists, the server has no public host name, and the request is local.

        While the database is unreachable, the last known result counts. Without one, access is denied.
        """
        if site.is_named or not is_local(request.scope):
            return False
        try:
            self._has_no_users = not site.read(users.anybody)
        except StoreError:
            if not self._has_no_users:
                raise
        return self._has_no_users

    def refusal(self, site: Site) -> Problem:
        """Return the problem for a request without a principal: sign in, or add the first user."""
        try:
            self._has_no_users = not site.read(users.anybody)
        except StoreError:
            return Problem("not_signed_in", headers=_CHALLENGE)
        return Problem("no_users" if self._has_no_users else "not_signed_in", headers=_CHALLENGE)

    def _bearer(self, site: Site, shown: str) -> Principal:
        scheme, _, token = shown.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise unknown_credentials("Send `Authorization: Bearer` and a token.")
        if token.startswith(users.TOKEN):
            match = site.read(lambda tx: users.of_token(tx, token))
            if match is None:
                raise unknown_credentials()
            principal, due = match
            if due is not None:
                site.write(lambda tx: users.token_used(tx, due))
            return principal
        for issuer in self._issuers:
            try:
                return access.verify_token(issuer, token, site.queue.clock.now())
            except BadToken as error:
                _log.info("token_refused why=%s", error)
        raise unknown_credentials()


def unknown_credentials(detail: str = "The token is not known, or has ended.") -> Problem:
    return Problem("not_signed_in", detail, headers=_CHALLENGE)


async def check_permission(request: Request) -> None:
    """Check the permission before every route.

    Health and sign-in routes use neither the store nor a thread, so they respond while all threads are busy.
    """
    route: Any = request.scope.get("route")
    right = permission_for(request.method, getattr(route, "path", request.url.path), request.scope.get("endpoint"))
    if right == PUBLIC and required_permission(request.scope.get("endpoint")) is None:
        request.scope[WHO] = None
        return
    await run_in_threadpool(_check, request, right)


def _check(request: Request, right: Permission | str) -> None:
    site = site_of(request)
    request.scope[WHO] = site.access.who(site, request)
    if right != PUBLIC:
        require(request, Permission(right))


def require(request: Request, *rights: Permission) -> None:
    """Raise Problem unless the caller has one of these permissions.

    For a handler that learns the action from the body, or that several permissions open.
    """
    principal = current_principal(request)
    if principal is None:
        site = site_of(request)
        raise site.access.refusal(site)
    if not any(principal.has_permission(right) for right in rights):
        detail = f"The role {principal.role} may not {rights[0].words}. An admin can give another one."
        raise Problem("not_allowed", detail)


RIGHT_OF_BULK: Mapping[str, Permission] = {
    "retry": Permission.RETRY,
    "cancel": Permission.CANCEL,
    "forget": Permission.FORGET,
}


# -- sign-in rate limit ------------------------------------------------------------------------------------------------

FREE = 5  # failures of a pair before the first delay
FREE_OF_DEVICE = 10  # failures with one device cookie; then the cookie is ignored for a day
_FIRST, _LONGEST = 2.0, 900.0  # seconds: the first delay and the longest
_RESET_AFTER = 3600.0  # seconds without a failure after which the count of a pair restarts
_DAY = 86400.0
_MAX_ENTRIES = 10_000  # entries per table: pairs, networks, devices


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInAttempt:
    """One sign-in attempt. *wait* is the seconds until it is allowed, 0 for now."""

    pair: tuple[str, str]  # user and smallest network
    networks: Sequence[str]  # of the client, the smallest first
    device: str | None  # device that the attempt counts against; None: the pair
    wait: float


class SignInLimit:
    """Limits failed sign-ins per user and network, per network, and in total. It never locks an account.

    Only the pair of user and network gets growing delays, so an attacker elsewhere cannot lock a user out. The two
    other limits refill at a steady rate. Larger networks have limits, too, all below the total, so that one of them
    cannot use it up. A browser with a device cookie has its own count instead of all three. Counts are per process.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pairs = _Failures(forgotten=_RESET_AFTER)
        self._devices = _Failures(forgotten=_DAY)
        self._networks: OrderedDict[str, _Bucket] = OrderedDict()
        self._all = _Bucket(burst=100, per_second=1.0, at=clock())

    def begin(self, name: str, networks: Sequence[str], device: str | None = None) -> SignInAttempt:
        """Count the attempt against its device or pair up front, so that concurrent attempts are not free.

        Many users who know their passwords may share a network, so only `failed` counts against it.
        """
        now, pair = self._clock(), (name, networks[0])
        with self._lock:
            if device is not None and self._devices.count(device, now) < FREE_OF_DEVICE:
                self._devices.add(device, now)
                return SignInAttempt(pair=pair, networks=networks, device=device, wait=0.0)
            known = [bucket for network in networks if (bucket := self._networks.get(network))]
            wait = max(self._pairs.wait(pair, now), *(bucket.wait(now) for bucket in (self._all, *known)))
            if not wait:
                self._pairs.add(pair, now)
            return SignInAttempt(pair=pair, networks=networks, device=None, wait=wait)

    def failed(self, attempt: SignInAttempt) -> None:
        """Record a wrong password."""
        if attempt.device is not None:
            return  # a known browser must not use up the limits of others
        now = self._clock()
        with self._lock:
            self._all.fill(now)
            for n, network in enumerate(attempt.networks, start=1):
                bucket = self._networks.pop(network, None) or _Bucket(burst=30 * n, per_second=n / 20, at=now)
                self._networks[network] = bucket
                bucket.fill(now)
            while len(self._networks) > _MAX_ENTRIES:
                self._networks.popitem(last=False)

    def passed(self, attempt: SignInAttempt) -> None:
        """Record a correct password: reset the counts of the pair and the device."""
        with self._lock:
            self._pairs.forget(attempt.pair)
            if attempt.device is not None:
                self._devices.forget(attempt.device)

    def release(self, attempt: SignInAttempt) -> None:
        """Undo `begin`: the password was not checked."""
        with self._lock:
            if attempt.device is not None:
                self._devices.take_back(attempt.device)
            else:
                self._pairs.take_back(attempt.pair)


class _Failures:
    """Failure count and time of the last failure per key."""

    def __init__(self, *, forgotten: float) -> None:
        self._forgotten = forgotten
        self._entries: OrderedDict[Hashable, tuple[int, float]] = OrderedDict()

    def count(self, key: Hashable, now: float) -> int:
        n, last = self._entries.get(key, (0, now))
        return 0 if now - last > self._forgotten else n

    def wait(self, key: Hashable, now: float) -> float:
        """Return the seconds until the next attempt: 0 for the first failures, then doubling with each."""
        n = self.count(key, now)
        if n < FREE:
            return 0.0
        return max(0.0, self._entries[key][1] + min(_FIRST * 2.0 ** min(n - FREE, 20), _LONGEST) - now)

    def add(self, key: Hashable, now: float) -> None:
        n = self.count(key, now)
        self.forget(key)
        self._entries[key] = (n + 1, now)
        if len(self._entries) > _MAX_ENTRIES:
            self._entries.popitem(last=False)

    def take_back(self, key: Hashable) -> None:
        n, last = self._entries.get(key, (0, 0.0))
        if n:
            self._entries[key] = (n - 1, last)

    def forget(self, key: Hashable) -> None:
        self._entries.pop(key, None)


class _Bucket:
    """Token bucket of failures: a burst, then a steady rate."""

    __slots__ = ("_at", "_burst", "_per_second", "_used")

    def __init__(self, *, burst: float, per_second: float, at: float) -> None:
        self._burst, self._per_second = burst, per_second
        self._used, self._at = 0.0, at

    def fill(self, now: float) -> None:
        self._used, self._at = self._level_at(now) + 1, now

    def wait(self, now: float) -> float:
        return max(0.0, (self._level_at(now) + 1 - self._burst) / self._per_second)

    def _level_at(self, now: float) -> float:
        return max(0.0, self._used - (now - self._at) * self._per_second)


# -- device cookies ----------------------------------------------------------------------------------------------------
#
# A browser that signed in before is not slowed down by the failures of others. The cookie is signed for one user and
# one password and does not sign anyone in: it only selects a separate failure count. A new password invalidates it.

DEVICE_COOKIE = "tidegate_device_"  # followed by a digest of the user name: users who share a browser have one each
LIFETIME = 180 * 86400  # seconds
_MAX_LENGTH = 300


def device_of(request: Request, secrets: Secrets, name: str, password_digest: str | None, now: float) -> str | None:
    """Return the id of a browser that signed in as *name* with the current password, or None."""
    cookie = request.cookies.get(_cookie_name(name), "")
    if password_digest is None or not cookie or len(cookie) > _MAX_LENGTH:
        return None
    text = secrets.read(_purpose(name, password_digest), cookie)
    if text is None:
        return None
    device, _, signed_in_at = text.partition(" ")
    return device if 0 <= now - float(signed_in_at) < LIFETIME else None


def remember_device(
    response: Response, request: Request, secrets: Secrets, name: str, password_digest: str, now: float
) -> None:
    """Set the device cookie after a successful sign-in."""
    response.set_cookie(
        _cookie_name(name),
        secrets.sign(_purpose(name, password_digest), f"{token_hex(16)} {int(now)}"),
        max_age=LIFETIME,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
        path=f"{request.scope.get('root_path', '')}/sign-in",
    )


def _cookie_name(name: str) -> str:
    return DEVICE_COOKIE + hashlib.sha256(name.encode()).hexdigest()[:16]


def _purpose(name: str, password_digest: str) -> str:
    return f"device 1 {name} {hashlib.sha256(password_digest.encode()).hexdigest()}"


# -- password checks ---------------------------------------------------------------------------------------------------

_THREADS = 2
_MAX_WAITING = 8


class PasswordChecks:
    """Checks two passwords at a time in a separate pool: a check takes 64 MB and much CPU, and needs no sign-in.

    Eight more may wait, and browsers with a device cookie have eight extra places. Use it on one event loop.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._pending = 0

    async def check(self, password: str, digest: str | None, *, known_device: bool) -> bool | None:
        """Whether the password matches the digest. None, without waiting, when too many checks are pending."""
        places = _THREADS + _MAX_WAITING * (2 if known_device else 1)
        if self._pending >= places:
            return None
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="tidegate-password")
        self._pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, users.fits, password, digest)
        finally:
            self._pending -= 1

    def close(self) -> None:
        """End the threads. The next check starts new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)
