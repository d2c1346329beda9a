"""The settings models: every key with its default and description. Each application adds a section."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, SecretStr

from tidegate.accounts.access import Issuer
from tidegate.durations import Seconds
from tidegate.secrets import BadSecret, Secrets
from tidegate.settings.location import DEFAULT_PORT, DEFAULT_URL
from tidegate.settings.notices import Channels, NoticeSettings
from tidegate.settings.schema import SettingsSection
from tidegate.store.open import check_listen_url, check_url
from tidegate.validation import valid_name

ALL = "*"  # every application, every queue


def _database(url: str) -> str:
    try:
        check_url(url)
    except ValueError as error:
        raise ValueError(str(error).removeprefix("url: ")) from None
    return url


def _listening(url: str) -> str:
    if url:
        try:
            check_listen_url(url)
        except ValueError as error:
            raise ValueError(str(error).removeprefix("listen_url: ")) from None
    return url


def _address(host: str) -> str:
    try:
        return host if host == "localhost" else str(ip_address(host))
    except ValueError:
        raise ValueError(
            f"{host!r} is not a valid address; give 127.0.0.1, 0.0.0.0, ::1 or another of this machine"
        ) from None


def _host_name(name: str) -> str:
    if not name or set(name) & set("/:@ \t*"):
        raise ValueError(f"{name!r} is not a host name; give a name such as tidegate.lan, without a port")
    return name.lower()


def _network(written: str) -> str:
    try:
        return str(ip_network(written) if "/" in written else ip_address(written))
    except ValueError:
        raise ValueError(f"{written!r} is not a network; give an address such as 10.0.0.1, or 10.0.0.0/8") from None


def _key(key: SecretStr) -> SecretStr:
    if key.get_secret_value():
        try:
            Secrets(key.get_secret_value())
        except BadSecret as error:
            raise ValueError(str(error).removeprefix("secret_key: ")) from None
    return key


def _public_key(pem: str) -> str:
    if pem:
        Issuer.of_public_key(pem)
    return pem


def _name(name: str) -> str:
    try:
        return valid_name(name, field="")
    except ValueError as error:
        raise ValueError(str(error).removeprefix(": ")) from None


Name = Annotated[str, AfterValidator(_name)]


class ServerSettings(SettingsSection):
    """The page and the API."""

    host: Annotated[str, AfterValidator(_address)] = Field(
        default="127.0.0.1",
        description="The address to listen on; to open it to others, add a user first: tidegate user add.",
    )
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535, description="The port to listen on; 0 chooses a free one.")
    names: tuple[Annotated[str, AfterValidator(_host_name)], ...] = Field(
        default=(), description="Host names that requests may use, in addition to localhost."
    )
    trusted_proxies: tuple[Annotated[str, AfterValidator(_network)], ...] = Field(
        default=("127.0.0.1", "::1"),
        description="Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are used.",
    )


class Jwt(SettingsSection):
    """JSON Web Tokens of somebody else, beside those that `tidegate token jwt` makes."""

    public_key: Annotated[str, AfterValidator(_public_key)] = Field(
        default="",
        json_schema_extra={"reference": True},
        description="The public key of the issuer (RSA, EC P-256 or Ed25519, in PEM form); file:PATH reads it.",
    )
    issuer: str = Field(default="tidegate", min_length=1, description="The issuer that the tokens must name (iss).")
    audience: str = Field(default="tidegate", min_length=1, description="The audience that the tokens must name (aud).")


class WorkerSettings(SettingsSection):
    """The workers that run beside the server."""

    concurrency: int = Field(default=20, ge=1, le=10_000, description="Maximum number of concurrent jobs.")
    queues: tuple[Name, ...] = Field(default=(ALL,), description="The queues to work on; * means all.")
    grace: Seconds = Field(default=Seconds("20s"), description="How long running jobs may finish after a stop signal.")


class Log(SettingsSection):
    """What is written to the log."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The lowest level that is logged."
    )
    format: Literal["auto", "text", "json"] = Field(
        default="auto", description="text, json, or auto: text on a terminal, json elsewhere."
    )


class QueueRetention(SettingsSection):
    """How long jobs of one queue are kept; what is not given is as in [retention]."""

    done: Seconds | None = Field(default=None, description="How long finished jobs are kept.")
    failed: Seconds | None = Field(default=None, description="How long failed jobs are kept.")
    cancelled: Seconds | None = Field(default=None, description="How long cancelled jobs are kept.")


class Retention(SettingsSection):
    """How long finished jobs are kept. A section [retention.QUEUE] says it for one queue."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, QueueRetention] = Field(init=False)

    done: Seconds = Field(default=Seconds("7d"), description="How long finished jobs are kept.")
    failed: Seconds = Field(default=Seconds("30d"), description="How long failed jobs are kept.")
    cancelled: Seconds = Field(default=Seconds("30d"), description="How long cancelled jobs are kept.")

    def by_queue(self) -> dict[str, dict[str, float]]:
        """Returns seconds by queue and state, as `Queue(retention=...)` expects them."""
        sections: list[tuple[str, Retention | QueueRetention]] = [(ALL, self), *self.__pydantic_extra__.items()]
        retention = {
            queue: {state: age for state in Retention.model_fields if (age := getattr(section, state)) is not None}
            for queue, section in sections
        }
        # An empty section would override the default that an application sets for its queue.
        return {queue: ages for queue, ages in retention.items() if ages}


class Settings(SettingsSection):
    """The settings of the server, of its workers and of the commands."""

    db: Annotated[str, AfterValidator(_database)] = Field(
        default=DEFAULT_URL,
        repr=False,
        json_schema_extra={"reference": True},
        description="The database: sqlite:///tidegate.db or postgresql://user@host/database; PgBouncer: ?pooled=true.",
    )
    listen_url: Annotated[str, AfterValidator(_listening)] = Field(
        default="",
        repr=False,
        json_schema_extra={"reference": True},
        description="A direct connection to PostgreSQL, where db is pooled; without it, workers poll.",
    )
    apps: tuple[Name, ...] = Field(
        default=(ALL,), description="The applications to run; * means all that are installed."
    )
    simulators: bool = Field(
        default=False, description="Run the applications on their simulators, not on the real services."
    )
    secret_key: Annotated[SecretStr, AfterValidator(_key)] = Field(
        default=SecretStr(""),
        description="The key that signs and encrypts, 32 characters or more; without it, secret_key_file has one.",
    )
    secret_key_file: str = Field(
        default="tidegate.key",
        min_length=1,
        description="The file with that key; created at the first start, readable only by its owner.",
    )
    server: ServerSettings = ServerSettings()
    jwt: Jwt = Jwt()
    worker: WorkerSettings = WorkerSettings()
    log: Log = Log()
    retention: Retention = Retention()
    notices: NoticeSettings = NoticeSettings()
    channels: Channels = Channels()

    @property
    def address(self) -> str:
        """The URL of the page, for links in notices."""
        host = f"[{self.server.host}]" if ":" in self.server.host else self.server.host
        return self.notices.address or f"http://{host}:{self.server.port}"
