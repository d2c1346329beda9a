"""Entries of the submission queue, mapped from jobs. Only this module translates between the two.

A succeeded job is `submitted`. A job that will be retried is `failed` with a `retry_at`. A job that failed permanently
is `failed` without one, and `terminal_reason` says why: permanent error, too many attempts, or its artist was not
accepted. `attempts` counts only failed submissions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tidegate_apps.lidarr.client import LidarrAlbum
from tidegate_apps.lidarr.codes import PARENT_FAILED, PERMANENT
from tidegate_apps.music.library import Badge, Tone

EntityType = Literal["artist", "album"]
Status = Literal["queued", "submitted", "failed"]

# -- tabs --------------------------------------------------------------------------------------------------------------
STAGES = {  # the state of the jobs of each tab
    "queued": "ready",
    "artist": "blocked",
    "retrying": "waiting",
    "gave_up": "failed",
    "submitted": "done",
    "cancelled": "cancelled",
}
TABS = ("", *STAGES)
OPEN = ("ready", "blocked", "waiting", "running")
FINAL = ("failed", "cancelled")
# Dispatches in addition to the attempts: a crash is not a failed submission. Another job may cause the first crash. The
# third one in isolation ends the job.
CUT_SHORT = 3
MAX_ID_LENGTH = 255  # characters of a MusicBrainz id
ARTIST_REFUSED = "The artist was not accepted."
ARTIST_CANCELLED = "a person has cancelled it."


@dataclass(frozen=True, slots=True)
class Submission:
    """The arguments of a submission job."""

    entity_type: EntityType
    entity_id: int
    user: str
    musicbrainz_id: str
    name: str
    artist_id: int = 0  # of an album; 0 for an artist
    artist: str = ""
    artist_mbid: str = ""

    def __post_init__(self) -> None:
        if not 0 < len(self.musicbrainz_id) <= MAX_ID_LENGTH:
            raise ValueError(f"musicbrainz_id: it is empty or too long; give 1 to {MAX_ID_LENGTH} characters")

    @property
    def unique(self) -> tuple[str, int, str]:
        return (self.entity_type, self.entity_id, self.user)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionEntry:
    """One entry of the submission queue."""

    id: int  # of its job
    entity_type: str
    entity_id: int
    user: str
    musicbrainz_id: str
    name: str
    artist: str
    status: Status
    attempts: int
    most_attempts: int
    last_error: str | None
    retry_at: float | None
    terminal_reason: str | None
    created_at: float
    updated_at: float
    lidarr_id: int | None
    stage: str  # of its job
    due_at: float
    lidarr_status: str | None

    @property
    def gave_up(self) -> bool:
        return self.stage == "failed"

    @property
    def cancelled(self) -> bool:
        return self.stage == "cancelled"

    @property
    def open(self) -> bool:
        """Return whether it is still to be submitted."""
        return self.stage in OPEN

    def as_json(self) -> dict[str, object]:
        hidden = ("stage", "due_at")
        return {name: getattr(self, name) for name in self.__slots__ if name not in hidden}


class SubmissionRow(NamedTuple):
    """A submission job and what is known of its entity."""

    id: int
    state: str
    args: str
    attempt: int
    deaths: int
    max_attempts: int
    created_at: float
    due_at: float
    claimed_at: float | None
    last_at: float | None
    finished_at: float | None
    last_code: str | None
    last_message: str | None
    error_code: str | None
    error_message: str | None
    lidarr_id: int | None
    lidarr_status: str | None


def entry_of(row: SubmissionRow) -> SubmissionEntry:
    sub, state = Submission(**json.loads(row.args)["submission"]), row.state
    attempts = attempts_of(state, row.attempt, row.deaths)
    # Also after its retry time: it stays failed until Lidarr accepts it, however long Lidarr is full.
    due_again = state in ("ready", "running") and attempts > 0
    retrying = due_again or (state == "waiting" and row.last_code is not None and row.attempt > 0)
    status: Status = "submitted" if state == "done" else "failed" if retrying or state in FINAL else "queued"
    times = (row.created_at, row.claimed_at, row.last_at, row.finished_at)
    return SubmissionEntry(
        id=row.id,
        entity_type=sub.entity_type,
        entity_id=sub.entity_id,
        user=sub.user,
        musicbrainz_id=sub.musicbrainz_id,
        name=sub.name,
        artist=sub.artist,
        status=status,
        attempts=attempts,
        most_attempts=row.max_attempts - CUT_SHORT,
        last_error=error_of(row.error_code, row.error_message) or error_of(row.last_code, row.last_message),
        retry_at=row.due_at if retrying else None,
        terminal_reason=terminal_of(state, row.error_code),
        created_at=row.created_at,
        updated_at=max(at for at in times if at is not None),
        lidarr_id=row.lidarr_id,
        stage=state,
        due_at=row.due_at,
        lidarr_status=row.lidarr_status,
    )


def attempts_of(state: str, attempt: int, deaths: int) -> int:
    """Return the failed submissions: not the running one, not the successful one, not those that crashed."""
    return max(0, attempt - deaths - (state in ("running", "done")))


def terminal_of(state: str, code: str | None) -> str | None:
    """Return why it will not be retried; None if it will be, or succeeded."""
    if state == "cancelled":
        return "cancelled"
    if state != "failed":
        return None
    if code == PARENT_FAILED:
        return "artist"
    return "permanent" if code in PERMANENT else "exhausted"


def error_of(code: str | None, message: str | None) -> str | None:
    return ARTIST_REFUSED if code == PARENT_FAILED else message


def counts_of(by_stage: Mapping[str, int]) -> dict[str, int]:
    """Return the number of entries per tab."""
    counts = {tab: by_stage.get(stage, 0) for tab, stage in STAGES.items()}
    counts["queued"] += by_stage.get("running", 0)
    return {"": sum(counts.values()), **counts}


# -- badges of artists, albums and tracks, here and in the library of music --------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BadgeStyle:
    """*picture* is the name in stylesheets; *icon* is one of the server's."""

    word: str
    tone: Tone
    icon: str
    picture: str
    tooltip: str
    link: bool = True  # there is a page in Lidarr to link to

    @property
    def badge(self) -> str:
        """Return the name in stylesheets."""
        return _CLASSES[self.tone]


_CLASSES = {"good": "badge-success", "busy": "badge-info", "warn": "badge-warning", "bad": "badge-error"}
BADGE_STYLES: dict[str, BadgeStyle] = {
    "queued": BadgeStyle(
        word="Queued",
        tone="warn",
        icon="queue",
        picture="icon-[heroicons--queue-list]",
        tooltip="Queued for Lidarr",
        link=False,
    ),
    "pending": BadgeStyle(
        word="Pending",
        tone="warn",
        icon="clock",
        picture="icon-[heroicons--clock]",
        tooltip="In Lidarr, and not downloaded yet",
    ),
    "monitored": BadgeStyle(
        word="Monitored",
        tone="busy",
        icon="search",
        picture="icon-[heroicons--eye]",
        tooltip="Lidarr looks for it",
    ),
    "grabbed": BadgeStyle(
        word="Grabbed",
        tone="busy",
        icon="wave",
        picture="icon-[heroicons--arrow-down-tray]",
        tooltip="Lidarr downloads it",
    ),
    "available": BadgeStyle(
        word="Available",
        tone="good",
        icon="check",
        picture="icon-[heroicons--check]",
        tooltip="Lidarr has it",
    ),
    "missing": BadgeStyle(
        word="Missing",
        tone="bad",
        icon="alert",
        picture="icon-[heroicons--exclamation-triangle]",
        tooltip="Lidarr lacks some of its tracks",
    ),
    "gave_up": BadgeStyle(
        word="Gave up",
        tone="bad",
        icon="cross",
        picture="icon-[heroicons--x-mark]",
        tooltip="Lidarr did not take it; retry it on the page Lidarr",
        link=False,
    ),
}


def badge_of(kind: str, entity_id: int, status: str | None) -> Badge | None:
    """Return the badge that the library shows."""
    if status is None:
        return None
    look = BADGE_STYLES[status]
    href = f"/lidarr/to/{kind}/{entity_id}" if look.link else ""
    return Badge(word=look.word, tone=look.tone, icon=look.icon, tooltip=look.tooltip, href=href)


def status_of(album: LidarrAlbum, downloading: frozenset[int]) -> str:
    """Return the status of an album in Lidarr."""
    if album.tracks and album.files >= album.tracks:
        return "available"
    if album.id in downloading:
        return "grabbed"
    if not album.monitored:
        return "pending"
    return "missing" if album.files else "monitored"


def is_idle(album: LidarrAlbum, downloading: frozenset[int]) -> bool:
    """Return whether Lidarr only lists the album: not monitored, no file and no download."""
    return status_of(album, downloading) == "pending" and not album.files
