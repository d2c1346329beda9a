"""What the tests of lidarr build with: a library, a Lidarr, and a clock for both."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from tests.databases import Database
from tidegate import Queue
from tidegate.apps import Db, Installed, install
from tidegate.clock import VirtualClock
from tidegate.guard import Tuning
from tidegate_apps.lidarr import jobs
from tidegate_apps.lidarr.app import app
from tidegate_apps.lidarr.library_scan import ScanCounts
from tidegate_apps.lidarr.models import SubmissionEntry, SubmissionRow, entry_of
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.lidarr.submit_cycle import CycleReport
from tidegate_apps.music.library import tables
from tidegate_demo.simulators.lidarr import KEY, LidarrSimulator

USER = "ada"
_PROBE = """
-- name: badge
select word, tone, icon, tooltip, href from music_badge where kind = :kind and entity_id = :entity_id;

-- name: notices
select kind, title from tg_notice where ended_at is null order by id;
"""


@dataclass
class Round:
    """The submission queue of one database, the library before it, and the Lidarr behind it, in virtual time."""

    queue: Queue
    there: Installed[LidarrSettings]
    clock: VirtualClock
    sim: LidarrSimulator
    artists: dict[str, int] = field(default_factory=dict)  # numbers, by MusicBrainz id
    albums: dict[str, int] = field(default_factory=dict)
    _probe: Db | None = None

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, db: Database, *, clock: VirtualClock | None = None, sim: LidarrSimulator | None = None, **settings: Any
    ) -> Iterator[Self]:
        clock = clock or VirtualClock()
        sim = sim or LidarrSimulator(clock=clock)
        wanted = dataclasses.replace(app, jobs=lambda there: jobs.declare(there, sim.transport()))
        with Queue(db.url, driver=db.driver, clock=clock, inline=True, tuning=Tuning(rng=lambda: 0.5)) as queue:
            said = {"base_url": "http://lidarr", "api_key": KEY, **settings}
            there = install(wanted, queue, LidarrSettings.model_validate(said))
            yield cls(queue, there, clock, sim)
            there.closing.close()

    @property
    def jobs(self) -> jobs.LidarrJobs:
        found: jobs.LidarrJobs = self.there.jobs
        return found

    # -- the library ---------------------------------------------------------------------------------------------------

    def artist(self, mbid: str | None, name: str = "", *, user: str = USER, known: bool = True) -> int:
        db = tables(self.queue)
        made = db.write(lambda tx: [
            tx.all("add_user", user_id=user, at=0.0),
            tx.all("add_artist", user_id=user, name=name or f"Name {mbid}", name_key=f"{name} {mbid}", mbid=mbid),
        ][1][0][0])  # fmt: skip
        if mbid is not None:
            self.artists[mbid] = made
            if known:
                self.sim.inside.catalogue.setdefault(mbid, (name or f"Name {mbid}", []))
        return int(made)

    def album(self, mbid: str | None, artist: str = "", *, artist_id: int = 0, user: str = USER) -> int:
        """An album of the artist with that MusicBrainz id, who has it in the catalogue of the metadata service, too."""
        db, of = tables(self.queue), artist_id or self.artists[artist]
        title = f"Title {mbid}"
        made = db.write(lambda tx: tx.all(
            "add_album", user_id=user, artist_id=of, title=title, name_key=title, mbid=mbid,
        )[0][0])  # fmt: skip
        if mbid is not None:
            self.albums[mbid] = made
            if artist in self.sim.inside.catalogue:
                self.sim.inside.catalogue[artist][1].append(mbid)
        return int(made)

    def track(self, album: int, artist: int, title: str = "Song", *, user: str = USER) -> int:
        return int(tables(self.queue).write(lambda tx: tx.all(
            "add_track", user_id=user, artist_id=artist, album_id=album, title=title, name_key=f"{title} {album}",
            mbid=None, isrc=None, seconds=None,
        )[0][0]))  # fmt: skip

    def some(self, artists: int, albums: int) -> None:
        """So many artists with so many albums each."""
        for a in range(artists):
            self.artist(f"artist-{a}")
            for b in range(albums):
                self.album(f"album-{a}-{b}", f"artist-{a}")

    # -- what is done --------------------------------------------------------------------------------------------------

    def look(self) -> ScanCounts:
        async def main() -> ScanCounts:
            async with self.jobs.submitter.opened() as lidarr:
                return await self.jobs.enricher.run(lidarr, lambda: False, before=self.clock.now())

        return self.clock.run(main())

    def look_job(self, *, force: bool = False) -> str:
        """The job that looks, put in if there is none, and worked on as far as it is due; returns its state."""
        job = self.jobs.look.enqueue(force)
        self.clock.run(self.queue.adrain("lidarr-look"))
        return str(job.state())

    def wake(self) -> CycleReport:
        """One wake, now."""
        found = self.clock.run(self.jobs.waker.run_cycle())
        assert found is not None
        return found

    def wakes(self, n: int) -> list[CycleReport]:
        """So many of them, on their interval."""
        found = []
        for _ in range(n):
            found.append(self.wake())
            self.clock.advance_to(self.jobs.waker.next_at() - self.clock.now() + self.clock.monotonic())
        return found

    # -- what is seen --------------------------------------------------------------------------------------------------

    def entries(self) -> list[SubmissionEntry]:
        return sorted(
            (entry_of(row) for row in self.there.db.query_as(SubmissionRow, "rows", below=2**53, n=100_000)),
            key=lambda each: each.id,
        )  # fmt: skip

    def entry(self, kind: str, mbid: str) -> SubmissionEntry:
        (found,) = [each for each in self.entries() if (each.entity_type, each.musicbrainz_id) == (kind, mbid)]
        return found

    def status(self, kind: str, entity_id: int) -> str | None:
        row = self.there.db.one("shown", kind=kind, entity_id=entity_id)
        return None if row is None else row[5]

    def badge(self, kind: str, entity_id: int) -> tuple[Any, ...] | None:
        """Word, tone, icon, tooltip and link that the library shows."""
        return self.probe.one("badge", kind=kind, entity_id=entity_id)

    @property
    def probe(self) -> Db:
        """What the tests read of the tables of others."""
        if self._probe is None:
            self._probe = self.queue.db("probe", statements=_PROBE)
        return self._probe

    def sent(self, route: str) -> int:
        return self.sim.sent(route)

    def calls(self) -> int:
        """Everything that Lidarr was asked."""
        return len(self.sim.asked())


def metrics(caplog: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """The log events of the submission queue, each with its values."""
    found = []
    for record in caplog.records:
        if record.name == "tidegate.lidarr" and record.msg.startswith("metric."):
            assert record.levelno == logging.INFO
            found.append((record.msg.split()[0], record.args))
    return found


def last_metric(caplog: Any, event: str) -> tuple[Any, ...]:
    """The values of the last one of these."""
    return [values for name, values in metrics(caplog) if name == f"metric.lidarr.{event}"][-1]


def notices(at: Round) -> list[tuple[str, str]]:
    """Those that are open, of kind and title."""
    return [(kind, title) for kind, title in at.probe.all("notices")]
