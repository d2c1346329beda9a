"""What is measured for the story: every number that the demo tells comes from the store or from a simulator. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """How things are at one moment. The fields are in the order of the columns of the statement `facts`."""

    converted: int = 0
    uploads_wait: int = 0
    uploads_failed: int = 0
    breaker: str = "closed"  # of the gateway
    polled: int = 0  # feeds that were polled at least once
    feeds: int = 0
    refusals: int = 0  # polls in a row that the feed of the story did not answer well
    rests_until: float | None = None  # that feed
    plays: int = 0
    spotify_notices: int = 0  # that say that Spotify needs a person, since the story began
    spotify_needs: int = 0  # operations of Spotify that wait for a person
    albums_wait: int = 0
    albums_sent: int = 0
    notices: int = 0  # since the story began
    lidarr_taken: int = 0  # places in its queue
    lidarr_room: int = 0  # places that there are
    watched: int = 0  # plays of Tautulli

    @property
    def lidarr_full(self) -> bool:
        return 0 < self.lidarr_room <= self.lidarr_taken


def many(n: int, one: str, several: str = "") -> str:
    """A number with its noun: 1 upload, 2 uploads."""
    return f"{n:,} {one if n == 1 else several or one + 's'}"
