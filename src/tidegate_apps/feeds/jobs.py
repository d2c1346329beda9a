"""The jobs: one polls as long as its worker runs, one updates a remote source manager."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import httpx2

from tidegate import Again, Backoff, Context, Done, Target, net
from tidegate.apps import DbTx, Installed
from tidegate.guard import NetworkGuardPolicy
from tidegate.jobs import JobFunction
from tidegate_apps.feeds.client import Get, Parse
from tidegate_apps.feeds.host_guard import FailureAttribution
from tidegate_apps.feeds.poll_results import SourceManager
from tidegate_apps.feeds.poller import POLL_INTERVAL, PollClock, Poller, PollPolicy
from tidegate_apps.feeds.service import Sources
from tidegate_apps.feeds.settings import FeedsSettings
from tidegate_apps.feeds.source_manager import RemoteSources, source_event_fields, tell_there
from tidegate_apps.feeds.state import FeedState

_log = logging.getLogger("tidegate.feeds")

QUEUE = "feeds"


@dataclass(frozen=True, slots=True)
class SourceEvent:
    """An event of a poll that the remote source manager must know."""

    source_id: int
    fence: int
    moved_from: str = ""  # the URL before the move


@dataclass(slots=True, kw_only=True)
class FeedJobs:
    """The parts of the application that jobs, routes and pages share."""

    sources: Sources
    poll: JobFunction[[], int] | None = None
    tell: JobFunction[[SourceEvent], None] | None = None
    manager: SourceManager | None = None
    poller: Callable[[Get, PollClock], Poller] | None = None  # each poller continues where the last one stopped
    contact_asked_for: bool = False  # log the advice only once


class Fetches(Protocol):
    """The interface of `net.Client`."""

    @property
    def get(self) -> Get: ...


@contextlib.asynccontextmanager
async def client_of(settings: FeedsSettings) -> AsyncIterator[Fetches]:
    async with net.Client(
        user_agent=user_agent(settings),
        allow=settings.allow_networks,
        ports=settings.ports or None,
        total=float(settings.total),
        body=settings.body,
        redirects=settings.redirects,
    ) as client:
        yield client


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedDependencies:
    """External dependencies of polling.

    Tests replace them to run without sockets. *look*: seconds between two polls of the database.
    """

    client: Callable[[FeedsSettings], AbstractAsyncContextManager[Fetches]] = client_of
    rng: Callable[[], float] = random.random
    look: float = POLL_INTERVAL


def declare(app: Installed[FeedsSettings], parse: Parse, outside: FeedDependencies | None = None) -> FeedJobs:
    """Declare the jobs of this server; none if it only manages sources."""
    outside = outside or FeedDependencies()

    def wake(tx: DbTx) -> None:
        if parts.poll is not None:
            parts.poll.options(connection=tx).enqueue()

    parts = FeedJobs(
        sources=Sources(app.db, app.queue.clock.now, float(app.settings.interval), wake),
        contact_asked_for=bool(app.settings.contact),
    )
    remote = bool(app.settings.source_manager_url)
    if remote:
        parts.manager, parts.tell = _remote(app)
    else:
        parts.manager = parts.sources
    manager, policy = parts.manager, replace(policy_of(app.settings), poll_interval=outside.look)
    attribution = FailureAttribution(policy.guard, hosts=policy.host_guard)

    def poller_of(get: Get, times: PollClock) -> Poller:
        return Poller(app.db, manager, get, parse, times, policy, attribution)

    parts.poller = poller_of
    if app.settings.poll:

        @app.queue.job(queue=QUEUE, name="feeds.poll", unique=True, attempts=1000)
        async def poll(job: Context) -> int:
            clock = app.queue.clock
            end = job.end_of_turn(clock.now())
            if not parts.contact_asked_for and await app.db.aall("next_due") != [(None,)]:
                parts.contact_asked_for = True
                _log.warning("no_contact setting=%s", "feeds.contact")
            async with outside.client(app.settings) as client:
                times = PollClock(
                    now=clock.now, monotonic=clock.monotonic, older_than=app.queue.older_than, rng=outside.rng
                )
                poller = poller_of(client.get, times)
                refreshing = asyncio.create_task(_refresh(app, manager)) if remote else None
                try:
                    await poller.run(lambda: job.stopping or job.cancelled or clock.now() >= end, drain=job.in_cycle)
                finally:
                    if refreshing is not None:
                        refreshing.cancel()
                        await asyncio.gather(refreshing, return_exceptions=True)
            if job.stopping:
                raise Again(keep_attempt=True)
            return poller.tally.polled

        parts.poll = poll
    return parts


def policy_of(settings: FeedsSettings) -> PollPolicy:
    guard = NetworkGuardPolicy(
        hosts=settings.own_link_hosts, share=settings.own_link_share, within=float(settings.own_link_within)
    )
    return PollPolicy(
        concurrency=settings.concurrency,
        guard=guard if settings.own_link else None,
        history=float(settings.history),
        events=float(settings.events),
        items=settings.keep_items,
        host_guard=settings.host_guard,
    )


def user_agent(settings: FeedsSettings) -> str:
    """Return a User-Agent with a contact, so that site operators can complain."""
    return net.user_agent("feed poller", settings.contact)


async def _refresh(app: Installed[FeedsSettings], manager: SourceManager) -> None:
    while True:
        try:
            await manager.refresh()
        except Exception:  # a bug of ours: keep the old list and retry at the next refresh
            _log.exception("sources_not_refreshed")
        await app.queue.clock.asleep(float(app.settings.refresh))


# -- the remote source manager -----------------------------------------------------------------------------------------


def _remote(app: Installed[FeedsSettings]) -> tuple[SourceManager, JobFunction[[SourceEvent], None]]:
    clock = app.queue.clock
    target = Target(
        "source-manager",
        "jobs",
        backoff=None,
        breaker={"consecutive": 5, "timeout": 30},
        concurrency=1,
        deadline="30s",
        clock=clock,
    )
    clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = WeakKeyDictionary()
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # httpx2 logs every request

    def client() -> httpx2.AsyncClient:
        """Return one client per event loop: workers may run their own loop."""
        loop = asyncio.get_running_loop()
        if loop not in clients:
            token = app.settings.source_manager_token.get_secret_value()
            clients[loop] = httpx2.AsyncClient(
                base_url=app.settings.source_manager_url,
                timeout=20,
                headers={"Authorization": f"Bearer {token}", "User-Agent": user_agent(app.settings)},
            )
        return clients[loop]

    @app.queue.job(
        queue=QUEUE,
        name="feeds.tell",
        target=target,
        attempts=1000,
        backoff=Backoff("2s", cap="5m"),
        unique=lambda word: (word.source_id, word.fence, word.moved_from),
    )
    async def tell(word: SourceEvent) -> Done[None]:
        state = await app.db.afirst(FeedState, "states", source_id=word.source_id)
        if state is None:
            return Done(None, unsent=True)
        await tell_there(client(), state, word.moved_from)
        return Done(None, writes=[app.db.bind("told", **source_event_fields(state))])

    def put_in(tx: DbTx, state: FeedState, moved_from: str = "") -> object:
        return tell.options(connection=tx).enqueue(SourceEvent(state.source_id, state.fence, moved_from))

    return RemoteSources(app.db, target, client, clock.now, put_in), tell


# -- polling from the command line -------------------------------------------------------------------------------------

_POLL_INTERVAL = 0.2


def poll_until(
    app: Installed[Any], ids: Sequence[int], wait: float, progress: Callable[[int, int], None], by: str
) -> int:
    """Request polls, wait for them, and return how many finished in time.

    Only one job polls. If a server holds its lease, that server does the work. Otherwise this process claims the job.
    So nothing is polled twice.
    """
    began = app.queue.clock.now()
    app.jobs.sources.poll_all(ids, by)
    return asyncio.run(_work(app, ids, began, wait, progress))


async def _work(
    app: Installed[Any], ids: Sequence[int], began: float, wait: float, progress: Callable[[int, int], None]
) -> int:
    stop = asyncio.Event()
    worker = asyncio.create_task(app.queue.arun_worker(2, queues={QUEUE}, stop=stop, grace=5))
    end = app.queue.clock.monotonic() + wait
    done = 0
    try:
        while done < len(ids) and app.queue.clock.monotonic() < end and not worker.done():
            await asyncio.sleep(_POLL_INTERVAL)
            done = await asyncio.get_running_loop().run_in_executor(None, _polled, app, ids, began)
            progress(done, len(ids))
    finally:
        stop.set()
        await worker
    return done


def _polled(app: Installed[Any], ids: Sequence[int], began: float) -> int:
    states = [app.db.first(FeedState, "states", source_id=id_) for id_ in ids]
    return sum(state is None or (state.last_polled_at or -1.0) >= began for state in states)
