"""The library scan: looks up the library in Lidarr and queues what is missing. It never submits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from tidegate import Fault
from tidegate.apps import Installed
from tidegate.faults import Reach
from tidegate.jobs import JobFunction
from tidegate_apps.lidarr.client import BAD, Lidarr, fault_of
from tidegate_apps.lidarr.models import Submission, is_idle, status_of
from tidegate_apps.lidarr.records import (
    E,
    EntityObservation,
    EntityRecord,
    LibraryShelf,
    Recorder,
    by_number,
    clear,
    due,
    usable,
)
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.lidarr.submitter import Accepted
from tidegate_apps.music.library import Album, Artist, EntityKind, Library, Track

# -- concurrent lookups ------------------------------------------------------------------------------------------------
# One bad response does not affect the others.

I = TypeVar("I")  # noqa: E741 - an item
A = TypeVar("A")
_MAX_CONCURRENT = 4  # lookups
_MAX_CONSECUTIVE_FAILURES = 5  # more than this affects Lidarr as a whole, not single entries
_MAY_BE_ONE = frozenset({"upstream_failure", "timeout"})


@dataclass(slots=True)
class Answers(Generic[I, A]):
    """The results of lookups. If *ended* is set, it is the reason why the rest was not looked up."""

    good: list[A] = field(default_factory=list)
    bad: list[tuple[I, Fault]] = field(default_factory=list)  # failed, possibly because of the item
    ended: Exception | None = None


async def ask_each(items: Sequence[I], ask: Callable[[I], Awaitable[A]]) -> Answers[I, A]:
    """Return the results in order. A fault of Lidarr as a whole ends the loop early."""
    results, in_a_row = Answers[I, A](), 0
    left, good = iter(enumerate(items)), dict[int, A]()

    async def run() -> None:
        nonlocal in_a_row
        for place, item in left:
            if results.ended is not None:
                return
            try:
                good[place] = await ask(item)
                in_a_row = 0
            except BAD as error:
                fault = fault_of(error)
                whole = fault.reach.rank > Reach.OPERATION.rank and not fault.unclassified
                in_a_row += whole
                if whole and (fault.code not in _MAY_BE_ONE or in_a_row >= _MAX_CONSECUTIVE_FAILURES):
                    results.ended = error
                if not whole or fault.code in _MAY_BE_ONE:
                    results.bad.append((item, fault))

    # A few workers instead of a task per item: a page is long.
    await asyncio.gather(*(run() for _ in range(_MAX_CONCURRENT)))
    results.good = [good[place] for place in sorted(good)]
    return results


_log = logging.getLogger("tidegate.lidarr")

Entity = TypeVar("Entity", Artist, Album)
_PAGE_SIZE = 500


@dataclass(slots=True)
class ScanCounts:
    """What one scan did, in all its passes."""

    looked: int = 0
    found: int = 0
    queued: int = 0
    unanswered: list[tuple[str, int]] = field(default_factory=list)  # kind and id; the next scan retries them
    why: str = ""  # of the last of them

    def as_json(self) -> dict[str, int]:
        return {"looked": self.looked, "found": self.found, "queued": self.queued}

    def without_answer(self, kind: str) -> set[int]:
        return {entity_id for entity_kind, entity_id in self.unanswered if entity_kind == kind}


class Enricher:
    """One pass over the libraries of all users: artists, then albums, then tracks."""

    def __init__(
        self, app: Installed[LidarrSettings], library: Library, submit: JobFunction[[Submission], Accepted]
    ) -> None:
        self._app, self._library = app, library
        self._run_blocking = app.queue.run_blocking
        self.recorder = Recorder(app, library, submit)

    async def run(
        self, lidarr: Lidarr, stopping: Callable[[], bool], *, before: float, tally: ScanCounts | None = None
    ) -> ScanCounts:
        """Skip what was scanned after *before*, and what got no response according to *tally*.

        A stop takes effect between two pages.
        """
        tally = ScanCounts() if tally is None else tally
        library = self._library
        for user in await self._run_blocking(library.users):
            artists = LibraryShelf("artist", user, library.artists)
            await self._pages(artists, stopping, lambda page: self.artists(lidarr, page, before, tally))
            albums = LibraryShelf("album", user, library.albums)
            await self._pages(albums, stopping, lambda page: self.albums(lidarr, page, before, tally))
            await self._pages(LibraryShelf("track", user, library.tracks), stopping, self._tracks)
        return tally

    async def _pages(
        self, cache: LibraryShelf[E], stopping: Callable[[], bool], work: Callable[[Sequence[E]], Awaitable[None]]
    ) -> None:
        after = 0
        while not stopping():
            page = await self._run_blocking(partial(cache.read, cache.user, after=after, limit=_PAGE_SIZE))
            await self._run_blocking(partial(clear, self._app, self._library, cache, page, after))
            if not page:
                return
            await work(page)
            after = page[-1].id

    # -- artists and albums --------------------------------------------------------------------------------------------

    async def artists(self, lidarr: Lidarr, page: Sequence[Artist], before: float, tally: ScanCounts) -> None:
        known = await self._run_blocking(lambda: self._known("artist", page))
        skipped = tally.without_answer("artist")
        wanted = [
            artist
            for artist in page
            if usable(artist.mbid) and artist.id not in skipped and due(known.get(artist.id), str(artist.mbid), before)
        ]

        async def look(artist: Artist) -> EntityObservation:
            mbid, was = str(artist.mbid), known.get(artist.id)
            lidarr_artist = await lidarr.artist(mbid)
            status = None if lidarr_artist is None else "monitored" if lidarr_artist.monitored else "pending"
            return EntityObservation(
                kind="artist",
                entity_id=artist.id,
                user=artist.user,
                name=artist.name,
                mbid=mbid,
                status=status,
                lidarr_id=None if lidarr_artist is None else lidarr_artist.id,
                lost=await _lost(lidarr, "artist", was, lidarr_artist),
            )

        await self._put("artist", await ask_each(wanted, look), known, tally)

    async def albums(self, lidarr: Lidarr, page: Sequence[Album], before: float, tally: ScanCounts) -> None:
        known = await self._run_blocking(lambda: self._known("album", page))
        skipped = tally.without_answer("album")
        with_id = [album for album in page if usable(album.mbid) and album.id not in skipped]
        wanted = [album for album in with_id if due(known.get(album.id), str(album.mbid), before)]
        if not wanted:
            return
        downloading = (await lidarr.downloads()).albums
        unseen = await self._missing_artists(lidarr, [album for album in wanted if usable(album.artist_mbid)], tally)
        wanted = [album for album in wanted if album.artist_id not in unseen]

        async def look(album: Album) -> EntityObservation:
            mbid, was = str(album.mbid), known.get(album.id)
            lidarr_album = await lidarr.album(mbid)
            return EntityObservation(
                kind="album",
                entity_id=album.id,
                user=album.user,
                name=album.title,
                artist=album.artist,
                mbid=mbid,
                status=None if lidarr_album is None else status_of(lidarr_album, downloading),
                idle=lidarr_album is not None and is_idle(lidarr_album, downloading),
                lidarr_id=None if lidarr_album is None else lidarr_album.id,
                lost=await _lost(lidarr, "album", was, lidarr_album),
                artist_id=album.artist_id,
                artist_mbid=str(album.artist_mbid) if usable(album.artist_mbid) else "",
            )

        await self._put("album", await ask_each(wanted, look), known, tally)

    async def _missing_artists(self, lidarr: Lidarr, albums: Iterable[Album], tally: ScanCounts) -> set[int]:
        """Look up artists that were added to the library after this pass had read the artists.

        Returns those without a response: their albums cannot be decided.
        """
        wanted = {
            album.artist_id: Artist(album.artist_id, album.user, album.artist, album.artist_mbid) for album in albums
        }
        page = [wanted[id_] for id_ in sorted(wanted)]
        known = await self._run_blocking(lambda: self._known("artist", page))
        missing = [artist for artist in page if artist.id not in known]
        if not missing:
            return set()
        await self.artists(lidarr, missing, 0.0, tally)
        return wanted.keys() - (await self._run_blocking(lambda: self._known("artist", page))).keys()

    def _known(self, kind: str, page: Sequence[Artist | Album]) -> dict[int, EntityRecord]:
        if not page:
            return {}
        return by_number(self._app.db.query_as(EntityRecord, "entities", kind=kind, first=page[0].id, last=page[-1].id))

    async def _put(
        self,
        kind: EntityKind,
        answers: Answers[Entity, EntityObservation],
        known: dict[int, EntityRecord],
        tally: ScanCounts,
    ) -> None:
        """Write one page in one transaction: jobs, records and changed badges.

        If a fault ended the page early, it is raised after the earlier results are written.
        """
        seen = answers.good
        tally.looked += len(seen)
        if seen:
            put = partial(self.recorder.put, seen=seen, known=known)
            tally.queued += await self._run_blocking(lambda: self._app.db.write(put))
            tally.found += sum(observation.status is not None for observation in seen)
        if answers.bad:
            _, last = answers.bad[-1]
            tally.unanswered += [(kind, item.id) for item, _ in answers.bad]
            tally.why = last.message
            about = (len(answers.bad), last.code, last.detail)
            _log.log(last.level.number, "look_skipped n=%s code=%s error=%s", *about)
        if answers.ended is not None:
            raise answers.ended

    # -- tracks --------------------------------------------------------------------------------------------------------

    async def _tracks(self, page: Sequence[Track]) -> None:
        """Give tracks the badge of their album, without a lookup."""
        await self._run_blocking(lambda: self._app.db.write(lambda tx: self.recorder.put_tracks(tx, page)))


async def _lost(lidarr: Lidarr, kind: str, was: EntityRecord | None, found: object) -> bool:
    """Return whether Lidarr had the entity and has lost it, so that it must be submitted again."""
    if found is not None or was is None or was.lidarr_id is None or was.state != "done":
        return False
    return not await lidarr.knows(kind, was.lidarr_id)
