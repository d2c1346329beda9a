"""What was known of an artist, an album or a track before a look, what the look saw, and what follows from the two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate_apps.lidarr.states import MAX_ID_LENGTH, OPEN
from tidegate_apps.music.library import EntityKind


@dataclass(frozen=True, slots=True)
class EntityRecord:
    """What was found of an entity before; the fields are the columns."""

    entity_id: int
    status: str | None
    lidarr_id: int | None
    mbid: str | None
    job: int | None
    note: str
    checked_at: float
    watched: bool  # Lidarr has been seen to want it, or has taken it from us
    state: str | None  # of its job

    @property
    def open(self) -> bool:
        """It is still to be sent."""
        return self.state in OPEN

    @property
    def given_up(self) -> bool:
        return self.state == "failed"

    @property
    def cancelled(self) -> bool:
        return self.state == "cancelled"

    @property
    def mark(self) -> tuple[object, ...]:
        """Differs as soon as somebody else has looked, a submission has ended, or a person has asked for one."""
        return (self.status, self.lidarr_id, self.job, self.checked_at, self.open)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityObservation:
    """What this look found of one entity. *lost*: Lidarr has accepted it before, and does not know it any more."""

    kind: EntityKind
    entity_id: int
    user: str
    name: str
    artist: str = ""
    mbid: str
    lidarr_id: int | None = None
    status: str | None = None  # None: it is not there
    idle: bool = False  # an album that is there, and nobody wants
    lost: bool = False
    artist_id: int = 0
    artist_mbid: str = ""

    @property
    def unsendable(self) -> bool:
        """Lidarr takes no album without its artist."""
        return self.kind == "album" and not self.artist_mbid


def by_number(rows: Iterable[Sequence[Any]]) -> dict[int, EntityRecord]:
    return {row[0]: EntityRecord(*row) for row in rows}


def mark(known: EntityRecord | None) -> object:
    return None if known is None else known.mark


def due(was: EntityRecord | None, mbid: str, before: float) -> bool:
    return was is None or was.checked_at <= before or was.mbid != mbid


def never_asked_for(was: EntityRecord | None, mbid: str) -> bool:
    return was is None or (was.state is None and not (was.watched and was.mbid == mbid))


def usable(mbid: str | None) -> bool:
    """Whether it can be sent by that."""
    return mbid is not None and 0 < len(mbid) <= MAX_ID_LENGTH
