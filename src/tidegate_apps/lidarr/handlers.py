"""The jobs: one sends an entry, one wakes the sender on its interval, one wakes it now, one looks what Lidarr has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate import Again, Backoff, BreakerOptions, Capacity, Context, Done, Target
from tidegate.apps import Installed
from tidegate.guard import Add
from tidegate.jobs import JobFunction
from tidegate_apps.lidarr.codes import FIVE_IN_A_ROW, PACK, TARGET
from tidegate_apps.lidarr.enriching import Enricher
from tidegate_apps.lidarr.looking import LibraryScan
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.lidarr.states import CUT_SHORT, Submission
from tidegate_apps.lidarr.submitter import Submitter
from tidegate_apps.lidarr.submitting import Accepted
from tidegate_apps.lidarr.wake import QUEUE, SubmitCycleRunner
from tidegate_apps.music.library import Library

WAKES, LOOKS = "lidarr-wake", "lidarr-look"
_BREAKER: BreakerOptions = {
    "consecutive": FIVE_IN_A_ROW["consecutive"], "failure_ratio": FIVE_IN_A_ROW["failure_ratio"], "timeout": 120,
    "max_requests": 3,
}  # fmt: skip
_RETENTION = 3650 * 86400.0  # seconds: final entries are pruned in the wakes, with their badges
_POLL_INTERVAL = 1.0  # seconds between two looks whether to stop, or at the time


@dataclass(frozen=True, slots=True, kw_only=True)
class LidarrJobs:
    """What routes, pages, schedules and commands use."""

    library: Library
    submitter: Submitter
    waker: SubmitCycleRunner
    enricher: Enricher
    submit: JobFunction[[Submission], Accepted]
    wakes: JobFunction[[], int]
    wake_now: JobFunction[[], dict[str, Any] | None]
    look: JobFunction[[bool], dict[str, int]]


def declare(app: Installed[LidarrSettings], transport: Any = None, poll_interval: float = _POLL_INTERVAL) -> LidarrJobs:
    """*transport*: of httpx2, for a Lidarr without sockets. *look_every*: seconds between two looks at the time."""
    settings, queue, clock = app.settings, app.queue, app.queue.clock
    library = Library(queue)
    submitter = Submitter(app, library, transport)
    target = Target(
        TARGET, "jobs", rules=PACK, backoff=None, self_guard=False, clock=clock,
        breaker=_BREAKER if settings.breaker else False,
        capacity=Capacity(
            settings.queue_max, depth=submitter.depth, own=float(settings.credit_time) if settings.credits else 0,
            counts=lambda given: given["submission"]["entity_type"] == "album",  # an artist is no download
        ),
    )  # fmt: skip
    queue.batch_only(QUEUE)
    queue.set_retention(QUEUE, done=_RETENTION, failed=_RETENTION, cancelled=_RETENTION)
    queue.set_retention(WAKES, done="1d")
    queue.set_retention(LOOKS, done="1d")

    @queue.job(
        queue=QUEUE, name="lidarr.submit", target=target, unique=lambda submission: submission.unique,
        # A person's cancel stands until it is undone, also when the next look finds the same missing.
        while_={"queued", "running", "done", "failed", "cancelled"}, attempts=settings.attempts + CUT_SHORT,
        backoff=Backoff("1m", cap="1h", jitter=Add("0s", "1m")),
    )  # fmt: skip
    async def submit(job: Context, submission: Submission) -> Done[Accepted]:
        return await submitter.submit(submission, job)

    waker, enricher = SubmitCycleRunner(app, submitter), Enricher(app, library, submit)
    looker = LibraryScan(app, submitter, enricher)

    @queue.job(queue=WAKES, name="lidarr.wakes", unique=True, attempts=1000)
    async def wakes(job: Context) -> int:
        end, done = job.end_of_turn(clock.now()), 0
        if await queue.run_blocking(lambda: app.db.one("last_look")) is None:
            await look.aenqueue(False)  # nobody has to wait for the schedule to see something
        while not job.stopping and clock.now() < end:
            at = await queue.run_blocking(waker.next_at)
            if clock.now() < at:
                await clock.asleep(min(poll_interval, at - clock.now()))
                continue
            if await waker.run_cycle(lambda: job.stopping) is None:
                await clock.asleep(poll_interval)  # somebody has asked for one, and it is under way
            else:
                done += 1
        if job.stopping:
            raise Again(keep_attempt=True)
        return done

    @queue.job(queue=WAKES, name="lidarr.wake_now", unique=True, attempts=1)
    async def wake_now(job: Context) -> dict[str, Any] | None:
        woken = await waker.run_cycle(lambda: job.stopping)
        return None if woken is None else woken.as_json()

    @queue.job(queue=LOOKS, name="lidarr.look", unique=True, attempts=5, backoff=Backoff("1m", cap="30m"))
    async def look(job: Context, force: bool) -> dict[str, int]:
        return await looker.scan(force, job)

    return LidarrJobs(
        library=library, submitter=submitter, waker=waker, enricher=enricher, submit=submit, wakes=wakes,
        wake_now=wake_now, look=look,
    )  # fmt: skip
