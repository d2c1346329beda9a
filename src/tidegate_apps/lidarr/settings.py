"""Settings of lidarr: the section `lidarr`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from tidegate.apps import validate_url
from tidegate.guard import Seconds


def _address(value: str) -> str:
    return validate_url(value, "one such as http://lidarr:8686, or nothing to send nothing")


class LidarrSettings(BaseModel):
    """What can be set; each with what it is good for."""

    model_config = ConfigDict(frozen=True)

    base_url: Annotated[str, AfterValidator(_address)] = Field(
        default="",
        json_schema_extra={"env": "SPOTTER_LIDARR_BASE_URL"},
        description="The address of Lidarr; nothing is looked up and nothing is sent without it.",
    )
    api_key: SecretStr = Field(
        default=SecretStr(""),
        json_schema_extra={"env": "SPOTTER_LIDARR_API_KEY"},
        description="The key of its API; env:NAME or file:PATH.",
    )
    queue_max: int = Field(
        default=50,
        ge=1,
        le=10_000,
        json_schema_extra={"env": "SPOTTER_LIDARR_QUEUE_MAX"},
        description="Nothing is sent while Lidarr has so many downloads in its queue.",
    )
    submit_interval: Seconds = Field(
        default=Seconds("3m"),
        ge=1,
        le=86400,
        json_schema_extra={"env": "SPOTTER_LIDARR_SUBMIT_INTERVAL"},
        description="Between two wakes; nothing is sent at any other time.",
    )
    credits: bool = Field(
        default=True, description="Count albums that were sent and do not show in Lidarr's queue yet as if they did."
    )
    credit_time: Seconds = Field(
        default=Seconds("15m"), gt=0, le=86400, description="How long an album that was sent counts so at most."
    )
    breaker: bool = Field(
        default=True,
        description="After five failures of the whole of Lidarr, or of its metadata service, in a row, hold the rest.",
    )
    permanent: bool = Field(
        default=True, description="Give up at once on what Lidarr says it does not know, or has no folder for."
    )
    attempts: int = Field(default=10, ge=1, le=100, description="How often an entry is sent before it is given up.")
    timeout: Seconds = Field(default=Seconds("60s"), gt=0, le=600, description="For one call of Lidarr.")
    refresh_wait: Seconds = Field(
        default=Seconds("10s"),
        ge=0,
        le=60,
        description="How long to wait for the albums of a new artist.",
    )
    root_folder: str = Field(default="", description="The path of the root folder in Lidarr; empty: its first one.")
    quality_profile: str = Field(default="", description="Its name in Lidarr; empty: the one of the root folder.")
    metadata_profile: str = Field(default="", description="Its name in Lidarr; empty: the one of the root folder.")
    least_free: int = Field(
        default=1_000_000_000, ge=0, description="Hold everything while the root folder has fewer free bytes."
    )
    enrich_every: Seconds = Field(
        default=Seconds("1h"),
        ge=60,
        description="Between two looks in Lidarr for each artist and album.",
    )
    keep_submitted: Seconds = Field(
        default=Seconds("7d"), ge=86400, description="How long an entry is kept after Lidarr has accepted it."
    )
    keep_given_up: Seconds = Field(
        default=Seconds("30d"),
        ge=30 * 86400,
        description="How long an entry is kept that was given up, 30d at least.",
    )

    @property
    def configured(self) -> bool:
        """Return whether a Lidarr is configured."""
        return bool(self.base_url and self.api_key.get_secret_value())
