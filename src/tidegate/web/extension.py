"""What applications use of the server: the current user, forms, problems, body limits and owner sessions."""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_hex
from typing import Any, TypeVar

from fastapi import Request, Response
from starlette.datastructures import UploadFile

from tidegate.accounts.access import AuthMethod
from tidegate.audit import Actor, user_actor
from tidegate.validation import whole
from tidegate.web.auth import current_principal
from tidegate.web.middleware import COOKIES
from tidegate.web.problems import Problem, ProblemResponse, wrong
from tidegate.web.site import Site, site_of

F = TypeVar("F", bound=Callable[..., Any])

MAX_BODY = "tidegate_most_body"  # attribute on a function with its own limit
_MAX_FIELDS = 200


def current_user(request: Request, *, name: str = "") -> str:
    """Return the actor for events, with its origin. *name* replaces the name of the signed-in user."""
    actor = Actor.of(site_of(request).actor_of(request))
    return Actor(user_actor(name), actor.origin) if name else actor


def not_signed_in(request: Request) -> Problem:
    """Return the problem that asks a caller to sign in or to add the first user. It reads the store. Raise it."""
    site = site_of(request)
    return site.access.refusal(site)


def problem(
    status: int, code: str, title: str | None = None, detail: str = "", *, retry_after: float | None = None, **more: Any
) -> Response:
    """Return a problem+json response with a code of Tidegate or of the application. *more* are additional fields.

    return problem(409, "NOT_READY", detail="The file is still being made.", retry_after=12)
    """
    return ProblemResponse(Problem(code, detail, status=status, title=title, retry_after=retry_after, **more))


async def form(request: Request) -> dict[str, str]:
    """Return the fields of a posted form. A file or a repeated field is rejected."""
    fields: dict[str, str] = {}
    async with request.form(max_files=0, max_fields=_MAX_FIELDS) as sent:
        for name, value in sent.multi_items():
            if isinstance(value, UploadFile) or name in fields:
                raise wrong(name, "give it once, as a text")
            fields[name] = value
    return fields


def body_limit(limit: int) -> Callable[[F], F]:
    """Allow a route of an application a body of up to *limit* bytes.

    @router.post("/api/upload")
    @body_limit(50_000_000)
    async def upload(...): ...
    """
    whole(limit, field="limit", maximum=2**40)

    def mark(fn: F) -> F:
        setattr(fn, MAX_BODY, limit)
        return fn

    return mark


COOKIE = "tidegate_owner"
LASTS = 400 * 86400  # seconds; browsers cap the lifetime of a cookie here
AGAIN = 30 * 86400  # seconds after which the cookie is renewed, so that a regular visitor keeps it
_OWNER = "tidegate.owner"  # key in the ASGI scope
_VERSION = "1"  # of the cookie format; a later format can be read as well as this one
_PURPOSE = "owner 1"
_MAX_COOKIE_LENGTH = 300  # characters; a valid cookie has about 140
_DIGITS = 32  # 128 random bits


def owner_session(request: Request) -> str:
    """Return the owner of what this request creates: the same text for every request of one visitor.

    `user:ada` for a signed-in user, `token:7` and `jwt:…` for programs, and `visitor:…` for an anonymous browser, local
    ones too. An upload page for everyone needs no account, but a visitor must not read the files of another one. So an
    anonymous visitor gets a random id in a signed cookie. Nothing is stored: the signature proves the origin. The
    cookie goes with every kind of response, so this works in a page's `show`, as `Depends(owner_session)`, and before a
    redirect.

    @router.post("/api/files")
    @requires(PUBLIC)
    def upload(owner: Annotated[str, Depends(owner_session)]): ...
    """
    owner: str | None = request.scope.get(_OWNER)
    if owner is None:
        principal = current_principal(request)
        # A local request has every permission but no user name. Two browsers on this machine are two owners.
        if principal is None or principal.via is AuthMethod.LOCAL:
            owner = f"visitor:{_visitor(request)}"
        else:
            owner = principal.owner
        request.scope[_OWNER] = owner
    return owner


def _visitor(request: Request) -> str:
    """Return the visitor id of the cookie, or a new id if the cookie is missing or invalid."""
    site = site_of(request)
    if site.visitor:
        return site.visitor
    now = site.queue.clock.now()
    id_, made_at = _read(site, request.cookies.get(COOKIE, "")) or (token_hex(_DIGITS // 2), 0.0)
    if not 0 <= now - made_at < AGAIN:
        request.scope[COOKIES].append(
            _cookie(request, f"{_VERSION}.{site.access.secrets.sign(_PURPOSE, f'{id_} {int(now)}')}")
        )
    return id_


def _read(site: Site, cookie: str) -> tuple[str, float] | None:
    version, _, signed = cookie.partition(".")
    if version != _VERSION or len(cookie) > _MAX_COOKIE_LENGTH:
        return None
    text = site.access.secrets.read(_PURPOSE, signed)
    if text is None:
        return None
    id_, _, made_at = text.partition(" ")
    return id_, float(made_at)


def _cookie(request: Request, value: str) -> str:
    response = Response()
    response.set_cookie(
        COOKIE,
        value,
        max_age=LASTS,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
        path=str(request.scope.get("root_path", "")) or "/",
    )
    return response.headers["set-cookie"]
