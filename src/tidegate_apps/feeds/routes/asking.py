"""Who may ask for what."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.types import Message

from tidegate.web import Permission, Problem, current_principal, current_user
from tidegate_apps.feeds.routes.shapes import MAX_ID
from tidegate_apps.feeds.source import AUTO

SourceId = Annotated[int, Path(ge=1, le=MAX_ID, description="The number of a source.")]
_JWT, _POLLER = "jwt", "poller"
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="tidegate"'}


def may(request: Request, *rights: Permission) -> None:
    """Problem unless whoever asks has one of these rights."""
    who = current_principal(request)
    if who is None:
        raise Problem("not_signed_in", headers=_CHALLENGE)
    if not any(who.has_permission(right) for right in rights):
        raise Problem("not_allowed", f"{who.name} is {who.role} and may not do this.")


def sees(request: Request) -> None:
    """Readers, and programs that poll."""
    may(request, Permission.SEE, Permission.SWITCH_FEEDS)


def switcher(request: Request) -> str:
    """Who enables or disables a feed, by a JSON Web Token and by nothing else; `auto` for a poller."""
    who = current_principal(request)
    if who is None or who.via != _JWT:
        raise Problem("not_signed_in", "Send a JSON Web Token: Authorization: Bearer.", headers=_CHALLENGE)
    may(request, Permission.SWITCH_FEEDS)
    return AUTO if who.role == _POLLER else current_user(request, name=who.name.removeprefix(f"{_JWT} "))


def is_poller(request: Request) -> bool:
    who = current_principal(request)
    return who is not None and who.role == _POLLER


def sees_whole(request: Request) -> bool:
    """Whether an address may be shown with its password: to whoever may change it, and to a program that polls it."""
    who = current_principal(request)
    return who is not None and (who.has_permission(Permission.PUT_IN) or who.role == _POLLER)


class SwitcherFirst(APIRoute):
    """Who has no token learns nothing else.

    A body that is no JSON is refused before anybody asks who sent it; so here that is asked with another body first.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def asked(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                if all(each["type"] != "json_invalid" for each in error.errors()):
                    raise
                with contextlib.suppress(RequestValidationError):  # it names no reason, so nothing is changed
                    await handle(Request(request.scope, _no_reason))
                raise

        return asked


async def _no_reason() -> Message:
    return {"type": "http.request", "body": b"{}", "more_body": False}


Switcher = Annotated[str, Depends(switcher)]
Sees = Depends(sees)
