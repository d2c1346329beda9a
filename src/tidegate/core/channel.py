"""Where people are told: the channels of an operator, as values, and what is sent through one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

PAGE = "page"  # always there, and needs no settings
LEVELS = ("info", "success", "warning", "error")  # the heaviest last
TLS, STARTTLS, PLAIN = "tls", "starttls", "none"
PORTS = {TLS: 465, STARTTLS: 587, PLAIN: 25}


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """An address that takes a signed POST."""

    kind = "webhook"
    url: str = field(repr=False)
    secret: str = field(default="", repr=False)

    @property
    def shown(self) -> str:
        return _without_secrets(self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A mail server, and who gets what it sends."""

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
    """An address of apprise: ntfys://..., tgram://..., and a hundred more."""

    kind = "apprise"
    url: str = field(repr=False)

    @property
    def shown(self) -> str:
        # In most of these addresses even the host is part of a secret.
        return f"{self.url.partition('://')[0] or 'apprise'}://…"


ChannelConfig = Webhook | Mail | Apprise


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One way to reach people. *level* is the least that it is told; *standby*: only what others could not deliver."""

    name: str
    config: ChannelConfig
    level: str = "warning"
    order: int = 100
    standby: bool = False

    @property
    def target(self) -> str:
        """The target that its deliveries are behind."""
        return f"{TARGETS}{self.name}"

    def takes(self, level: str) -> bool:
        return not self.standby and LEVELS.index(level) >= LEVELS.index(self.level)


QUEUE = "notices"  # of the jobs that deliver
TARGETS = "channel "  # how the names of those targets begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One notice as it is sent. *id* is the same in each attempt, so that a receiver can drop a repeat."""

    id: str
    event: str  # "notice.raised", "notice.recovered" or "notice.test"
    level: str
    title: str
    at: float  # when what it tells of was noticed
    paragraphs: tuple[str, ...]
    link: str = ""
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def heading(self) -> str:
        """The title in one line, wherever a line must be one."""
        return " ".join(self.title.split())

    @property
    def text(self) -> str:
        """The whole of it, as plain text."""
        return "\n\n".join([*self.paragraphs, *([self.link] if self.link else [])])

    def as_json(self) -> dict[str, Any]:
        """The document that a webhook gets."""
        return {
            "type": self.event, "timestamp": datetime.fromtimestamp(self.at, UTC).isoformat(),
            "data": {**self.about, "level": self.level, "title": self.title, "text": " ".join(self.paragraphs),
                     "link": self.link},
        }  # fmt: skip


def in_order(channels: tuple[Channel, ...]) -> tuple[Channel, ...]:
    return tuple(sorted(channels, key=lambda each: (each.order, each.name)))


def _without_secrets(url: str) -> str:
    """The beginning of an address; what follows the host is often a secret."""
    parts = urlsplit(url)
    rest = "/…" if parts.path.strip("/") or parts.query else ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{rest}"
