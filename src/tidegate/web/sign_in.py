"""Signing in and out: a form, a session, a cookie that no script can read."""

from __future__ import annotations

import logging
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse
from starlette.types import Scope

from tidegate.ops import accounts
from tidegate.web.access import COOKIE
from tidegate.web.pages.rendering import rendered
from tidegate.web.pages.saying import local_path
from tidegate.web.sign_in_limit import SignInLimit
from tidegate.web.site import Site

_log = logging.getLogger("tidegate.web")

_WRONG = "The name and the password do not fit together."


def router(site: Site) -> APIRouter:
    found = APIRouter(include_in_schema=False)
    limit = SignInLimit(site.queue.clock.monotonic)

    @found.get("/sign-in")
    def show(request: Request, next: Annotated[str, Query(max_length=2000)] = "") -> Response:  # noqa: A002 - its name
        if site.access.who(site, request) is not None:
            return RedirectResponse(local_path(next, f"{_base(request)}/"), status_code=303)
        return _form(request, next)

    @found.post("/sign-in")
    def sign_in(
        request: Request,
        name: Annotated[str, Form(max_length=200)] = "",
        password: Annotated[str, Form(max_length=2000)] = "",
        next: Annotated[str, Form(max_length=2000)] = "",  # noqa: A002
    ) -> Response:
        address = request.client.host if request.client else ""
        of_name, of_address = f"name {name}", f"address {address}"
        kept = site.read(lambda tx: accounts.kept_of(tx, name))
        wait = limit.begin(of_name, of_address)
        if wait > 0:
            said = f"Too many wrong passwords. Try again in {max(1, round(wait))} s."
            answer = _form(request, next, name, said, status=429)
            answer.headers["Retry-After"] = str(max(1, round(wait)))
            return answer
        if not accounts.fits(password, kept):
            limit.failed(of_address)
            _log.warning("sign_in_failed address=%s", address)
            return _form(request, next, name, _WRONG, status=403)
        limit.passed(of_name, of_address)
        secret = site.write(lambda tx: accounts.begin_session(tx, name))
        answer = RedirectResponse(local_path(next, f"{_base(request)}/"), status_code=303)
        _set(answer, request, secret, int(accounts.LONGEST))
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


def _form(request: Request, back: str, name: str = "", said: str = "", status: int = 200) -> Response:
    values = {"next_page": local_path(back, ""), "name": name, "wrong": said}
    return rendered(request, "sign_in.html", status, values)


def _set(answer: Response, request: Request, secret: str, lasts: int) -> None:
    answer.set_cookie(
        COOKIE, secret, max_age=lasts, httponly=True, samesite="lax", secure=request.url.scheme == "https",
        path=_base(request) or "/",
    )  # fmt: skip


def _base(request: Request) -> str:
    return str(request.scope.get("root_path", ""))
