"""Settings of music: the section `music`, with one table per installed provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, SecretStr, create_model, field_validator

from tidegate.guard import Seconds
from tidegate.net import Networks
from tidegate_apps.music.client import fits_a_header
from tidegate_apps.music.provider import ProviderKind
from tidegate_apps.music.registry import kinds
from tidegate_apps.music.transport import HOME

_MIN_INTERVAL = 10.0  # seconds
_MIN_PROBE_INTERVAL = 60.0  # seconds


class MusicSettings(BaseModel):
    """What can be set; each with what it is good for."""

    model_config = ConfigDict(extra="forbid")

    sync: bool = Field(default=True, description="Whether this server syncs; one that only shows the library does not.")
    contact: str = Field(
        default="", max_length=200, description="An address or a web page for the services, in case they wonder."
    )
    public_url: str = Field(
        default="", description="How browsers reach this server, for logins; empty: as they call it."
    )
    backoff_base: Seconds = Field(default=Seconds("30s"), gt=0, description="The wait after a first failure.")
    backoff_cap: Seconds = Field(default=Seconds("30m"), gt=0, description="The longest wait after failures.")
    backoff_jitter: float = Field(default=0.25, ge=0, lt=1, description="How far chance moves a wait: a share of it.")
    cap_notice: bool = Field(default=True, description="Tell once when the waits have reached the longest.")
    reprobe: Seconds = Field(
        default=Seconds("1h"),
        ge=0,
        description="Between two calls after a fault of quota or configuration; 0: none is made.",
    )
    deadline: Seconds = Field(default=Seconds("15m"), ge=60, description="For one step of a sync, waits included.")
    keep_health: bool = Field(
        default=False, description="Keep failures and waits in the store, so that a restart does not forget them."
    )
    look_every: Seconds = Field(
        default=Seconds("1s"), ge=0.1, description="How soon a connection that was changed elsewhere is noticed."
    )
    ask_again: Seconds = Field(
        default=Seconds("7d"), ge=3600, description="How long an answer that there is nothing is believed."
    )
    pictures: bool = Field(default=True, description="Fetch pictures for the library, through this server.")
    allow_networks: tuple[str, ...] = Field(
        default=(), description="Networks that pictures may be fetched from although they are private, as 10.0.0.0/8."
    )
    server_networks: tuple[str, ...] = Field(
        default=HOME,
        description="Private networks that a server may be in whose address a user enters; empty: public ones only.",
    )
    connect: dict[str, dict[str, dict[str, SecretStr]]] = Field(
        default_factory=dict, description="Connections that are there from the start: user, provider, what it asks for."
    )

    @field_validator("contact")
    @classmethod
    def _can_be_sent(cls, value: str) -> str:
        if not fits_a_header(value):
            raise ValueError("it goes along with every request; give letters without accents, in one line")
        return value

    @field_validator("reprobe")
    @classmethod
    def _not_too_often(cls, value: Seconds) -> Seconds:
        if 0 < float(value) < _MIN_PROBE_INTERVAL:
            raise ValueError(f"{float(value):g} s is too often; give {_MIN_PROBE_INTERVAL:g} s or more, or 0 for never")
        return value

    @field_validator("allow_networks", "server_networks")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        Networks(value)
        return value


class ProviderSettings(BaseModel):
    """What every provider can be set to. What the operator enters for all users, and its addresses, come with it."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = True
    every: Seconds = Seconds("5m")


def setting_of_address(kind: str, address: str) -> str:
    """Return the key of a URL: `url` for the one that is named like its provider, else its distinct part."""
    rest = address.removeprefix(kind).strip("_")
    return f"{rest}_url" if rest else "url"


def table_of(kind: ProviderKind) -> type[ProviderSettings]:
    """Return the table of one provider."""
    fields: dict[str, Any] = {
        "enabled": (bool, Field(default=True, description=f"Whether {kind.title} is called at all.")),
        "every": (Seconds, Field(default=Seconds(kind.every), ge=_MIN_INTERVAL, description="Between two syncs.")),
    }
    for operator_field in (field for field in kind.fields if field.operator):
        said = f"{operator_field.label} of {kind.title}, for all users." + (
            f" {operator_field.hint}" if operator_field.hint else ""
        )
        of_type: Any = SecretStr if operator_field.secret else str
        fields[operator_field.name] = (of_type, Field(default=of_type(operator_field.default), description=said))
    for address, where in kind.addresses.items():
        said = f"Where {kind.title} is."
        fields[setting_of_address(kind.name, address)] = (str, Field(default=where, description=said))
    return create_model(f"{kind.name.capitalize()}Settings", __base__=ProviderSettings, __doc__=kind.about, **fields)


def with_tables(known: Mapping[str, ProviderKind]) -> type[MusicSettings]:
    """Return the settings with a table for each provider."""
    tables: dict[str, Any] = {}
    for kind in known.values():
        table = table_of(kind)
        tables[kind.name] = (table, Field(default_factory=table, description=kind.about))
    return cast(
        "type[MusicSettings]", create_model("Settings", __base__=MusicSettings, __doc__=MusicSettings.__doc__, **tables)
    )


def of_kind(settings: MusicSettings, kind: ProviderKind) -> ProviderSettings:
    """Return the table of a provider; its defaults if the settings are older than the provider."""
    table = getattr(settings, kind.name, None)
    return table if isinstance(table, ProviderSettings) else table_of(kind)()


def operator_values(settings: MusicSettings, kind: ProviderKind) -> dict[str, str]:
    """Return what the operator has entered for all users."""
    table = of_kind(settings, kind)
    values = {field.name: _plain(getattr(table, field.name)) for field in kind.fields if field.operator}
    return {name: value for name, value in values.items() if value}


def addresses(settings: MusicSettings, kind: ProviderKind) -> dict[str, str]:
    table = of_kind(settings, kind)
    return {name: getattr(table, setting_of_address(kind.name, name)) for name in kind.addresses}


def declared(settings: MusicSettings) -> dict[tuple[str, str], dict[str, str]]:
    """Return the connections of the settings, by user and provider."""
    return {
        (user, provider): {name: value.get_secret_value() for name, value in values.items()}
        for user, of_user in settings.connect.items()
        for provider, values in of_user.items()
    }


def _plain(value: object) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


SETTINGS = with_tables(kinds())
