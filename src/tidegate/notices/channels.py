"""Notification channels: their configuration and rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from tidegate.store.base import Tx

PAGE = "page"  # always available, needs no settings
LEVELS = ("info", "success", "warning", "error")  # the most severe last
TLS, STARTTLS, PLAIN = "tls", "starttls", "none"
PORTS = {TLS: 465, STARTTLS: 587, PLAIN: 25}


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A URL that receives a signed POST."""

    kind = "webhook"
    url: str = field(repr=False)
    secret: str = field(default="", repr=False)

    @property
    def shown(self) -> str:
        return _without_secrets(self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """An SMTP server and the recipients."""

    kind = "smtp"
    host: str
    port: int
    security: str = STARTTLS
    user: str = ""
    password: str = field(default="", repr=False)
    sender: str
    to: tuple[str, ...] = ()
    ca_file: str = ""

    @property
    def shown(self) -> str:
        return f"{', '.join(self.to)} by {self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Apprise:
    """An Apprise URL: ntfys://..., tgram://..., and many more."""

    kind = "apprise"
    url: str = field(repr=False)

    @property
    def shown(self) -> str:
        # In most of these URLs even the host is part of a secret.
        return f"{self.url.partition('://')[0] or 'apprise'}://…"


ChannelConfig = Webhook | Mail | Apprise


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One way to notify users. *level* is its lowest level. *standby*: only if other channels could not deliver."""

    name: str
    config: ChannelConfig
    level: str = "warning"
    order: int = 100
    standby: bool = False

    @property
    def target(self) -> str:
        """The target that guards its deliveries."""
        return f"{TARGETS}{self.name}"

    def takes(self, level: str) -> bool:
        return not self.standby and LEVELS.index(level) >= LEVELS.index(self.level)


QUEUE = "notices"  # of delivery jobs
TARGETS = "channel "  # the prefix of those targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One notice as it is sent. *id* is the same in each attempt, so that a receiver can drop a repeat."""

    id: str
    event: str  # "notice.raised", "notice.recovered" or "notice.test"
    level: str
    title: str
    at: float  # when the event was detected
    paragraphs: tuple[str, ...]
    link: str = ""
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def heading(self) -> str:
        """The title as a single line."""
        return " ".join(self.title.split())

    @property
    def text(self) -> str:
        """The whole message as plain text."""
        return "\n\n".join([*self.paragraphs, *([self.link] if self.link else [])])

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON document of a webhook."""
        return {
            "type": self.event,
            "timestamp": datetime.fromtimestamp(self.at, UTC).isoformat(),
            "data": {
                **self.about,
                "level": self.level,
                "title": self.title,
                "text": " ".join(self.paragraphs),
                "link": self.link,
            },
        }


def in_order(channels: tuple[Channel, ...]) -> tuple[Channel, ...]:
    return tuple(sorted(channels, key=lambda channel: (channel.order, channel.name)))


def _without_secrets(url: str) -> str:
    """Returns the URL up to the host. The rest is often a secret."""
    parts = urlsplit(url)
    rest = "/…" if parts.path.strip("/") or parts.query else ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{rest}"


# -- rows --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """One channel as last declared, and the result of its last delivery. The fields are the columns."""

    name: str
    kind: str
    shown: str
    level: str
    place: int
    standby: bool
    digest: str
    there: bool
    last_at: float | None
    last_ok: bool | None
    last_why: str | None
    tested_at: float | None
    tested_ok: bool | None
    tested_why: str | None
    disabled_at: float | None
    disabled_why: str | None


def digest_of(channel: Channel) -> str:
    """Returns a digest that changes when the destination of a channel changes, without revealing it."""
    way = channel.config
    values = [repr(getattr(way, name)) for name in way.__slots__]
    return hashlib.sha256("\n".join([way.kind, *values]).encode()).hexdigest()[:32]


def declare(tx: Tx, channels: Sequence[Channel]) -> list[str]:
    """Stores the channels of the settings where they changed. Marks missing ones as unused.

    Returns the names of channels with a new destination.
    """
    moved = []
    stored = {row.name: row for row in every(tx)}
    for channel in channels:
        way = channel.config
        values = {
            "name": channel.name,
            "kind": way.kind,
            "shown": way.shown,
            "level": channel.level,
            "place": channel.order,
            "standby": int(channel.standby),
            "digest": digest_of(channel),
        }
        row = stored.pop(channel.name, None)
        if row is None or not row.there or any(values[name] != getattr(row, name) for name in values):
            tx.query("channel_put", values)
            moved += [channel.name] if row is not None and row.digest != values["digest"] else []
    for row in stored.values():
        if row.there:
            tx.query("channel_left_out", {"name": row.name})
    return moved


def every(tx: Tx) -> list[ChannelRow]:
    return [replace(row, **_flags(row)) for row in tx.query_as(ChannelRow, "channels")]


def _flags(row: ChannelRow) -> dict[str, Any]:
    """The flags of a channel as bool: the databases store numbers."""
    names = ("standby", "there", "last_ok", "tested_ok")
    return {name: bool(value) for name in names if (value := getattr(row, name)) is not None}
