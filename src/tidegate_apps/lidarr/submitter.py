"""The submitter: checks Lidarr's capacity, submits one entry, and handles failures."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, ParamSpec, Protocol, TypeVar

import httpx2

from tidegate import Again, Breaker, Context, Done, Fail, Fault, Held
from tidegate.apps import Installed
from tidegate.guard import QueueDepth
from tidegate.jobs import BoundStatement
from tidegate_apps.lidarr import notices
from tidegate_apps.lidarr.client import (
    BAD,
    AlreadyThere,
    Lidarr,
    LidarrAlbum,
    LidarrArtist,
    LidarrError,
    Places,
    Setup,
    fault_of,
)
from tidegate_apps.lidarr.codes import FIVE_IN_A_ROW, FOLDER_AWAY, METADATA_DOWN, PACK, PERMANENT, REFUSED
from tidegate_apps.lidarr.models import Submission, badge_of
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.music.library import Library

# -- calls of one submission -------------------------------------------------------------------------------------------
# Their order is safe if a crash follows any of them: every attempt looks first and submits only what is missing, even
# if an earlier response was lost.

T = TypeVar("T")
P = ParamSpec("P")
_POLL_INTERVAL = 1.0  # seconds, while Lidarr adds the albums of a new artist


@dataclass(frozen=True, slots=True)
class Accepted:
    """The result of a submission, as stored with the job."""

    lidarr_id: int
    status: str
    new: bool = False  # it was not in Lidarr before
    at: float = 0.0


class MetadataGuard(Protocol):
    """Calls behind the breaker of the metadata service."""

    async def __call__(self, call: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitContext:
    """The dependencies of a submission."""

    lidarr: Lidarr
    metadata: MetadataGuard
    setup: Callable[[], Awaitable[Setup]]
    now: Callable[[], float]
    elapsed: Callable[[], float]  # monotonic time in seconds
    sleep: Callable[[float], Awaitable[None]]
    refresh_wait: float


async def submit_artist(context: SubmitContext, sub: Submission, wanted: Sequence[str]) -> Accepted:
    lidarr = context.lidarr
    artist, new = await lidarr.artist(sub.musicbrainz_id), False
    if artist is None:
        setup = await context.setup()
        known = await context.metadata(lidarr.lookup_artist, sub.musicbrainz_id)
        try:
            artist, new = await context.metadata(lidarr.add_artist, known, setup, wanted), True
        except AlreadyThere:
            artist = await lidarr.artist(sub.musicbrainz_id)
        if artist is None:
            raise LidarrError(PACK.code_book["not_listed"].fault("exists"))
    if not artist.monitored:
        await lidarr.watch_artist(artist.id)
    return Accepted(artist.id, "monitored", new, context.now())


async def submit_album(
    context: SubmitContext, sub: Submission, artist: Accepted | None, *, search: Callable[[int], Awaitable[None]]
) -> Accepted:
    """*artist* is the artist of the album, if known. *search* starts a search, unless an earlier attempt did."""
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
    if not any(watched_album.id == album.id and watched_album.monitored for watched_album in watched):
        raise LidarrError(PACK.code_book["not_monitored"].fault("verify"))
    await search(album.id)
    return Accepted(album.id, "monitored", new, context.now())


async def _listed(context: SubmitContext, sub: Submission, added_at: float) -> LidarrAlbum | None:
    """Return the album as Lidarr lists it. Albums of an artist that was just added appear within seconds."""
    # The time is from an earlier job, and the clock may have been set back since.
    wait = min(added_at + context.refresh_wait - context.now(), context.refresh_wait)
    until = context.elapsed() + wait
    while True:
        album = await context.lidarr.album(sub.musicbrainz_id)
        if album is not None or context.elapsed() >= until:
            return album
        await context.sleep(_POLL_INTERVAL)


_log = logging.getLogger("tidegate.lidarr")
_UNSURE = frozenset({0, 502, 504})  # statuses that do not say whether Lidarr accepted the request
_TRIAL_WAKES = 5  # cycles that an entry skips after it probed the metadata service
_MAX_HELD = 500  # entries held by the metadata service before the cycle ends


@dataclass(slots=True)
class SubmitCycle:
    """One cycle, as its submissions see it."""

    lidarr: Lidarr
    end: Callable[[], None]  # stops submissions of this cycle
    submitted: int = 0
    failed: int = 0
    gave_up: int = 0
    held: int = 0  # because the metadata service was unavailable
    fault: Fault | None = None  # the last one that affects Lidarr as a whole
    trouble: Fault | None = None  # why the rest of the cycle is blocked


@dataclass(slots=True)
class Submitter:
    """State that lasts between cycles: setup, and health of the metadata service."""

    app: Installed[LidarrSettings]
    library: Library
    transport: httpx2.AsyncBaseTransport | None = None  # for tests without sockets
    cycle: SubmitCycle | None = None
    metadata: Breaker = field(init=False)
    # Albums by job: searches that may have started although no response confirmed it.
    _unsure: dict[int, int] = field(default_factory=dict)
    _places: Places = field(init=False)

    def __post_init__(self) -> None:
        clock = self.app.queue.clock
        self._places = Places(self.app.settings, clock.now)
        self.metadata = Breaker("lidarr-metadata", counts_as_failure=_counts, clock=clock.monotonic, **FIVE_IN_A_ROW)

    def opened(self) -> Lidarr:
        settings = self.app.settings
        return Lidarr(
            settings.base_url, settings.api_key.get_secret_value(), float(settings.timeout), transport=self.transport
        )

    # -- capacity ------------------------------------------------------------------------------------------------------

    async def depth(self) -> QueueDepth:
        """Return the number of downloads in Lidarr, and which of our albums are among them."""
        async with self._calling() as lidarr:
            try:
                seen = await lidarr.downloads()
            except Exception as error:
                if self.cycle is not None:
                    self.cycle.trouble = fault_of(error)
                raise
        since = self.app.queue.clock.now() - float(self.app.settings.credit_time)
        sent = await self.app.queue.run_blocking(lambda: self.app.db.all("lately_sent", since=since))
        ours = [*sent, *self._unsure.items()]
        return QueueDepth(seen.total, landed=[job for job, lidarr_id in ours if lidarr_id in seen.albums])

    # -- submission ----------------------------------------------------------------------------------------------------

    async def submit(self, sub: Submission, job: Context) -> Done[Accepted]:
        clock, run_blocking, cycle = self.app.queue.clock, self.app.queue.run_blocking, self.cycle
        began = clock.monotonic()
        async with self._calling() as lidarr:
            means = SubmitContext(
                lidarr=lidarr,
                metadata=self._behind,
                setup=lambda: self._places.of(lidarr),
                now=clock.now,
                elapsed=clock.monotonic,
                sleep=clock.asleep,
                refresh_wait=float(self.app.settings.refresh_wait),
            )
            try:
                if sub.entity_type == "artist" and self.metadata.state == "open":
                    await self._behind(_nothing)  # raises if the breaker is open, before any call to Lidarr
                await self._places.of(lidarr)
                if sub.entity_type == "artist":
                    wanted = await run_blocking(lambda: self.app.db.scalars(str, "wanted_of", job=job.id))
                    accepted = await submit_artist(means, sub, wanted)
                else:
                    artist = await run_blocking(lambda: self._artist_of(sub, job))
                    accepted = await submit_album(means, sub, artist, search=lambda album: _search(lidarr, job, album))
            except Held:
                self._held()
                raise
            except BAD as error:
                self._failed(sub, job, error)
        self._unsure.pop(job.id, None)
        took = clock.monotonic() - began

        def recorded() -> None:
            notices.log_submitted(sub, took)
            if cycle is not None:
                cycle.submitted += 1

        return Done(accepted, writes=self._accepted(sub, job, accepted), after=recorded)

    def _artist_of(self, sub: Submission, job: Context) -> Accepted | None:
        """Return the artist of an album, from its accepted job or from Lidarr."""
        for result in job.parent_results.values():
            if result is not None:
                return Accepted(**result)
        lidarr_id = self.app.db.scalar_or_none(int, "lidarr_id_of", kind="artist", entity_id=sub.artist_id)
        return None if lidarr_id is None else Accepted(lidarr_id, "monitored")

    def _accepted(self, sub: Submission, job: Context, accepted: Accepted) -> list[BoundStatement]:
        db, kind, id_ = self.app.db, sub.entity_type, sub.entity_id
        return [
            db.bind("accepted", kind=kind, entity_id=id_, status=accepted.status, lidarr_id=accepted.lidarr_id),
            db.bind(
                "happened",
                kind=f"lidarr_{kind}_submitted",
                entity_id=id_,
                user_id=sub.user,
                lidarr_id=accepted.lidarr_id,
                job=job.id,
            ),
            self.library.badge(kind, id_, badge_of(kind, id_, accepted.status)),
        ]

    # -- failure -------------------------------------------------------------------------------------------------------

    def _failed(self, sub: Submission, job: Context, error: Exception) -> NoReturn:
        """End the attempt: permanently, or with a retry delay.

        Only faults of Lidarr as a whole count against Lidarr.
        """
        fault, settings, cycle = fault_of(error), self.app.settings, self.cycle
        message = f"{fault.message.rstrip('.')} (HTTP {fault.status})." if fault.status else fault.message
        permanent = settings.permanent and fault.code in PERMANENT
        keep_place = self._may_search(job)
        if fault.code == FOLDER_AWAY.name and cycle is not None:
            # No entry is at fault: all wait until the disk is available.
            cycle.trouble = fault
            cycle.end()
            raise Again(keep_attempt=True, keep_place=keep_place) from error
        failures = job.attempt - job.deaths
        exhausted = failures >= settings.attempts
        notices.log_failed(sub, message, failures)
        if fault.unclassified:
            _log.error("submission_broke job=%s attempt=%s", job.id, job.attempt, exc_info=error)
        if cycle is not None:
            cycle.failed += 1
            cycle.gave_up += permanent or exhausted
        if permanent:
            raise Fail(fault.code, message, status=fault.status or None, fault=fault) from error
        if fault.status in REFUSED and cycle is not None:
            cycle.trouble = fault
            cycle.end()
        if fault.code == "profile_missing":
            self._places.forget()
        ill = fault.retriable and fault.counts_as_failure and fault.code != METADATA_DOWN
        if ill and cycle is not None:
            cycle.fault = fault
        if exhausted:
            raise Fail(
                fault.code, message, keep_place=keep_place, status=fault.status or None, fault=fault if ill else None
            ) from error
        raise Again(
            ladder=True,
            keep_place=keep_place,
            code=fault.code,
            message=message,
            status=fault.status or None,
            fault=fault if ill else None,
        ) from error

    def _may_search(self, job: Context) -> bool:
        """Return whether Lidarr may search for the album of this job, so that it will take up capacity."""
        album = job.saved.get("searching")
        if album is None:
            self._unsure.pop(job.id, None)
        else:
            self._unsure[job.id] = album
        return album is not None

    def _held(self) -> None:
        if self.cycle is None:
            return
        self.cycle.held += 1
        if self.cycle.held >= _MAX_HELD:
            self.cycle.trouble = PACK.code_book[METADATA_DOWN].fault("breaker")
            self.cycle.end()

    # -- helpers -------------------------------------------------------------------------------------------------------

    async def _behind(self, call: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the metadata service.

        A failed probe says nothing about the entry, so its job is released without cost.
        """
        if not self.app.settings.breaker:
            return await call(*args, **kwargs)
        trial = self.metadata.state != "closed"
        try:
            return await self.metadata.acall(call, *args, **kwargs)
        except (httpx2.HTTPError, LidarrError, ValueError) as error:
            fault = fault_of(error)
            if not (trial and fault.counts_as_failure):
                raise
            self._held()
            # Skip the next cycles: an entry that always fails must not be the only probe.
            delay = _TRIAL_WAKES * float(self.app.settings.submit_interval)
            raise Again(
                delay, keep_attempt=True, code=fault.code, message=fault.message, status=fault.status or None
            ) from error

    @contextlib.asynccontextmanager
    async def _calling(self) -> AsyncIterator[Lidarr]:
        """Yield the client of this cycle; outside of one, a temporary client."""
        if self.cycle is not None:
            yield self.cycle.lidarr
            return
        async with self.opened() as lidarr:
            yield lidarr


async def _nothing() -> None: ...


async def _search(lidarr: Lidarr, job: Context, album: int) -> None:
    """Start a search unless an earlier attempt did.

    This is saved under the lease first, because the response may be lost.
    """
    if job.saved.get("searching") == album:
        if await lidarr.searched(album):
            return
    else:
        await job.save(searching=album)
    try:
        await lidarr.search(album)
    except LidarrError as error:
        if error.fault.status not in _UNSURE:
            await job.save(searching=None)
        raise


def _counts(error: BaseException) -> bool | None:
    """Return whether the metadata breaker counts a failure; None: nothing. Errors about one entity count as success."""
    if isinstance(error, AlreadyThere) or not isinstance(error, Exception):
        return False if isinstance(error, AlreadyThere) else None
    return fault_of(error).counts_as_failure
