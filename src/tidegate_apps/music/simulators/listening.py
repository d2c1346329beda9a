"""What the users of a simulated service listen to, on demand or by themselves as time passes."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Protocol

from tidegate_apps.music.simulators.catalogue import TRACKS, CatalogueTrack


class Time(Protocol):
    """As much of a clock as a service needs."""

    def now(self) -> float: ...


class Listening:
    """Plays by user, the oldest first. With *every*, each user hears a song every so many seconds from the start on."""

    def __init__(self, clock: Time, every: float | None = None) -> None:
        self._clock, self._every = clock, every
        self._logs: dict[str, list[tuple[float, int]]] = {}
        self._until: dict[str, float] = {}

    def hear(self, user: str, song: int = 0, *, at: float | None = None) -> CatalogueTrack:
        """One play, now or at another time."""
        insort(self._log(user), (self._clock.now() if at is None else at, song % len(TRACKS)))
        return TRACKS[song % len(TRACKS)]

    def heard(self, user: str, since: float = 0.0) -> list[tuple[float, CatalogueTrack]]:
        """All plays so far, or those from a moment on."""
        log = self._log(user)
        now = self._clock.now()
        if self._every is not None:
            at = self._until.setdefault(user, now) + self._every
            while at <= now:
                insort(log, (at, int(at / self._every) % len(TRACKS)))
                self._until[user] = at
                at += self._every
        first, end = bisect_left(log, (since, -1)), bisect_left(log, (now, len(TRACKS)))
        return [(at, TRACKS[song]) for at, song in log[first:end]]

    def forget(self, user: str, at: float) -> None:
        """Takes a play out of the history."""
        self._logs[user] = [each for each in self._log(user) if each[0] != at]

    def _log(self, user: str) -> list[tuple[float, int]]:
        return self._logs.setdefault(user, [])
