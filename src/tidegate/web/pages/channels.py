"""`/channels`: where people are told, how the last delivery of each went, and a test of it."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Form, Path, Request, Response

from tidegate.errors import NotFound
from tidegate.ops import channels
from tidegate.store import activity_rows
from tidegate.store.activity_rows import AuditSubject
from tidegate.store.tx import Tx
from tidegate.web.access import WHO
from tidegate.web.pages.rendering import page
from tidegate.web.pages.saying import Flash, act, answer, attempt
from tidegate.web.site import Site, site_of

_MAIL = re.compile(r"[^@\s<>\",]{1,100}@[^@\s<>\",]{1,150}")

ChannelField = Annotated[str, Form(max_length=300)]


router = APIRouter()


@router.get("/channels")
def show_channels(request: Request) -> Response:
    who = _who(request)
    listed, own = site_of(request).read(lambda tx: (channels.channels(tx), _address(tx, who)))
    mails = any(each.row.kind == "smtp" for each in listed)
    return page(request, "channels.html", listed=listed, own=own, mails=mails)


@router.post("/channels/{name}/test")
def send_test(request: Request, name: Annotated[str, Path(max_length=40)], back: ChannelField = "") -> Response:
    site = site_of(request)
    return answer(request, attempt(lambda: _tested(site, name, site.actor_of(request))), back, "/channels")


@router.post("/channels/address")
def address(request: Request, mail: ChannelField = "", back: ChannelField = "") -> Response:
    site = site_of(request)
    who = _who(request)
    by = site.actor_of(request)
    said = act(site, lambda tx: _put(tx, who, mail.strip(), by), lambda text: Flash(text=text))
    return answer(request, said, back, "/channels")


def _tested(site: Site, name: str, by: str) -> Flash:
    if site.telling is None:
        raise NotFound("no channel is known here; name them in the settings of the server")
    tested = site.telling.test(name, by)
    if tested.fault is None:
        return Flash(text=f"A test was delivered through the channel {name}. Look whether it has come.")
    return Flash(text=f"The channel {name} did not deliver: {tested.why}", tone="bad")


def _who(request: Request) -> str:
    who = request.scope.get(WHO)
    return "" if who is None else str(who.owner)


def _address(tx: Tx, who: str) -> str:
    rows = tx.query("address", {"who": who})
    return str(rows[0][0]) if rows else ""


def _put(tx: Tx, who: str, mail: str, by: str) -> str:
    if not mail:
        tx.query("address_drop", {"who": who})
        _noted(tx, by, "not mailed")
        return "No mail is sent to you."
    if not _MAIL.fullmatch(mail):
        raise ValueError("mail: that is no address; give one such as ada@example.org")
    tx.query("address_put", {"who": who, "mail": mail})
    _noted(tx, by, "mailed")
    return f"You are mailed at {mail} when an account of yours needs you."


def _noted(tx: Tx, by: str, state: str) -> None:
    """The address itself is nobody else's business."""
    activity_rows.append_entry(
        tx, by, "user_address_set", AuditSubject(subject="user", name=str(by)), became={"state": state}
    )
