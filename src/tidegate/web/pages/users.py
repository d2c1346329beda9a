"""`/people`, `/tokens` and sign-in: users, tokens and sessions. Only admins manage users and tokens."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from tidegate.accounts import users as account_users
from tidegate.accounts.access import OF_PEOPLE, Permission, Role
from tidegate.errors import Rejected
from tidegate.store.base import Tx
from tidegate.web.auth import COOKIE, PasswordChecks, SignInLimit, device_of, remember_device, requires
from tidegate.web.pages.formatters import many
from tidegate.web.pages.forms import Flash, act, answer, attempt, local_path
from tidegate.web.pages.render import page, render_template
from tidegate.web.problems import Problem
from tidegate.web.proxies import client_networks
from tidegate.web.site import Site, site_of

MEANINGS: Mapping[str, str] = {
    Role.VIEWER: "sees everything but the settings, and changes nothing",
    Role.OPERATOR: "acts on jobs and targets, and puts in work",
    Role.ADMIN: "does everything, with people and tokens",
    Role.POLLER: "lists sources, enables and disables feeds, nothing else",
}
LASTS: Mapping[str, str] = {"30d": "30 days", "90d": "90 days", "365d": "1 year", "": "until it is removed"}
_ROLES = [str(role) for role in OF_PEOPLE]

Field = Annotated[str, Form(max_length=2000)]


router = APIRouter()


@router.get("/people")
@requires(Permission.MANAGE)
def people(request: Request) -> Response:
    return list_users(site_of(request), request)


@router.post("/people/add")
@requires(Permission.MANAGE)
def add(request: Request, name: Field = "", role: Field = "", password: Field = "") -> Response:
    site = site_of(request)
    user = name.strip()

    def work() -> Flash:
        digest, by = account_users.digest_of(password), site.actor_of(request)
        site.write(lambda tx: account_users.add_user(tx, user, role, digest, by))
        return Flash(text=f"{user} may sign in as {role}.")

    flash = attempt(work)
    if flash.tone == "good":
        return answer(request, flash, "", "/people")
    return list_users(site, request, flash, name=user, role=role)


@router.get("/people/{name}")
@requires(Permission.MANAGE)
def person(request: Request, name: str) -> Response:
    user = find_named("user", name, site_of(request).read(account_users.users))
    return page(
        request, "person.html", user=user, roles=_ROLES, meanings=MEANINGS, least=account_users.MIN_PASSWORD_LENGTH
    )


@router.post("/people/{name}/role")
@requires(Permission.MANAGE)
def change_role(request: Request, name: str, role: Field = "", key: Field = "") -> Response:
    site = site_of(request)
    wanted = role or key  # an undo sends the previous role as key

    def work(tx: Tx) -> Flash:
        was = account_users.set_role(tx, name, wanted, site.actor_of(request))
        if was == wanted:
            return Flash(text=f"{name} is {wanted} already.", tone="warn")
        text = f"{name} was {was} and is {wanted} now; all their sessions have ended."
        return Flash(text=text, undo="role_of", of=name, key=was)

    return answer(request, act(site, work), "", "/people")


@router.post("/people/{name}/password")
@requires(Permission.MANAGE)
def change_password(request: Request, name: str, password: Field = "") -> Response:
    site = site_of(request)

    def work() -> Flash:
        digest, by = account_users.digest_of(password), site.actor_of(request)
        site.write(lambda tx: account_users.set_password(tx, name, digest, by))
        return Flash(text=f"{name} has a new password; all their sessions have ended.")

    flash = attempt(work)
    return answer(request, flash, "", *(("/people",) if flash.tone == "good" else ("/people", name)))


@router.post("/people/{name}/sign-out")
@requires(Permission.MANAGE)
def sign_out(request: Request, name: str) -> Response:
    site = site_of(request)

    def work(tx: Tx) -> Flash:
        n = account_users.sign_out(tx, name, site.actor_of(request))
        if not n:
            return Flash(text=f"{name} was not signed in.", tone="warn")
        return Flash(text=f"{name} is signed out: {many(n, 'session')} ended.")

    return answer(request, act(site, work), "", "/people")


@router.get("/people/{name}/remove")
@requires(Permission.MANAGE)
def ask(request: Request, name: str) -> Response:
    all_users = site_of(request).read(account_users.users)
    return page(request, "remove.html", what="user", one=find_named("user", name, all_users), last=len(all_users) == 1)


@router.post("/people/{name}/remove")
@requires(Permission.MANAGE)
def remove(request: Request, name: str) -> Response:
    return confirm_removal(
        site_of(request), request, name, account_users.remove_user, f"{name} is removed, and gets in no more."
    )


def confirm_removal(
    site: Site, request: Request, name: str, remove: Callable[[Tx, str, str], None], text: str
) -> Response:
    """Remove it, and return to the list with *text*."""

    def work(tx: Tx) -> Flash:
        remove(tx, name, site.actor_of(request))
        return Flash(text=text)

    return answer(request, act(site, work), "", "/people")


def list_users(site: Site, request: Request, wrong: Flash | None = None, **entered: str) -> Response:
    """List all users and tokens. After a rejected form, show the reason and the entered values."""
    users, tokens, events = site.read(
        lambda tx: (account_users.users(tx), account_users.tokens(tx), account_users.newest(tx))
    )
    # A rejected form is not refreshed: its URL accepts only POST.
    values: dict[str, object] = {} if wrong is None else {"said": wrong, "live": None}
    return page(
        request,
        "people.html",
        status=200 if wrong is None else 422,
        users=users,
        tokens=tokens,
        events=events,
        given=entered,
        roles=_ROLES,
        token_roles=[str(role) for role in Role],
        meanings=MEANINGS,
        lasts=LASTS,
        least=account_users.MIN_PASSWORD_LENGTH,
        **values,
    )


def find_named(what: str, name: str, rows: list[Any]) -> Any:
    """Return the user of that name. Raises Problem if there is none."""
    for row in rows:
        if row.name == name:
            return row
    raise Problem("not_there", f"There is no {what} {name!r}; it may have been removed.", status=404)


# -- /tokens -----------------------------------------------------------------------------------------------------------
#
# A new token is shown once. `/people` lists tokens.


@router.post("/tokens/add")
@requires(Permission.MANAGE)
def add_token(request: Request, name: Field = "", role: Field = "", lasts: Field = "") -> Response:
    site = site_of(request)
    called, by = name.strip(), site.actor_of(request)
    try:
        token = site.write(lambda tx: account_users.add_token(tx, called, role, by, lasts or None))
    except (Rejected, ValueError) as error:
        flash = Flash(text=f"Nothing was changed: {error}.", tone="bad")
        return list_users(site, request, flash, token=called, token_role=role, lasts=lasts)
    # A redirect would have to store the token somewhere. This page cannot be requested again.
    return page(request, "token_made.html", name=called, role=role, token=token, live=None)


@router.get("/tokens/{name}/remove")
@requires(Permission.MANAGE)
def confirm_token_removal(request: Request, name: str) -> Response:
    token = find_named("token", name, site_of(request).read(account_users.tokens))
    return page(request, "remove.html", what="token", one=token, last=False)


@router.post("/tokens/{name}/remove")
@requires(Permission.MANAGE)
def remove_token(request: Request, name: str) -> Response:
    text = f"The token {name} is removed; whoever has it gets in no more."
    return confirm_removal(site_of(request), request, name, account_users.remove_token, text)


# -- sign-in -----------------------------------------------------------------------------------------------------------
#
# The session cookie is not readable by scripts.

_log = logging.getLogger("tidegate.web")

_WRONG_CREDENTIALS = "The name and the password do not fit together."


def sign_in_router(site: Site, checks: PasswordChecks) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    limit = SignInLimit(site.queue.clock.monotonic)

    @router.get("/sign-in")
    def show(request: Request, next: Annotated[str, Query(max_length=2000)] = "") -> Response:  # noqa: A002 - its name
        if site.access.who(site, request) is not None:
            return RedirectResponse(local_path(next, f"{_base(request)}/"), status_code=303)
        return _form(request, next, no_users=not site.read(account_users.anybody))

    @router.post("/sign-in")
    async def sign_in(
        request: Request,
        name: Annotated[str, Form(max_length=200)] = "",
        password: Annotated[str, Form(max_length=2000)] = "",
        next: Annotated[str, Form(max_length=2000)] = "",  # noqa: A002
    ) -> Response:
        def look(tx: Tx) -> tuple[str | None, bool]:
            return account_users.kept_of(tx, name), account_users.anybody(tx)

        digest, users = await run_in_threadpool(site.read, look)
        if not users:
            return await run_in_threadpool(_form, request, next, status=401, no_users=True)
        networks, now, secrets = client_networks(request), site.queue.clock.now(), site.access.secrets
        attempt = limit.begin(name, networks, device_of(request, secrets, name, digest, now))
        if attempt.wait > 0:
            return await run_in_threadpool(_refused, request, next, name, attempt.wait, "Too many wrong passwords.")
        fits = await checks.check(password, digest, known_device=attempt.device is not None)
        if fits is None:
            limit.release(attempt)
            return await run_in_threadpool(_refused, request, next, name, 1.0, "Too many people sign in right now.")
        if digest is None or not fits:
            limit.failed(attempt)
            _log.warning("sign_in_failed network=%s", networks[0])
            return await run_in_threadpool(_form, request, next, name, _WRONG_CREDENTIALS, status=403)
        limit.passed(attempt)
        secret = await run_in_threadpool(site.write, lambda tx: account_users.begin_session(tx, name))
        answer = RedirectResponse(local_path(next, f"{_base(request)}/"), status_code=303)
        _set(answer, request, secret, int(account_users.MAX_SESSION_SECONDS))
        remember_device(answer, request, secrets, name, digest, now)
        return answer

    @router.post("/sign-out")
    def sign_out(request: Request) -> Response:
        secret = request.cookies.get(COOKIE)
        if secret:
            site.write(lambda tx: account_users.end_session(tx, secret))
        answer = RedirectResponse(f"{_base(request)}/sign-in", status_code=303)
        _set(answer, request, "", 0)
        return answer

    return router


def to_sign_in(scope: Scope) -> Response:
    """Redirect to the sign-in form, which returns to the requested page."""
    base = str(scope.get("root_path", ""))
    back = str(scope["path"]) + (f"?{scope['query_string'].decode('latin-1')}" if scope.get("query_string") else "")
    return RedirectResponse(f"{base}/sign-in?{urlencode({'next': back})}", status_code=303)


def _form(
    request: Request, back: str, name: str = "", said: str = "", status: int = 200, *, no_users: bool = False
) -> Response:
    values = {"next_page": local_path(back, ""), "name": name, "wrong": said, "no_users": no_users}
    return render_template(request, "sign_in.html", status, values)


def _refused(request: Request, back: str, name: str, wait: float, reason: str) -> Response:
    seconds = max(1, math.ceil(wait))
    answer = _form(request, back, name, f"{reason} Try again in {seconds} s.", status=429)
    answer.headers["Retry-After"] = str(seconds)
    return answer


def _set(answer: Response, request: Request, secret: str, lasts: int) -> None:
    answer.set_cookie(
        COOKIE,
        secret,
        max_age=lasts,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
        path=_base(request) or "/",
    )


def _base(request: Request) -> str:
    return str(request.scope.get("root_path", ""))
