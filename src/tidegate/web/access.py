"""Who asks, and whether they may: one check before every route, in one place.

While no user exists, a local request may do everything: one that comes from this machine, for this machine, through no
proxy. Everyone else signs in, or shows a token; from the first user on, local requests do so too. A route that nobody
thought of is for admins only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from secrets import token_bytes
from typing import Any, TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from tidegate.errors import StoreError
from tidegate.ops import accounts, jwts
from tidegate.ops.jwts import BadToken, Issuer
from tidegate.ops.rights import LOCAL, Permission, Principal
from tidegate.secrets import Secrets
from tidegate.web.problems import Problem
from tidegate.web.proxies import is_local
from tidegate.web.site import Site, site_of

_log = logging.getLogger("tidegate.web")

WHO = "tidegate.who"  # in the scope
COOKIE = "tidegate_session"
PUBLIC = "anyone"  # a route that needs no right at all
_RIGHT = "tidegate_right"  # on a function of an application
NOT_SIGNED_IN = frozenset({"not_signed_in", "no_users"})  # codes of what signing in would open

# What a POST does is the last word of its address, in the API and on the pages.
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
    "address": Permission.SEE,  # one's own
    "classify": Permission.SEE,  # it changes nothing
    "bulk": Permission.SEE,  # the action is in the form: the handler asks for the right to that
    "bulk-actions": Permission.SEE,
}
_OF_PATH: Mapping[str, Permission | str] = {
    "/settings": Permission.SEE_SETTINGS,
    "/api/v1/config": Permission.SEE_SETTINGS,
    "/sign-in": PUBLIC,
    "/sign-out": PUBLIC,
    "/preferences": PUBLIC,  # only how the page looks, in a cookie
    "/health/live": PUBLIC,
    "/health/ready": PUBLIC,
    "/api/openapi.json": PUBLIC,
}

_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="tidegate"'}

F = TypeVar("F", bound=Callable[..., Any])


def requires(right: Permission | str) -> Callable[[F], F]:
    """Marks a route or the `show` of a page with the right that it needs; `PUBLIC` opens it to visitors without a name.

    @router.post("/api/weather/{city}")
    @needs(Right.PUT_IN)
    def refresh(city: str): ...
    """

    def mark(fn: F) -> F:
        setattr(fn, _RIGHT, right)
        return fn

    return mark


def required_permission(fn: object) -> Permission | str | None:
    """What `needs` said of a function; None when it said nothing."""
    found: Permission | str | None = getattr(fn, _RIGHT, None)
    return found


def permission_for(method: str, path: str, endpoint: object = None) -> Permission | str:
    """What a request needs: as its function says, or the table, or reading; and if nobody said, to be an admin."""
    marked = required_permission(endpoint)
    if marked is not None:
        return marked
    if path in _OF_PATH:
        return _OF_PATH[path]
    if method in ("GET", "HEAD"):
        return Permission.SEE
    return _OF_ACTION.get(path.rsplit("/", 1)[-1], Permission.MANAGE)


class Authenticator:
    """Recognises who asks, by a token in the header or a session in the cookie."""

    def __init__(self, issuers: Sequence[Issuer] = (), secrets: Secrets | None = None) -> None:
        """*secrets* sign the cookies of visitors; without them, a restart makes everybody a new visitor."""
        self._issuers = tuple(issuers)
        self.secrets = secrets or Secrets(token_bytes(32))
        self._nobody = False  # as far as is known, nobody has a password

    def who(self, site: Site, request: Request) -> Principal | None:
        """None for nobody; Problem when somebody shows a token that is not good."""
        shown = request.headers.get("authorization")
        if shown is not None:
            return self._bearer(site, shown)
        secret = request.cookies.get(COOKIE)
        if secret:
            found = site.read(lambda tx: accounts.of_session(tx, secret))
            if found is not None:
                self._nobody = False  # `open` must not remember what was so before this user was added
                who, due = found
                if due:
                    site.write(lambda tx: accounts.session_used(tx, secret))
                return who
        return LOCAL if self.open(site, request) else None

    def open(self, site: Site, request: Request) -> bool:
        """Whether nobody has to sign in: no user exists, the server has no other name, and the request is local.

        While the database is away, what it said last counts; without that, nobody gets in.
        """
        if site.is_named or not is_local(request.scope):
            return False
        try:
            self._nobody = not site.read(accounts.anybody)
        except StoreError:
            if not self._nobody:
                raise
        return self._nobody

    def refusal(self, site: Site) -> Problem:
        """What someone is told who is not signed in: to do so, or how the first user is added."""
        try:
            self._nobody = not site.read(accounts.anybody)
        except StoreError:
            return Problem("not_signed_in", headers=_CHALLENGE)
        return Problem("no_users" if self._nobody else "not_signed_in", headers=_CHALLENGE)

    def _bearer(self, site: Site, shown: str) -> Principal:
        scheme, _, token = shown.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise unknown_credentials("Send `Authorization: Bearer` and a token.")
        if token.startswith(accounts.TOKEN):
            found = site.read(lambda tx: accounts.of_token(tx, token))
            if found is None:
                raise unknown_credentials()
            who, due = found
            if due is not None:
                site.write(lambda tx: accounts.token_used(tx, due))
            return who
        for issuer in self._issuers:
            try:
                return jwts.verify_token(issuer, token, site.queue.clock.now())
            except BadToken as error:
                _log.info("token_refused why=%s", error)
        raise unknown_credentials()


def unknown_credentials(detail: str = "The token is not known, or has ended.") -> Problem:
    return Problem("not_signed_in", detail, headers=_CHALLENGE)


async def check_permission(request: Request) -> None:
    """Runs before every route: nobody gets further than their rights.

    Health and signing in ask nobody, neither the store nor a thread, so they answer while all threads are busy.
    """
    route: Any = request.scope.get("route")
    right = permission_for(request.method, getattr(route, "path", request.url.path), request.scope.get("endpoint"))
    if right == PUBLIC and required_permission(request.scope.get("endpoint")) is None:
        request.scope[WHO] = None
        return
    await run_in_threadpool(_check, request, right)


def _check(request: Request, right: Permission | str) -> None:
    site = site_of(request)
    who = request.scope[WHO] = site.access.who(site, request)
    if right == PUBLIC:
        return
    if who is None:
        raise site.access.refusal(site)
    if not who.has_permission(Permission(right)):
        raise not_allowed(who, Permission(right))


def require(request: Request, right: Permission) -> None:
    """For a handler that learns only from the form what it is to do."""
    who = request.scope.get(WHO)
    if not isinstance(who, Principal) or not who.has_permission(right):
        raise Problem("not_signed_in") if who is None else not_allowed(who, right)


def not_allowed(principal: Principal, right: Permission) -> Problem:
    return Problem("not_allowed", f"The role {principal.role} may not {right.words}. An admin can give another one.")


RIGHT_OF_BULK: Mapping[str, Permission] = {
    "retry": Permission.RETRY,
    "cancel": Permission.CANCEL,
    "forget": Permission.FORGET,
}
