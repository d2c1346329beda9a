"""The jobs: submit an entry, run submit cycles on an interval, run one now, scan the library."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from tidegate import Again, Backoff, BreakerOptions, Capacity, Context, Done, Target
from tidegate.apps import Installed
from tidegate.guard import Add
from tidegate.jobs import JobFunction
from tidegate_apps.lidarr.client import LidarrError, fault_of
from tidegate_apps.lidarr.codes import FIVE_IN_A_ROW, PACK, TARGET
from tidegate_apps.lidarr.library_scan import Enricher, ScanCounts
from tidegate_apps.lidarr.models import CUT_SHORT, Submission
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.lidarr.submit_cycle import QUEUE, CycleReport, SubmitCycleRunner
from tidegate_apps.lidarr.submitter import Accepted, Submitter
from tidegate_apps.music.library import Library

# -- library scan ------------------------------------------------------------------------------------------------------
# If Lidarr fails during a scan, the job resumes it later.

_log = logging.getLogger("tidegate.lidarr")

_RESUME_SECONDS = 300.0  # seconds until a scan resumes
_MAX_KEPT = 100  # entries without a response that a resumed scan skips


@dataclass(frozen=True, slots=True)
class LibraryScan:
    app: Installed[LidarrSettings]
    submitter: Submitter
    enricher: Enricher

    async def scan(self, force: bool, job: Context) -> dict[str, int]:
        """Scan the library. Entries that were scanned recently are skipped, unless *force*.

        A resumed scan skips entries that got no response, so that they cannot block the others.
        """
        if not self.app.settings.configured:
            return ScanCounts().as_json()
        clock, settings = self.app.queue.clock, self.app.settings
        began, tally = _kept(job.saved, clock.now())
        before = began if force else clock.now() - float(settings.enrich_every)
        ended = None
        async with self.submitter.opened() as lidarr:
            try:
                await self.enricher.run(lidarr, lambda: job.stopping, before=before, tally=tally)
            except (httpx2.HTTPError, LidarrError) as error:
                ended = fault_of(error)
                _log.log(ended.level.number, "look_ended code=%s error=%s", ended.code, ended.detail)
        message = ended.message if ended is not None else _skipped(tally)
        if tally.looked or message:
            goes_on_at = clock.now() + _RESUME_SECONDS if ended is not None else None
            seen = {**tally.as_json(), "at": began, "message": message, "goes_on_at": goes_on_at}
            await self.app.queue.run_blocking(lambda: self.app.db.all("put_look", **seen))
        if ended is not None or job.stopping:
            await job.save(began=began, **tally.as_json(), unanswered=tally.unanswered[-_MAX_KEPT:], why=tally.why)
        if job.stopping:
            raise Again(keep_attempt=True)
        if ended is not None:
            raise Again(
                _RESUME_SECONDS, keep_attempt=True, code=ended.code, message=ended.message, status=ended.status or None
            )
        return tally.as_json()


def _kept(saved: Mapping[str, Any], now: float) -> tuple[float, ScanCounts]:
    """Return the start of this scan and its counts so far."""
    if "began" not in saved:
        return now, ScanCounts()
    tally = ScanCounts(
        looked=saved["looked"],
        found=saved["found"],
        queued=saved["queued"],
        why=saved["why"],
        unanswered=[(kind, entity_id) for kind, entity_id in saved["unanswered"]],
    )
    return saved["began"], tally


def _skipped(tally: ScanCounts) -> str:
    n = len(tally.unanswered)
    return f"{n} could not be looked for, and will be in the next look: {tally.why}" if n else ""


WAKES, LOOKS = "lidarr-wake", "lidarr-look"
_BREAKER: BreakerOptions = {**FIVE_IN_A_ROW, "max_requests": 3}
_RETENTION = 3650 * 86400.0  # seconds; submit cycles prune final entries earlier, with their badges
_POLL_INTERVAL = 1.0  # seconds between two checks of the clock and of a stop


@dataclass(frozen=True, slots=True, kw_only=True)
class LidarrJobs:
    """The parts of the application that routes, pages, schedules and commands share."""

    library: Library
    submitter: Submitter
    waker: SubmitCycleRunner
    enricher: Enricher
    submit: JobFunction[[Submission], Accepted]
    wakes: JobFunction[[], int]
    wake_now: JobFunction[[], CycleReport | None]
    look: JobFunction[[bool], dict[str, int]]


def declare(
    app: Installed[LidarrSettings],
    transport: httpx2.AsyncBaseTransport | None = None,
    poll_interval: float = _POLL_INTERVAL,
) -> LidarrJobs:
    """Declare the jobs.

    *transport* replaces sockets in tests. *poll_interval*: seconds between two checks of the clock.
    """
    settings, queue, clock = app.settings, app.queue, app.queue.clock
    library = Library(queue)
    submitter = Submitter(app, library, transport)
    target = Target(
        TARGET,
        "jobs",
        rules=PACK,
        backoff=None,
        self_guard=False,
        clock=clock,
        breaker=_BREAKER if settings.breaker else False,
        capacity=Capacity(
            settings.queue_max,
            depth=submitter.depth,
            own=float(settings.credit_time) if settings.credits else 0,
            counts=lambda given: given["submission"]["entity_type"] == "album",  # an artist is not a download
        ),
    )
    queue.batch_only(QUEUE)
    queue.set_retention(QUEUE, done=_RETENTION, failed=_RETENTION, cancelled=_RETENTION)
    queue.set_retention(WAKES, done="1d")
    queue.set_retention(LOOKS, done="1d")

    @queue.job(
        queue=QUEUE,
        name="lidarr.submit",
        target=target,
        unique=lambda submission: submission.unique,
        # A cancel by a user holds until it is undone, even if the next scan finds the same entity missing.
        while_={"queued", "running", "done", "failed", "cancelled"},
        attempts=settings.attempts + CUT_SHORT,
        backoff=Backoff("1m", cap="1h", jitter=Add("0s", "1m")),
        free_trials=0,  # each failed submission is an attempt
    )
    async def submit(job: Context, submission: Submission) -> Done[Accepted]:
        return await submitter.submit(submission, job)

    waker, enricher = SubmitCycleRunner(app, submitter), Enricher(app, library, submit)
    looker = LibraryScan(app, submitter, enricher)

    @queue.job(queue=WAKES, name="lidarr.wakes", unique=True, attempts=1000)
    async def wakes(job: Context) -> int:
        end, done = job.end_of_turn(clock.now()), 0
        if await queue.run_blocking(lambda: app.db.one("last_look")) is None:
            await look.aenqueue(False)  # so that entries appear before the first scheduled scan
        while not job.stopping and clock.now() < end:
            at = await queue.run_blocking(waker.next_at)
            if clock.now() < at:
                await clock.asleep(min(poll_interval, at - clock.now()))
                continue
            if await waker.run_cycle(lambda: job.stopping) is None:
                await clock.asleep(poll_interval)  # a requested cycle is already running
            else:
                done += 1
        if job.stopping:
            raise Again(keep_attempt=True)
        return done

    @queue.job(queue=WAKES, name="lidarr.wake_now", unique=True, attempts=1)
    async def wake_now(job: Context) -> CycleReport | None:
        return await waker.run_cycle(lambda: job.stopping)

    @queue.job(queue=LOOKS, name="lidarr.look", unique=True, attempts=5, backoff=Backoff("1m", cap="30m"))
    async def look(job: Context, force: bool) -> dict[str, int]:
        return await looker.scan(force, job)

    return LidarrJobs(
        library=library,
        submitter=submitter,
        waker=waker,
        enricher=enricher,
        submit=submit,
        wakes=wakes,
        wake_now=wake_now,
        look=look,
    )
