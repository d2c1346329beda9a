"""Settings of tautulli: the section `tautulli`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from tidegate import BreakerOptions
from tidegate.apps import validate_url
from tidegate.guard import Seconds


def _address(value: str) -> str:
    return validate_url(value, "one such as http://tautulli:8181, or nothing to sync nothing").removesuffix("/api/v2")


def _times(value: str) -> str:
    try:
        next(CronSim(value, datetime(2000, 1, 1, tzinfo=UTC)))
    except (CronSimError, StopIteration) as error:
        raise ValueError(f"{value!r:.60} is not a cron expression; write it as '*/5 * * * *'") from error
    return value


class TautulliSettings(BaseModel):
    """What was played on a Plex server, from the history that Tautulli keeps."""

    model_config = ConfigDict(frozen=True)

    url: Annotated[str, AfterValidator(_address)] = Field(
        default="", description="The address of Tautulli, such as http://tautulli:8181; empty: nothing is synced."
    )
    api_key: SecretStr = Field(
        default=SecretStr(""), description="Its API key, from its settings under Web Interface; env:NAME or file:PATH."
    )
    times: Annotated[str, AfterValidator(_times)] = Field(
        default="*/5 * * * *", description="When the history is synced, as a cron expression in UTC."
    )
    page: int = Field(default=500, ge=200, le=500, description="Rows of history that are asked for at once.")
    timeout: Seconds = Field(default=Seconds("10s"), gt=0, le=300, description="For Tautulli to begin its answer.")
    total: Seconds = Field(default=Seconds("30s"), gt=0, le=600, description="For one answer in all.")
    breaker_max_requests: int = Field(
        default=3, ge=1, le=100, description="Trial calls of the half-open breaker; as many successes close it."
    )
    breaker_interval: Seconds = Field(
        default=Seconds("1m"), gt=0, description="How often its counts are cleared while it is closed."
    )
    breaker_timeout: Seconds = Field(default=Seconds("2m"), gt=0, description="How long it stays open.")
    breaker_min_requests: int = Field(default=10, ge=1, description="Calls before the share of failures opens it.")
    breaker_failure_ratio: float = Field(default=0.6, gt=0, le=1, description="The share of failures that opens it.")
    breaker_consecutive: int = Field(
        default=5, ge=0, le=1000, description="Failures in a row that open it, however slowly they come; 0: never."
    )

    @property
    def breaker(self) -> BreakerOptions:
        """Return the breaker parameters for `Target`."""
        return {
            "max_requests": self.breaker_max_requests,
            "interval": float(self.breaker_interval),
            "timeout": float(self.breaker_timeout),
            "min_requests": self.breaker_min_requests,
            "failure_ratio": self.breaker_failure_ratio,
            "consecutive": self.breaker_consecutive or None,
        }


def next_time(settings: TautulliSettings, after: float, ticks: int = 1) -> float:
    """Return the time of the next sync after a moment, or of the one *ticks* later."""
    cron_sim = CronSim(settings.times, datetime.fromtimestamp(after, UTC))
    return [next(cron_sim) for _ in range(ticks)][-1].timestamp()
