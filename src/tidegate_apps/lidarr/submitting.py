"""How one entry gets into Lidarr: the calls in the order that works, each of which may be the last one before a crash.

Every attempt looks first. So whatever an earlier one has sent is found and not sent again, whether its answer was lost,
or we were, before it was written down.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tidegate_apps.lidarr.client import AlreadyThere, Lidarr, LidarrAlbum, LidarrArtist, LidarrError, Setup
from tidegate_apps.lidarr.codes import PACK
from tidegate_apps.lidarr.states import Submission

T = TypeVar("T")
_POLL_INTERVAL = 1.0  # seconds, while the albums of a new artist come into being


@dataclass(frozen=True, slots=True)
class Accepted:
    """The result of a submission, as the job keeps it."""

    lidarr_id: int
    status: str
    new: bool = False  # it was not there before
    at: float = 0.0


class MetadataGuard(Protocol):
    """Calls behind the breaker of the metadata service."""

    async def __call__(self, call: Callable[..., Awaitable[T]], /, *args: Any) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitContext:
    """What a submission works with."""

    lidarr: Lidarr
    metadata: MetadataGuard
    setup: Callable[[], Awaitable[Setup]]
    now: Callable[[], float]
    elapsed: Callable[[], float]  # seconds of monotonic time
    sleep: Callable[[float], Awaitable[None]]
    refresh_wait: float


async def submit_artist(context: SubmitContext, sub: Submission, wanted: Sequence[str]) -> Accepted:
    lidarr = context.lidarr
    found, new = await lidarr.artist(sub.musicbrainz_id), False
    if found is None:
        setup = await context.setup()
        known = await context.metadata(lidarr.lookup_artist, sub.musicbrainz_id)
        try:
            found, new = await context.metadata(lidarr.add_artist, known, setup, wanted), True
        except AlreadyThere:
            found = await lidarr.artist(sub.musicbrainz_id)
        if found is None:
            raise LidarrError(PACK.code_book["not_listed"].fault("exists"))
    if not found.monitored:
        await lidarr.watch_artist(found.id)
    return Accepted(found.id, "monitored", new, context.now())


async def submit_album(
    context: SubmitContext, sub: Submission, artist: Accepted | None, *, search: Callable[[int], Awaitable[None]]
) -> Accepted:
    """*artist* is that of the album, if known; *search* begins a search, unless an earlier attempt has."""
    lidarr = context.lidarr
    album, new = await _listed(context, sub, artist.at if artist is not None and artist.new else 0.0), False
    if album is None:
        setup = await context.setup()
        owner = LidarrArtist(
            id=artist.lidarr_id if artist else 0, name=sub.artist or sub.name, mbid=sub.artist_mbid, monitored=True
        )
        try:
            album, new = await context.metadata(lidarr.add_album, sub.musicbrainz_id, owner, setup), True
        except AlreadyThere:
            album = await lidarr.album(sub.musicbrainz_id)
        if album is None:
            raise LidarrError(PACK.code_book["not_listed"].fault("exists"))
    if album.tracks and album.files >= album.tracks:
        return Accepted(album.id, "available", new, context.now())
    watched = await lidarr.watch_albums([album.id])
    if not any(each.id == album.id and each.monitored for each in watched):
        raise LidarrError(PACK.code_book["not_monitored"].fault("verify"))
    await search(album.id)
    return Accepted(album.id, "monitored", new, context.now())


async def _listed(context: SubmitContext, sub: Submission, added_at: float) -> LidarrAlbum | None:
    """The album as Lidarr lists it. Those of an artist that was just added come into being within seconds."""
    # The time is of an earlier job, and the clock may have been set back since.
    wait = min(added_at + context.refresh_wait - context.now(), context.refresh_wait)
    until = context.elapsed() + wait
    while True:
        album = await context.lidarr.album(sub.musicbrainz_id)
        if album is not None or context.elapsed() >= until:
            return album
        await context.sleep(_POLL_INTERVAL)
