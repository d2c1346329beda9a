"""Signing in and out: a form, a session, a cookie that no script can read."""

from __future__ import annotations

import logging
import math
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from tidegate.ops import accounts
from tidegate.store.tx import Tx
from tidegate.web.access import COOKIE
from tidegate.web.devices import device_of, remember_device
from tidegate.web.pages.rendering import render_template
from tidegate.web.pages.saying import local_path
from tidegate.web.passwords import PasswordChecks
from tidegate.web.proxies import client_network
from tidegate.web.sign_in_limit import SignInLimit
from tidegate.web.site import Site

_log = logging.getLogger("tidegate.web")

_WRONG_CREDENTIALS = "The name and the password do not fit together."


def router(site: Site, checks: PasswordChecks) -> APIRouter:
    found = APIRouter(include_in_schema=False)
    limit = SignInLimit(site.queue.clock.monotonic)

    @found.get("/sign-in")
    def show(request: Request, next: Annotated[str, Query(max_length=2000)] = "") -> Response:  # noqa: A002 - its name
        if site.access.who(site, request) is not None:
            return RedirectResponse(local_path(next, f"{_base(request)}/"), status_code=303)
        return _form(request, next, no_users=not site.read(accounts.anybody))

    @found.post("/sign-in")
    async def sign_in(
        request: Request,
        name: Annotated[str, Form(max_length=200)] = "",
        password: Annotated[str, Form(max_length=2000)] = "",
        next: Annotated[str, Form(max_length=2000)] = "",  # noqa: A002
    ) -> Response:
        def look(tx: Tx) -> tuple[str | None, bool]:
            return accounts.kept_of(tx, name), accounts.anybody(tx)

        kept, users = await run_in_threadpool(site.read, look)
        if not users:
            return await run_in_threadpool(_form, request, next, status=401, no_users=True)
        network, now, secrets = client_network(request), site.queue.clock.now(), site.access.secrets
        attempt = limit.begin(name, network, device_of(request, secrets, name, kept, now))
        if attempt.wait > 0:
            return await run_in_threadpool(_refused, request, next, name, attempt.wait, "Too many wrong passwords.")
        fits = await checks.check(password, kept, known_device=attempt.device is not None)
        if fits is None:
            limit.release(attempt)
            return await run_in_threadpool(_refused, request, next, name, 1.0, "Too many people sign in right now.")
        if kept is None or not fits:
            limit.failed(attempt)
            _log.warning("sign_in_failed network=%s", network)
            return await run_in_threadpool(_form, request, next, name, _WRONG_CREDENTIALS, status=403)
        limit.passed(attempt)
        secret = await run_in_threadpool(site.write, lambda tx: accounts.begin_session(tx, name))
        answer = RedirectResponse(local_path(next, f"{_base(request)}/"), status_code=303)
        _set(answer, request, secret, int(accounts.MAX_SESSION_SECONDS))
        remember_device(answer, request, secrets, name, kept, now)
        return answer

    @found.post("/sign-out")
    def sign_out(request: Request) -> Response:
        secret = request.cookies.get(COOKIE)
        if secret:
            site.write(lambda tx: accounts.end_session(tx, secret))
        answer = RedirectResponse(f"{_base(request)}/sign-in", status_code=303)
        _set(answer, request, "", 0)
        return answer

    return found


def to_sign_in(scope: Scope) -> Response:
    """To the form, and from there to where it was asked."""
    base = str(scope.get("root_path", ""))
    asked = str(scope["path"]) + (f"?{scope['query_string'].decode('latin-1')}" if scope.get("query_string") else "")
    return RedirectResponse(f"{base}/sign-in?{urlencode({'next': asked})}", status_code=303)


def _form(
    request: Request, back: str, name: str = "", said: str = "", status: int = 200, *, no_users: bool = False
) -> Response:
    values = {"next_page": local_path(back, ""), "name": name, "wrong": said, "no_users": no_users}
    return render_template(request, "sign_in.html", status, values)


def _refused(request: Request, back: str, name: str, wait: float, why: str) -> Response:
    seconds = max(1, math.ceil(wait))
    answer = _form(request, back, name, f"{why} Try again in {seconds} s.", status=429)
    answer.headers["Retry-After"] = str(seconds)
    return answer


def _set(answer: Response, request: Request, secret: str, lasts: int) -> None:
    answer.set_cookie(
        COOKIE, secret, max_age=lasts, httponly=True, samesite="lax", secure=request.url.scheme == "https",
        path=_base(request) or "/",
    )  # fmt: skip


def _base(request: Request) -> str:
    return str(request.scope.get("root_path", ""))
