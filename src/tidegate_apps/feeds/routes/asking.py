"""Who may ask for what."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request

from tidegate.web import Problem, Right, who_asks
from tidegate_apps.feeds.routes.shapes import LARGEST
from tidegate_apps.feeds.sources import AUTO

SourceId = Annotated[int, Path(ge=1, le=LARGEST, description="The number of a source.")]
_JWT, _POLLER = "jwt", "poller"
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="tidegate"'}


def may(request: Request, *rights: Right) -> None:
    """Problem unless whoever asks has one of these rights."""
    who = who_asks(request)
    if who is None:
        raise Problem("not_signed_in", headers=_CHALLENGE)
    if not any(who.may(right) for right in rights):
        raise Problem("not_allowed", f"{who.name} is {who.role} and may not do this.")


def sees(request: Request) -> None:
    """Readers, and programs that poll."""
    may(request, Right.SEE, Right.SWITCH_FEEDS)


def switcher(request: Request) -> str:
    """Who enables or disables a feed, by a JSON Web Token and by nothing else; `auto` for a poller."""
    who = who_asks(request)
    if who is None or who.via != _JWT:
        raise Problem("not_signed_in", "Send a JSON Web Token: Authorization: Bearer.", headers=_CHALLENGE)
    may(request, Right.SWITCH_FEEDS)
    return AUTO if who.role == _POLLER else who.name.removeprefix(f"{_JWT} ")


def is_poller(request: Request) -> bool:
    who = who_asks(request)
    return who is not None and who.role == _POLLER


Switcher = Annotated[str, Depends(switcher)]
Sees = Depends(sees)
