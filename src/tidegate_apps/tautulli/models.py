"""Responses of Tautulli as values. Almost every field may be null, and numbers may be strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

_YEAR_10000 = 253_402_300_800
_EXACT = 2**53  # floats and all databases are exact up to here
_MAX_TEXT = 1000  # characters


@dataclass(frozen=True, slots=True)
class TautulliStatus:
    """The result of `status`; integrity is None unless the database check was requested."""

    message: str
    integrity: str | None = None


class HistoryPlay(NamedTuple):
    """One row of the history. Times are UNIX time, durations are seconds. Stored fields come first."""

    row_id: int
    reference_id: int | None
    started: int
    stopped: int | None
    duration: int
    paused: int
    user_id: int | None
    person: str  # the display name of a user
    platform: str
    product: str
    player: str
    media_type: str
    rating_key: int | None
    show: str  # series, artist or film
    full_title: str
    year: int | None
    transcode_decision: str
    percent_complete: int | None
    watched_status: float | None
    user: str
    friendly_name: str
    title: str
    parent_title: str
    grandparent_title: str


@dataclass(frozen=True)
class PlayHistory:
    """A page of the history. *total* and *filtered* count rows in Tautulli before and after the filters."""

    said: Sequence[Mapping[str, object]]  # the rows as received
    total: int
    filtered: int
    draw: int

    @property
    def rows(self) -> int:
        """Return the number of rows, including those that are not finished plays."""
        return len(self.said)

    @cached_property
    def plays(self) -> Sequence[HistoryPlay]:
        """Parse the plays at the first access, which a sync does while Tautulli builds the next page."""
        return [play for row in self.said if (play := play_of(row)) is not None]


@dataclass(frozen=True, slots=True)
class Session:
    """A current stream. Durations are milliseconds."""

    session_key: str
    state: str
    user: str
    full_title: str
    duration: int | None
    view_offset: int | None
    progress_percent: int | None


@dataclass(frozen=True, slots=True)
class Activity:
    """All current streams."""

    stream_count: int
    sessions: Sequence[Session]


@dataclass(frozen=True, slots=True)
class GeoLocation:
    """The location of an IP address, as far as known."""

    country: str
    code: str
    region: str
    city: str
    latitude: float | None
    longitude: float | None


def play_of(row: Mapping[str, object]) -> HistoryPlay | None:
    """Return the play of a row; None for a running stream, which has no id yet, and for a row without a time."""
    get = row.get
    row_id = number(get("row_id") if get("row_id") is not None else get("id"))
    started = moment(get("started")) or moment(get("date"))
    if row_id is None or started is None or get("state"):
        return None
    duration = number(get("play_duration"))
    duration = number(get("duration")) if duration is None else duration
    user, friendly_name, title = text(get("user")), text(get("friendly_name")), text(get("title"))
    full_title, grandparent_title = text(get("full_title")), text(get("grandparent_title"))
    show = grandparent_title or full_title or title or "untitled"
    return HistoryPlay(
        row_id,
        number(get("reference_id")),
        started,
        moment(get("stopped")),
        max(0, duration or 0),
        max(0, number(get("paused_counter")) or 0),
        number(get("user_id")),
        friendly_name or user or "unknown",
        text(get("platform")),
        text(get("product")),
        text(get("player")),
        text(get("media_type")),
        number(get("rating_key")),
        show,
        full_title or show,
        number(get("year")),
        text(get("transcode_decision")),
        number(get("percent_complete")),
        fraction(get("watched_status")),
        user,
        friendly_name,
        title,
        text(get("parent_title")),
        grandparent_title,
    )


def history_of(data: Mapping[str, object]) -> PlayHistory:
    rows = [row for row in _list(data.get("data")) if isinstance(row, Mapping)]
    total, filtered, draw = (number(data.get(name)) or 0 for name in ("recordsTotal", "recordsFiltered", "draw"))
    return PlayHistory(rows, total, filtered, draw)


def activity_of(data: Mapping[str, object]) -> Activity:
    sessions = [_session(row) for row in _list(data.get("sessions")) if isinstance(row, Mapping)]
    count = number(data.get("stream_count"))
    return Activity(len(sessions) if count is None else count, sessions)


def place_of(data: Mapping[str, object]) -> GeoLocation:
    return GeoLocation(
        text(data.get("country")),
        text(data.get("code")),
        text(data.get("region")),
        text(data.get("city")),
        fraction(data.get("latitude")),
        fraction(data.get("longitude")),
    )


def number(value: object) -> int | None:
    """Return an integer, also from a string; None for null, an empty string and other values."""
    if type(value) is int and -_EXACT < value < _EXACT:  # the common case
        return value
    parsed = fraction(value)
    return None if parsed is None else int(parsed)


def moment(value: object) -> int | None:
    """Return a UNIX time; None for 0, which means no time, and for times outside of the calendar."""
    parsed = number(value)
    return parsed if parsed is not None and 0 < parsed < _YEAR_10000 else None


def fraction(value: object) -> float | None:
    if isinstance(value, int | float):
        return value if abs(value) < _EXACT else None
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        parsed = float(value)
    except ValueError:
        return None
    return parsed if abs(parsed) < _EXACT else None  # false for NaN


def text(value: object) -> str:
    """Return text that every database accepts; empty for null."""
    if type(value) is str and value.isprintable() and len(value) <= _MAX_TEXT:  # the common case
        return value
    if value is None or isinstance(value, dict | list):
        return ""
    cleaned = value if isinstance(value, str) else str(value)
    if "\0" in cleaned or not cleaned.isprintable():
        cleaned = cleaned.replace("\0", "").encode("utf-8", "replace").decode()
    return cleaned[:_MAX_TEXT]


def _session(row: Mapping[str, object]) -> Session:
    return Session(
        text(row.get("session_key")),
        text(row.get("state")),
        text(row.get("friendly_name") or row.get("user")),
        text(row.get("full_title")),
        number(row.get("duration")),
        number(row.get("view_offset")),
        number(row.get("progress_percent")),
    )


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
