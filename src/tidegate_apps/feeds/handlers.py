"""The jobs: one that polls for as long as its worker lives, and one that tells another source manager."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2

from tidegate import Again, Backoff, Context, DbTx, Done, Installed, JobFunction, SelfGuard, Target, __version__, net
from tidegate_apps.feeds.fetching import Fetching, Parse
from tidegate_apps.feeds.managing import Here, There
from tidegate_apps.feeds.matrix import MANUAL
from tidegate_apps.feeds.poller import Poller, PollPolicy, Times
from tidegate_apps.feeds.recording import SourceManager, state_of
from tidegate_apps.feeds.settings import Settings
from tidegate_apps.feeds.sources import Sources
from tidegate_apps.feeds.verdicts import FeedState

_log = logging.getLogger("tidegate.feeds")

QUEUE = "feeds"
_TURN = 3600.0  # seconds; a job that is an hour old makes room for a fresh one
_BEFORE_TICK = 2.0  # seconds before the minute in which the schedule puts in the next


@dataclass(frozen=True, slots=True)
class Word:
    """Something happened to a feed, at one of its polls, that another source manager must hear of."""

    source_id: int
    fence: int


@dataclass(slots=True, kw_only=True)
class Jobs:
    """What the application has at work."""

    sources: Sources
    poll: JobFunction[str, int] | None = None
    tell: JobFunction[Word, None] | None = None
    manager: SourceManager | None = None


def declare(there: Installed[Settings], parse: Parse) -> Jobs:
    """The jobs of this server: none when it only keeps sources."""

    def wake(tx: DbTx) -> None:
        if found.poll is not None:
            found.poll.enqueue("all", connection=tx)

    found = Jobs(sources=Sources(there.db, there.queue.clock.now, float(there.settings.interval), wake))
    remote = bool(there.settings.source_manager_url)
    if remote:
        found.manager, found.tell = _remote(there)
    else:
        found.manager = Here(found.sources)
    manager = found.manager
    if there.settings.poll:

        @there.queue.job(queue=QUEUE, name="feeds.poll", unique=lambda which: which, attempts=1000)
        async def poll(which: str, job: Context) -> int:  # noqa: ARG001 - there is one for all
            end = _end_of_turn(there.queue.clock.now())
            clock = there.queue.clock
            async with client_of(there.settings) as client:
                poller = Poller(
                    there.db, manager, Fetching(client.get, parse), Times(now=clock.now, monotonic=clock.monotonic),
                    policy_of(there.settings),
                )  # fmt: skip
                refreshing = asyncio.create_task(_refresh(there, manager)) if remote else None
                try:
                    await poller.run(lambda: job.stopping or job.cancelled or clock.now() >= end)
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
        concurrency=settings.concurrency, guard=guard if settings.own_link else None, history=float(settings.history)
    )


def user_agent(settings: Settings) -> str:
    """Who we are, and where somebody can complain."""
    contact = settings.contact
    said = f"; {'+' if '://' in contact else ''}{contact}" if contact else ""
    return f"Tidegate/{__version__} (feed poller{said})"


@contextlib.asynccontextmanager
async def client_of(settings: Settings) -> AsyncIterator[net.Client]:
    async with net.Client(
        user_agent=user_agent(settings), allow=settings.allow_networks, ports=settings.ports or None,
        total=float(settings.total), body=settings.body, redirects=settings.redirects,
    ) as client:  # fmt: skip
        yield client


def _end_of_turn(now: float) -> float:
    """An hour from now, just before a full minute: then the schedule puts in the next turn, and nothing waits."""
    return (now + _TURN) // 60 * 60 + 60 - _BEFORE_TICK


async def _refresh(there: Installed[Settings], manager: SourceManager) -> None:
    while True:
        try:
            await manager.refresh()
        except Exception:  # of ours: the list stays as it was, and the next look may go better
            _log.exception("sources_not_refreshed")
        await there.queue.clock.asleep(float(there.settings.refresh))


# -- another server ----------------------------------------------------------------------------------------------------


def _remote(there: Installed[Settings]) -> tuple[SourceManager, JobFunction[Word, None]]:
    clock = there.queue.clock
    target = Target(
        "source-manager", backoff=Backoff("2s", cap="5m"), breaker={"consecutive": 5, "timeout": 30}, concurrency=1,
        deadline="30s", clock=clock,
    )  # fmt: skip
    clients: dict[int, httpx2.AsyncClient] = {}
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it says every request

    def client() -> httpx2.AsyncClient:
        """One for each loop: the workers may have one of their own."""
        loop = id(asyncio.get_running_loop())
        if loop not in clients:
            token = there.settings.source_manager_token.get_secret_value()
            clients[loop] = httpx2.AsyncClient(
                base_url=there.settings.source_manager_url, timeout=20, headers={"Authorization": f"Bearer {token}"}
            )
        return clients[loop]

    @there.queue.job(
        queue=QUEUE, name="feeds.tell", target=target, unique=lambda word: (word.source_id, word.fence), attempts=1000,
        backoff=Backoff("2s", cap="5m"),
    )  # fmt: skip
    async def tell(word: Word) -> Done[None]:
        source_id = word.source_id
        rows = await there.db.aall("states", source_id=source_id)
        if not rows:
            return Done(None)
        state = state_of(rows[0])
        for path, body in _words(state):
            answer = await client().patch(path, json=body)
            if answer.status_code not in (404, 409):  # it is gone there, or another one is at that address
                answer.raise_for_status()
        return Done(None, writes=[there.db.bind("told", source_id=source_id, **_said(state))])

    def put_in(tx: DbTx, state: FeedState) -> object:
        return tell.enqueue(Word(state.source_id, state.fence), connection=tx)

    return There(there.db, target, client, clock.now, put_in), tell


def _said(state: FeedState) -> dict[str, Any]:
    rest_at = state.rest.disabled_at
    return {"rest_at": -1.0 if rest_at is None else rest_at, "feed_url": state.feed_url}


def _words(state: FeedState) -> list[tuple[str, dict[str, str]]]:
    """What the other server is told: the address, and whether the feed rests."""
    base = f"/api/v1/sources/{state.source_id}"
    words = [(base, {"feed_url": state.feed_url})]
    if state.rest.disabled and state.rest.reason != MANUAL:
        return [*words, (f"{base}/feed-disable", {"reason": state.rest.reason or ""})]
    return [*words, (f"{base}/feed-enable", {})]
