"""The sections [notices] and [channels.NAME]: when and where users are notified."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, ConfigDict, Field, SecretStr, model_validator

from tidegate.durations import Seconds
from tidegate.notices.channels import PAGE, PORTS, Apprise, Channel, Mail, Webhook, in_order
from tidegate.notices.policy import NoticePolicy, QuietHours
from tidegate.notices.senders import key_of
from tidegate.settings.schema import SettingsSection

_MAIL = re.compile(r"[^@\s<>\",]+@[^@\s<>\",]+")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_MIN_SECRET_LENGTH = 16
# Required and optional keys of each kind.
_NEEDS = {"webhook": ("url",), "smtp": ("host", "sender", "to"), "apprise": ("url",)}
_MAY = {"webhook": ("secret",), "smtp": ("port", "security", "user", "password", "ca_file"), "apprise": ()}
_OF_ALL = ("kind", "level", "order", "standby")


def _address(text: str) -> str:
    if not _MAIL.fullmatch(text):
        raise ValueError(f"{text!r} is not an email address; give one such as ops@example.org")
    return text


def _link(url: str) -> str:
    if url and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
        raise ValueError(f"{url!r} is not the URL of a page; give one such as https://tidegate.example.org")
    return url.rstrip("/")


def _leads_to_a_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # its message would show a part of the URL, which is secret
        return False


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone; give one such as UTC or Europe/Berlin") from None
    return name


def _hours(text: str) -> str:
    if text:
        QuietHours.of(text, ZoneInfo("UTC"))
    return text


Address = Annotated[str, AfterValidator(_address)]


class ChannelSettings(SettingsSection):
    """One way to reach people, beside the page."""

    kind: Literal["webhook", "smtp", "apprise"] = Field(description="webhook, smtp or apprise (ntfy, Telegram, ...).")
    level: Literal["info", "warning", "error"] = Field(
        default="warning", description="The lowest level that it receives; it also gets the recovery of each."
    )
    order: int = Field(
        default=100, ge=0, le=10_000, description="The next channel in this order gets what a channel cannot deliver."
    )
    standby: bool = Field(default=False, description="Receives only what another channel could not deliver.")
    url: SecretStr = Field(default=SecretStr(""), description="webhook and apprise: the URL to send to.")
    secret: SecretStr = Field(
        default=SecretStr(""), description="webhook: the signing secret, whsec_... or at least 16 characters."
    )
    host: str = Field(default="", description="smtp: the mail server.")
    port: int | None = Field(default=None, ge=1, le=65535, description="smtp: its port, if not the usual one.")
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="smtp: starttls (port 587), tls (port 465) or none (port 25)."
    )
    user: str = Field(default="", description="smtp: the user name, if the server needs one.")
    password: SecretStr = Field(default=SecretStr(""), description="smtp: the password of that user.")
    ca_file: str = Field(default="", description="smtp: certificates to trust, if not those of the system.")
    sender: Annotated[str, AfterValidator(lambda text: text and _address(text))] = Field(
        default="", description="smtp: the sender address."
    )
    to: tuple[Address, ...] = Field(default=(), description="smtp: the recipient addresses.")

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        given_names = {name for name in self.model_fields_set if _shown(getattr(self, name)) not in ("", (), None)}
        for name in _NEEDS[self.kind]:
            if name not in given_names:
                raise ValueError(f"a channel of the kind {self.kind} needs {name}; give it")
        for name in sorted(given_names - {*_NEEDS[self.kind], *_MAY[self.kind], *_OF_ALL}):
            raise ValueError(f"a channel of the kind {self.kind} has no {name}; remove it")
        url, secret = self.url.get_secret_value(), self.secret.get_secret_value()
        if self.kind == "webhook" and not _leads_to_a_server(url):
            raise ValueError("url must begin with http:// or https:// and name a host, and a port only as a number")
        if self.kind == "apprise" and not re.match("[A-Za-z][A-Za-z0-9+.-]*://", url):
            raise ValueError("url is not a URL of apprise; give one such as ntfys://ntfy.sh/topic")
        if secret and len(key_of(secret)) < _MIN_SECRET_LENGTH:
            raise ValueError(f"secret must have {_MIN_SECRET_LENGTH} bytes or more; make one: openssl rand -hex 32")
        if self.password.get_secret_value() and not self.user:
            raise ValueError("password was given without user; add user")
        return self

    def channel(self, name: str) -> Channel:
        return Channel(name=name, config=self._way(), level=self.level, order=self.order, standby=self.standby)

    def _way(self) -> Webhook | Mail | Apprise:
        url = self.url.get_secret_value()
        if self.kind == "webhook":
            return Webhook(url=url, secret=self.secret.get_secret_value())
        if self.kind == "apprise":
            return Apprise(url=url)
        return Mail(
            host=self.host,
            port=self.port or PORTS[self.security],
            security=self.security,
            user=self.user,
            password=self.password.get_secret_value(),
            sender=self.sender,
            to=self.to,
            ca_file=self.ca_file,
        )


class Channels(SettingsSection):
    """Where people are told beside the page: a section [channels.NAME] for each channel."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, ChannelSettings] = Field(init=False)

    @model_validator(mode="after")
    def _named(self) -> Self:
        for name in self.__pydantic_extra__:
            if not _NAME.fullmatch(name) or name == PAGE:
                raise ValueError(
                    f"{name!r} is not a valid channel name; give up to 40 small letters, digits, - and _, not {PAGE}"
                )
        return self

    def all(self) -> tuple[Channel, ...]:
        """Returns every channel, in order."""
        return in_order(tuple(settings.channel(name) for name, settings in self.__pydantic_extra__.items()))


class NoticeSettings(SettingsSection):
    """When people are told, and what is too little to be told."""

    address: Annotated[str, AfterValidator(_link)] = Field(
        default="", description="The public URL of the server, for links; by default from server.host and server.port."
    )
    breaker: Seconds = Field(
        default=Seconds("5m"), description="How long a breaker must be open before a notice is sent."
    )
    group: Seconds = Field(
        default=Seconds("5m"), description="How long failed jobs with the same reason are collected into one notice."
    )
    steady: Seconds = Field(
        default=Seconds("10m"), description="How long a service must work before its recovery is reported."
    )
    flaps: int = Field(
        default=4, ge=1, le=1000, description="State changes per hour above which a service is flapping; sent once."
    )
    steady_after_flaps: Seconds = Field(
        default=Seconds("30m"), description="How long a flapping service must be stable before further notices."
    )
    quiet: Annotated[str, AfterValidator(_hours)] = Field(
        default="", description="Quiet hours, such as 22:00-07:00: only errors are sent, the rest waits."
    )
    zone: Annotated[str, AfterValidator(_zone)] = Field(default="UTC", description="The time zone of quiet hours.")
    stuck: Seconds = Field(default=Seconds("15m"), description="How long a job may wait although nothing holds it.")
    no_worker: Seconds = Field(default=Seconds("2m"), description="How long jobs may wait without a worker.")
    paused: Seconds = Field(default=Seconds("1d"), description="How long a queue or a target may be paused.")
    patience: Seconds = Field(
        default=Seconds("15m"), description="How long a channel is retried before the next one gets the notice."
    )
    mail_again: Seconds = Field(
        default=Seconds("7d"), description="Minimum time between two emails to a user about the same service."
    )

    def policy(self) -> NoticePolicy:
        quiet = QuietHours.of(self.quiet, ZoneInfo(self.zone)) if self.quiet else None
        return NoticePolicy(
            grace=float(self.breaker),
            group=float(self.group),
            steady=float(self.steady),
            flaps=self.flaps,
            steady_after_flaps=float(self.steady_after_flaps),
            quiet=quiet,
            stuck=float(self.stuck),
            no_worker=float(self.no_worker),
            paused=float(self.paused),
            patience=float(self.patience),
            mail_again=float(self.mail_again),
        )


def _shown(value: object) -> object:
    return value.get_secret_value() if isinstance(value, SecretStr) else value
