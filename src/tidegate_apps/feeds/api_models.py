"""Request and response models of the API: strict input, ISO 8601 times in UTC in the output."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema

from tidegate.apps import DbTx
from tidegate_apps.feeds.models import Source, check_url, public
from tidegate_apps.feeds.poll_results import state_of
from tidegate_apps.feeds.state import POLL_NOW

MAX_ID = 2**53 - 1
PRINTABLE = r"^[^\x00-\x1f\x7f]*$"  # PostgreSQL cannot compare text with a NUL character


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Moment = Annotated[
    float,
    PlainSerializer(iso, return_type=str, when_used="unless-none"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


def _address(given: str) -> str:
    try:
        return check_url(given) if given.strip() else ""
    except ValueError as error:
        raise ValueError(str(error).removeprefix("feed_url: ")) from error


Address = Annotated[str, Field(max_length=2000), AfterValidator(_address)]
Interval = Annotated[float, Field(ge=60, le=30 * 86400, allow_inf_nan=False)]


class FeedRequestModel(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class NewSource(FeedRequestModel):
    """A source that is to be added."""

    feed_url: Address | None = None
    name: Name | None = None
    interval: Interval | None = None
    enabled: bool = True


class ChangedSource(FeedRequestModel):
    """What is to be changed; what is left out stays."""

    feed_url: Address | None = None
    name: Name | None = None
    interval: Interval | None = None
    enabled: bool | None = None


class Reason(FeedRequestModel):
    """Why a feed is disabled."""

    reason: str = Field(max_length=40)


class StateShown(BaseModel):
    """What the poller knows of a feed."""

    consecutive_errors: int
    run_type: str | None
    run_length: int
    last_error: str | None
    last_error_type: str | None
    etag: str | None
    last_modified: str | None
    next_poll_at: Moment | None
    next_poll_reason: str
    last_polled_at: Moment | None
    last_success_at: Moment | None
    title: str | None
    items: int
    malformed: str | None


class SourceShown(BaseModel):
    """One source. `feed_state` is null where nothing polls it."""

    id: int
    name: str
    feed_url: str | None
    interval: float
    enabled: bool
    feed_disabled_at: Moment | None
    feed_disable_reason: str | None
    disabled_by: str | None
    rests_until: Moment | None
    created_at: Moment
    feed_state: StateShown | None = None


class SourcesShown(BaseModel):
    items: list[SourceShown]
    next_cursor: str | None


class ItemShown(BaseModel):
    """One entry of a feed."""

    id: int
    guid: str | None
    link: str | None
    title: str
    author: str | None
    summary: str | None
    published_at: Moment | None
    seen_at: Moment
    changed_at: Moment


class ItemsShown(BaseModel):
    items: list[ItemShown]
    next_cursor: str | None


def shown(source: Source, state: StateShown | None = None, *, whole: bool = True) -> SourceShown:
    """Return a source as JSON. The URL includes its secrets only if *whole*."""
    address = source.feed_url if whole or source.feed_url is None else public(source.feed_url)
    return SourceShown(
        id=source.id,
        name=source.name,
        feed_url=address,
        interval=source.interval,
        enabled=source.enabled,
        feed_disabled_at=source.feed_disabled_at,
        feed_disable_reason=source.feed_disable_reason,
        disabled_by=source.disabled_by,
        rests_until=source.rests_until,
        created_at=source.created_at,
        feed_state=state,
    )


def state_shown(tx: DbTx, source_id: int, now: float) -> StateShown | None:
    row, more = tx.one("states", source_id=source_id), tx.one("details", source_id=source_id)
    if row is None or more is None:
        return None
    state = state_of(row)
    _, _, title, _, malformed, items, _ = more
    return StateShown(
        consecutive_errors=state.consecutive_errors,
        run_type=state.rest.failing_code,
        run_length=state.rest.failing_count,
        last_error=state.last_error,
        last_error_type=state.last_error_type,
        etag=state.etag,
        last_modified=state.last_modified,
        next_poll_reason=state.due_why,
        last_polled_at=state.last_polled_at,
        last_success_at=state.last_success_at,
        title=title,
        items=items,
        malformed=malformed,
        next_poll_at=now if state.due_at == POLL_NOW else state.due_at,
    )


def item_shown(row: tuple[Any, ...]) -> ItemShown:
    names = ("id", "guid", "link", "title", "author", "summary", "published_at", "seen_at", "changed_at")
    return ItemShown(**dict(zip(names, row, strict=True)))
