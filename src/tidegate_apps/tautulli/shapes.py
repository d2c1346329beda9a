"""What goes out of the API: ISO-8601 times in UTC, durations in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field, PlainSerializer, WithJsonSchema

from tidegate_apps.tautulli.reading import Freshness


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


Moment = Annotated[
    float,
    PlainSerializer(iso, return_type=str, when_used="unless-none"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


class PlayShown(BaseModel):
    """One play."""

    row_id: int
    started: Moment
    stopped: Moment | None
    duration: int
    paused: int
    user: str
    user_id: int | None
    platform: str
    product: str
    player: str
    media_type: str
    rating_key: int | None
    title: str = Field(description="The series, the artist or the film.")
    full_title: str
    year: int | None
    transcode_decision: str
    percent_complete: int | None
    watched_status: float | None


class HistoryShown(BaseModel):
    """A page of the stored history. With *stale_since*, nothing newer than that is known."""

    items: list[PlayShown]
    next_cursor: str | None
    synced_at: Moment | None
    stale_since: Moment | None


class BreakerShown(BaseModel):
    """The breaker of the calls, as the process that syncs knows it."""

    name: str
    state: str
    since: Moment | None
    next_trial: Moment | None
    failures_in_a_row: int
    requests: int
    successes: int
    failures: int


class StatusShown(BaseModel):
    """How the sync is."""

    url: str
    plays: int
    synced_at: Moment | None
    stale_since: Moment | None
    tried_at: Moment | None
    outcome: str | None
    code: str | None
    message: str | None
    breaker: BreakerShown


def play_shown(row: Sequence[Any]) -> PlayShown:
    return PlayShown(**dict(zip(PlayShown.model_fields, row, strict=True)))


def breaker_shown(name: str, fresh: Freshness) -> BreakerShown:
    said = fresh.state.breaker
    return BreakerShown(
        name=name, state=fresh.breaker, since=said.get("since"), next_trial=fresh.next_trial,
        failures_in_a_row=said.get("failures_in_a_row", 0), requests=said.get("requests", 0),
        successes=said.get("successes", 0), failures=said.get("failures", 0),
    )  # fmt: skip


def status_shown(name: str, url: str, fresh: Freshness, plays: int) -> StatusShown:
    state = fresh.state
    return StatusShown(
        url=url, plays=plays, synced_at=state.synced_at, stale_since=fresh.stale_since, tried_at=state.tried_at,
        outcome=state.outcome, code=state.code, message=state.message, breaker=breaker_shown(name, fresh),
    )  # fmt: skip
