"""What applications use: pages in the common layout, forms, who acts, problems, and larger bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Request, Response
from starlette.datastructures import UploadFile

from tidegate.core.actor import Actor, user_actor
from tidegate.core.checks import whole
from tidegate.ops.rights import Principal
from tidegate.web.problems import Problem, ProblemResponse
from tidegate.web.refusals import wrong
from tidegate.web.site import site_of

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


__all__ = ["MAX_BODY", "body_limit", "current_principal", "current_user", "form", "not_signed_in", "problem"]
