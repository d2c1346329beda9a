"""An application with settings of every kind, and the settings with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from tidegate.apps import App
from tidegate.settings import Loaded, Seconds, load


class Radar(BaseModel):
    """The radar."""

    radius: float = Field(default=10.0, gt=0, description="How far it sees.")


class WeatherSettings(BaseModel):
    model_config = ConfigDict(frozen=True)

    gateway_url: str = Field(default="https://weather.example/v1", description="Where the service is.")
    api_key: SecretStr | None = Field(default=None, description="The key of the service.")
    more_keys: tuple[SecretStr, ...] = Field(default=(), description="Keys of other services.")
    every: Seconds = Field(
        default=Seconds("3m"), gt=0, description="How often it asks.",
        json_schema_extra={"env": ["METEO_EVERY", "METEO_INTERVAL"]},
    )  # fmt: skip
    queue_max: int = Field(default=50, ge=1, description="The most that may wait.")
    mode: Literal["live", "stale"] = Field(default="live", description="What it shows.")
    on: bool = Field(default=True, description="Whether it asks at all.")
    stations: tuple[str, ...] = Field(default=("north", "south"), description="The stations.")
    limits: dict[str, int] = Field(default_factory=dict, description="Limits by station.")
    radar: Radar = Field(default=Radar(), description="The radar.")

    @field_validator("api_key")
    @classmethod
    def long_enough(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and len(key.get_secret_value()) < 4:
            raise ValueError(f"{key.get_secret_value()!r} is too short; give a longer key")
        return key


WEATHER = App(name="weather", about="Asks for the weather.", settings=WeatherSettings)


def settings(
    text: str = "",
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
    *,
    apps: tuple[App[Any], ...] = (WEATHER,),
) -> Loaded:
    """The settings of a file with this *text*, in the working directory, and of these variables and flags."""
    if text:
        Path("tidegate.toml").write_text(text)
    return load(environ=environ or {}, flags=flags, apps=apps)


def origins(found: Loaded) -> dict[str, tuple[str, str]]:
    """Value and origin of each key."""
    return {each.key: (each.value, each.origin) for each in found.effective()}
