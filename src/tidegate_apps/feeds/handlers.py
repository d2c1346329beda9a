"""The jobs: one that polls for as long as its worker lives, and one that tells another source manager."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Protocol
from weakref import WeakKeyDictionary

import httpx2

from tidegate import Again, Backoff, Context, Done, Target, net
from tidegate.apps import DbTx, Installed
from tidegate.guard import SelfGuard
from tidegate.jobs import JobFunction
from tidegate_apps.feeds.blaming import Blame
from tidegate_apps.feeds.fetching import Fetching, Get, Parse
from tidegate_apps.feeds.managing import Here, There, said, tell_there
from tidegate_apps.feeds.poller import LOOK, Poller, PollPolicy, Times
from tidegate_apps.feeds.recording import SourceManager, state_of
from tidegate_apps.feeds.settings import Settings
from tidegate_apps.feeds.sources import Sources
from tidegate_apps.feeds.verdicts import FeedState

_log = logging.getLogger("tidegate.feeds")

QUEUE = "feeds"


@dataclass(frozen=True, slots=True)
class Word:
    """Something happened to a feed, at one of its polls, that another source manager must hear of."""

    source_id: int
    fence: int
    moved_from: str = ""  # the address until now, when it has moved


@dataclass(slots=True, kw_only=True)
class Jobs:
    """What the application has at work."""

    sources: Sources
    poll: JobFunction[[], int] | None = None
    tell: JobFunction[[Word], None] | None = None
    manager: SourceManager | None = None
    poller: Callable[[Fetching, Times], Poller] | None = None  # each goes on where the last one was
    contact_asked_for: bool = False  # once is enough


class Fetches(Protocol):
    """As a `net.Client`."""

    @property
    def get(self) -> Get: ...


@contextlib.asynccontextmanager
async def client_of(settings: Settings) -> AsyncIterator[Fetches]:
    async with net.Client(
        user_agent=user_agent(settings), allow=settings.allow_networks, ports=settings.ports or None,
        total=float(settings.total), body=settings.body, redirects=settings.redirects,
    ) as client:  # fmt: skip
        yield client


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What polling needs of the world: other clients do without sockets. *look*: seconds between two looks."""

    client: Callable[[Settings], AbstractAsyncContextManager[Fetches]] = client_of
    dice: Callable[[], float] = random.random
    look: float = LOOK


def declare(there: Installed[Settings], parse: Parse, outside: Outside | None = None) -> Jobs:
    """The jobs of this server: none when it only keeps sources."""
    outside = outside or Outside()

    def wake(tx: DbTx) -> None:
        if found.poll is not None:
            found.poll.options(connection=tx).enqueue()

    found = Jobs(
        sources=Sources(there.db, there.queue.clock.now, float(there.settings.interval), wake),
        contact_asked_for=bool(there.settings.contact),
    )
    remote = bool(there.settings.source_manager_url)
    if remote:
        found.manager, found.tell = _remote(there)
    else:
        found.manager = Here(found.sources)
    manager, policy = found.manager, replace(policy_of(there.settings), look=outside.look)
    blame = Blame(policy.guard, hosts=policy.host_guard)

    def poller_of(fetching: Fetching, times: Times) -> Poller:
        return Poller(there.db, manager, fetching, times, policy, blame)

    found.poller = poller_of
    if there.settings.poll:

        @there.queue.job(queue=QUEUE, name="feeds.poll", unique=True, attempts=1000)
        async def poll(job: Context) -> int:
            clock = there.queue.clock
            end = job.end_of_turn(clock.now())
            if not found.contact_asked_for and (await there.db.aall("next_due"))[0][0] is not None:
                found.contact_asked_for = True
                _log.warning("no_contact setting=%s", "feeds.contact")
            async with outside.client(there.settings) as client:
                times = Times(
                    now=clock.now, monotonic=clock.monotonic, older_than=there.queue.older_than, dice=outside.dice
                )
                poller = poller_of(Fetching(client.get, parse), times)
                refreshing = asyncio.create_task(_refresh(there, manager)) if remote else None
                try:
                    await poller.run(lambda: job.stopping or job.cancelled or clock.now() >= end, drain=job.in_cycle)
                finally:
                    if refreshing is not None:
                        refreshing.cancel()
                        await asyncio.gather(refreshing, return_exceptions=True)
            if job.stopping:
                raise Again(keep_attempt=True)
            return poller.tally.polled

        found.poll = poll
    return found


def policy_of(settings: Settings) -> PollPolicy:
    guard = SelfGuard(
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


def user_agent(settings: Settings) -> str:
    """Who we are, and where somebody can complain."""
    return net.user_agent("feed poller", settings.contact)


async def _refresh(there: Installed[Settings], manager: SourceManager) -> None:
    while True:
        try:
            await manager.refresh()
        except Exception:  # of ours: the list stays as it was, and the next look may go better
            _log.exception("sources_not_refreshed")
        await there.queue.clock.asleep(float(there.settings.refresh))


# -- another server ----------------------------------------------------------------------------------------------------


def _remote(there: Installed[Settings]) -> tuple[SourceManager, JobFunction[[Word], None]]:
    clock = there.queue.clock
    target = Target(
        "source-manager", "jobs", backoff=None, breaker={"consecutive": 5, "timeout": 30},
        concurrency=1, deadline="30s", clock=clock,
    )  # fmt: skip
    clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = WeakKeyDictionary()
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it says every request

    def client() -> httpx2.AsyncClient:
        """One for each loop: the workers may have one of their own."""
        loop = asyncio.get_running_loop()
        if loop not in clients:
            token = there.settings.source_manager_token.get_secret_value()
            clients[loop] = httpx2.AsyncClient(
                base_url=there.settings.source_manager_url, timeout=20,
                headers={"Authorization": f"Bearer {token}", "User-Agent": user_agent(there.settings)},
            )  # fmt: skip
        return clients[loop]

    @there.queue.job(
        queue=QUEUE, name="feeds.tell", target=target, attempts=1000, backoff=Backoff("2s", cap="5m"),
        unique=lambda word: (word.source_id, word.fence, word.moved_from),
    )  # fmt: skip
    async def tell(word: Word) -> Done[None]:
        rows = await there.db.aall("states", source_id=word.source_id)
        if not rows:
            return Done(None, unsent=True)
        state = state_of(rows[0])
        await tell_there(client(), state, word.moved_from)
        return Done(None, writes=[there.db.bind("told", **said(state))])

    def put_in(tx: DbTx, state: FeedState, moved_from: str = "") -> object:
        return tell.options(connection=tx).enqueue(Word(state.source_id, state.fence, moved_from))

    return There(there.db, target, client, clock.now, put_in), tell
