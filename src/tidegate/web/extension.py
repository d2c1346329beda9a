"""Whose something is: of whoever signed in, or of the browser that came without a name.

An upload page for everybody needs no account, and yet nobody may fetch what another one put in. So a visitor gets a
random id in a signed cookie at the first visit. Nothing is stored: the signature is the proof that we made it.
"""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_hex
from typing import Any, TypeVar

from fastapi import Request, Response
from starlette.datastructures import UploadFile

from tidegate.accounts.access import AuthMethod, Principal
from tidegate.audit import Actor, user_actor
from tidegate.validation import whole
from tidegate.web.auth import WHO
from tidegate.web.middleware import COOKIES
from tidegate.web.problems import Problem, ProblemResponse, wrong
from tidegate.web.site import Site, site_of

# What applications use: pages in the common layout, forms, who acts, problems, and larger bodies.

F = TypeVar("F", bound=Callable[..., Any])

MAX_BODY = "tidegate_most_body"  # on a function that takes more than usual
_MAX_FIELDS = 200


def current_user(request: Request, *, name: str = "") -> str:
    """Who acts, as events name them, and from where; with *name*, under another one."""
    found = Actor.of(site_of(request).actor_of(request))
    return Actor(user_actor(name), found.origin) if name else found


def current_principal(request: Request) -> Principal | None:
    """Who was recognised, with role and way (`who.via`); None for a visitor without a name."""
    who = request.scope.get("tidegate.who")
    return who if isinstance(who, Principal) else None


def not_signed_in(request: Request) -> Problem:
    """What a caller is told who must sign in, or add the first user; reads the store. Raise it."""
    site = site_of(request)
    return site.access.refusal(site)


def problem(
    status: int, code: str, title: str | None = None, detail: str = "", *, retry_after: float | None = None, **more: Any
) -> Response:
    """A problem+json answer with a code of the book or of the application; *more* are further fields of it.

    return problem(409, "NOT_READY", detail="The file is still being made.", retry_after=12)
    """
    return ProblemResponse(Problem(code, detail, status=status, title=title, retry_after=retry_after, **more))


async def form(request: Request) -> dict[str, str]:
    """The fields of a posted form, each once; a file or a field that stands twice is refused."""
    found: dict[str, str] = {}
    async with request.form(max_files=0, max_fields=_MAX_FIELDS) as sent:
        for name, value in sent.multi_items():
            if isinstance(value, UploadFile) or name in found:
                raise wrong(name, "give it once, as a text")
            found[name] = value
    return found


def body_limit(limit: int) -> Callable[[F], F]:
    """Lets a route of an application take a body of up to *most* bytes.

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
LASTS = 400 * 86400  # seconds; browsers keep no cookie for longer
AGAIN = 30 * 86400  # seconds after which a cookie is made anew, so that a regular visitor never loses it
_OWNER = "tidegate.owner"  # in the scope
_VERSION = "1"  # of what the cookie says; another one may have another form, and be read beside this
_PURPOSE = "owner 1"
_MAX_COOKIE_LENGTH = 300  # characters; ours have about 140
_DIGITS = 32  # 128 random bits


def owner_session(request: Request) -> str:
    """The owner of what this request puts in: the same text for everything that the same visitor does.

    `user:ada` for somebody who signed in, `token:7` and `jwt:…` for programs, and `visitor:…` for anybody else, who is
    remembered by a cookie, at this machine too. It goes with whatever answer is given, so it works in a page's `show`,
    as `Depends(owner_session)`, and before a redirect.

    @router.post("/api/files")
    @needs(ANYONE)
    def upload(owner: Annotated[str, Depends(owner_session)]): ...
    """
    found: str | None = request.scope.get(_OWNER)
    if found is None:
        who = request.scope.get(WHO)
        # Whoever is at this machine may do everything, and has no name: two browsers there are two owners.
        named = who if isinstance(who, Principal) and who.via is not AuthMethod.LOCAL else None
        found = request.scope[_OWNER] = f"visitor:{_visitor(request)}" if named is None else named.owner
    return found


def _visitor(request: Request) -> str:
    """The id in the cookie; a new one when there is none, or one that is not ours."""
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
    made = Response()
    made.set_cookie(
        COOKIE,
        value,
        max_age=LASTS,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
        path=str(request.scope.get("root_path", "")) or "/",
    )
    return made.headers["set-cookie"]
