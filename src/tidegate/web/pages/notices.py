"""`/notices` and `/channels`: notices to read and acknowledge, delivery channels and their tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Protocol
from urllib.parse import quote

from fastapi import APIRouter, Form, Path, Query, Request, Response

from tidegate import audit
from tidegate.apps import App, Installed
from tidegate.audit import AuditSubject
from tidegate.errors import NotFound
from tidegate.notices import deliveries, inbox
from tidegate.notices.channels import TARGETS
from tidegate.notices.deliveries import ChannelReport, Delivery
from tidegate.notices.inbox import NoticeLine
from tidegate.notices.policy import GAVE_UP
from tidegate.store.base import ResultPage, Tx
from tidegate.web.auth import current_principal
from tidegate.web.pages.formatters import many
from tidegate.web.pages.forms import Flash, act, answer, attempt, cursor_of
from tidegate.web.pages.render import page
from tidegate.web.site import Site, site_of

_PAGE_SIZE = 50
LEVELS = {
    "error": ("bad", "alert"),
    "warning": ("warn", "info"),
    "success": ("good", "check"),
    "info": ("calm", "info"),
}
_PLACES = {"target": "/targets/", "queue": "/queue/", "job": "/jobs/"}

SNOOZES_IN_WORDS = {"15m": "15 min", "1h": "1 h", "4h": "4 h", "1d": "1 day"}

Field = Annotated[str, Form(max_length=2000)]


router = APIRouter()


@router.get("/notices")
def show(
    request: Request,
    unread: Annotated[str, Query(max_length=5)] = "",
    cursor: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    site = site_of(request)

    def look(tx: Tx) -> tuple[ResultPage[NoticeLine], dict[int, list[Delivery]], list[ChannelReport]]:
        notices = cursor_of(
            cursor, lambda at: inbox.urgent_first(tx, unread_only=bool(unread), cursor=at, limit=_PAGE_SIZE)
        )
        sent = deliveries.deliveries(tx, [line.id for line in notices.items])
        return notices, sent, deliveries.channels(tx)

    listed, sent, ways = site.read(look)
    return page(
        request,
        "notices.html",
        listed=listed,
        sent=sent,
        failing=[channel for channel in ways if channel.fails],
        channelled=bool(ways),
        became=deliveries.what_became,
        snoozes=SNOOZES_IN_WORDS,
        only_unread=bool(unread),
        levels=LEVELS,
        paged=bool(cursor),
        newest=max((line.id for line in listed.items), default=0),
        place=partial(place_of, apps=site.apps),
        opens=partial(opens, apps=site.apps),
    )


@router.post("/notices/{id_}/read")
def read(request: Request, id_: Annotated[int, Path(ge=1, le=2**62)], back: Field = "") -> Response:
    site = site_of(request)

    def work(tx: Tx) -> Flash:
        if inbox.acknowledge(tx, id_, site.actor_of(request)):
            return Flash(text="The notice is marked as read.")
        return Flash(text="It was read already.", tone="warn")

    return answer(request, act(site, work), back, "/notices")


@router.post("/notices/{id_}/snooze")
def snooze(
    request: Request, id_: Annotated[int, Path(ge=1, le=2**62)], lasts: Field = "", back: Field = ""
) -> Response:
    site = site_of(request)

    def work(tx: Tx) -> Flash:
        inbox.snooze(tx, id_, lasts, site.actor_of(request))
        return Flash(text=f"Nobody is told of it for {SNOOZES_IN_WORDS[lasts]}; then again, if it goes on.")

    return answer(request, act(site, work), back, "/notices")


@router.post("/notices/read")
def read_all(request: Request, newest: Annotated[int, Form(ge=0, le=2**62)] = 0, back: Field = "") -> Response:
    site = site_of(request)

    def work(tx: Tx) -> Flash:
        n = inbox.acknowledge_all(tx, newest, site.actor_of(request))
        return Flash(text=f"{many(n, 'notice')} marked as read.")

    return answer(request, act(site, work), back, "/notices")


class About(Protocol):
    """The subject of a notice."""

    @property
    def kind(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def operation(self) -> str: ...


def app_of(line: About, apps: Sequence[Installed[Any]]) -> App[Any] | None:
    """Return the application that a notice about a target comes from."""
    if line.subject != "target":
        return None
    return next((app.app for app in apps if line.name in (app.app.name, *app.app.targets)), None)


def page_of(app: App[Any], key: str) -> str:
    """Return an application's page for one key.

    Empty if it has none. A path that ends in /{id} accepts only numbers.
    """
    for path in (app_page.path for app_page in app.pages):
        if key and path.endswith("/{key}"):
            return path.replace("{key}", quote(key, safe=""))
        if key.isdecimal() and path.endswith("/{id}"):
            return path.replace("{id}", key)
    return ""


def opens(line: About, apps: Sequence[Installed[Any]] = ()) -> str:
    """Return the label of the button that leads there."""
    if line.kind == GAVE_UP or line.name.startswith(TARGETS):
        return "Failures" if line.kind == GAVE_UP else "Channels"
    app = app_of(line, apps)
    return app.home.title if app and app.home else line.name


def place_of(line: About, apps: Sequence[Installed[Any]] = ()) -> str:
    """Return the page of a notice's subject. Empty if it has none.

    The subject may be an application or a target of one. Then it is the application's page, or its page for the key.
    """
    if line.kind == GAVE_UP:
        return "/failures"
    if line.name.startswith(TARGETS):
        return "/channels"
    app = app_of(line, apps)
    if app is not None and app.home is not None:
        return page_of(app, line.key) or app.home.path
    return _PLACES[line.subject] + quote(line.name, safe="") if line.subject in _PLACES else ""


# -- /channels ---------------------------------------------------------------------------------------------------------

_MAIL = re.compile(r"[^@\s<>\",]{1,100}@[^@\s<>\",]{1,150}")

ChannelField = Annotated[str, Form(max_length=300)]


@router.get("/channels")
def show_channels(request: Request) -> Response:
    user = _user_name(request)
    listed, own = site_of(request).read(lambda tx: (deliveries.channels(tx), _address(tx, user)))
    mails = any(channel.row.kind == "smtp" for channel in listed)
    return page(request, "channels.html", listed=listed, own=own, mails=mails)


@router.post("/channels/{name}/test")
def send_test(request: Request, name: Annotated[str, Path(max_length=40)], back: ChannelField = "") -> Response:
    site = site_of(request)
    return answer(request, attempt(lambda: _tested(site, name, site.actor_of(request))), back, "/channels")


@router.post("/channels/address")
def address(request: Request, mail: ChannelField = "", back: ChannelField = "") -> Response:
    site = site_of(request)
    user = _user_name(request)
    by = site.actor_of(request)
    flash = act(site, lambda tx: Flash(text=_set_address(tx, user, mail.strip(), by)))
    return answer(request, flash, back, "/channels")


def _tested(site: Site, name: str, by: str) -> Flash:
    if site.telling is None:
        raise NotFound("no channel is known here; name them in the settings of the server")
    tested = site.telling.test(name, by)
    if tested.fault is None:
        return Flash(text=f"A test was delivered through the channel {name}. Look whether it has come.")
    return Flash(text=f"The channel {name} did not deliver: {tested.why}", tone="bad")


def _user_name(request: Request) -> str:
    principal = current_principal(request)
    return "" if principal is None else principal.owner


def _address(tx: Tx, user: str) -> str:
    return tx.scalar_or_none(str, "address", {"who": user}) or ""


def _set_address(tx: Tx, user: str, mail: str, by: str) -> str:
    if not mail:
        tx.query("address_drop", {"who": user})
        _record_address_change(tx, by, "not mailed")
        return "No mail is sent to you."
    if not _MAIL.fullmatch(mail):
        raise ValueError("mail: that is not a valid address; give one such as ada@example.org")
    tx.query("address_put", {"who": user, "mail": mail})
    _record_address_change(tx, by, "mailed")
    return f"You are mailed at {mail} when an account of yours needs you."


def _record_address_change(tx: Tx, by: str, state: str) -> None:
    """Record the change in the audit log, without the mail address, which is private."""
    audit.append_entry(tx, by, "user_address_set", AuditSubject(subject="user", name=str(by)), became={"state": state})
