"""What the tests of feeds build with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Self

import httpx2
import pytest

from tests.databases import Database
from tidegate import Queue, net
from tidegate.apps import Installed, install
from tidegate.clock import VirtualClock
from tidegate.guard import NetworkGuardPolicy
from tidegate_apps.feeds.app import app
from tidegate_apps.feeds.client import Parse
from tidegate_apps.feeds.codes import ErrorType, PollError
from tidegate_apps.feeds.host_guard import FailureAttribution
from tidegate_apps.feeds.models import Source, SourceRequest
from tidegate_apps.feeds.parsing import Feed, ParseError
from tidegate_apps.feeds.parsing.pool import rows_of
from tidegate_apps.feeds.poller import PollClock, PollCounts, Poller, PollPolicy
from tidegate_apps.feeds.service import Sources
from tidegate_apps.feeds.settings import FeedsSettings
from tidegate_apps.feeds.state import FeedState

HOUR, DAY = 3600.0, 86400.0
Answer = net.FetchResponse | Exception
World = Callable[[str, Mapping[str, str]], Answer]


def fetched(status: int = 200, body: str = "", url: str = "http://a.example/f", **headers: str) -> net.FetchResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return net.FetchResponse(status=status, headers=httpx2.Headers(named), body=body.encode(), url=url)


def entry(guid: str, title: str = "") -> list[object]:
    """A row as readers make them."""
    digest = sha256(f"{guid} {title}".encode()).hexdigest()
    return [guid, guid, None, title or guid, None, "", None, None, digest]


async def words(body: bytes, content_type: str, url: str) -> Feed:
    """A feed is a line of words, each an entry; "title:" something changes it."""
    text = body.decode()
    if text.startswith("<html"):
        raise ParseError("it is a web page")
    rows = rows_of([entry(*word.split("=")) for word in text.split()])
    return Feed(title=url, link=None, ttl=0.0, skip_hours=(), skip_days=(), malformed=None, rows=rows)


@dataclass
class Desk:
    """The feeds of one database, and the world as they see it."""

    queue: Queue
    there: Installed[FeedsSettings]
    clock: VirtualClock
    policy: PollPolicy = field(default_factory=lambda: PollPolicy(paced=False, guard=None))
    answers: dict[str, Any] = field(default_factory=dict)  # by address: an answer, or a function of its headers
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    manager: Any = None

    @classmethod
    @contextlib.contextmanager
    def opened(cls, db: Database, clock: VirtualClock, **settings: Any) -> Iterator[Self]:
        with Queue(db.url, driver=db.driver, clock=clock, inline=True) as queue:
            there = install(app, queue, FeedsSettings(**settings))
            yield cls(queue, there, clock)
            there.closing.close()

    @property
    def sources(self) -> Sources:
        found: Sources = self.there.jobs.sources
        return found

    @property
    def now(self) -> float:
        return self.clock.now()

    def add(self, url: str = "http://a.example/f", **more: Any) -> Source:
        return self.sources.add(SourceRequest(feed_url=url, **more), "ada")

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> net.FetchResponse:
        self.asked.append((url, dict(headers or {})))
        answer = self.answers.get(url, fetched(body="one two", url=url))
        answer = answer(headers) if callable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, net.FetchResponse)
        return answer

    @property
    def times(self) -> PollClock:
        return PollClock(
            now=self.clock.now,
            monotonic=self.clock.monotonic,
            older_than=lambda age: self.clock.now() - age,
            rng=lambda: 0.5,
        )

    def memory(self) -> FailureAttribution:
        """What pollers hand on to each other."""
        return FailureAttribution(self.policy.guard, hosts=self.policy.host_guard)

    def poller(self, get: Any = None, parse: Parse = words, memory: FailureAttribution | None = None) -> Poller:
        manager = self.manager or self.there.jobs.manager
        return Poller(self.there.db, manager, get or self.get, parse, self.times, self.policy, memory)

    def next_turn(self) -> Poller:
        """As the job of this server makes one for each of its turns."""
        found: Poller = self.there.jobs.poller(self.get, self.times)
        return found

    def poll(self, poller: Poller | None = None, memory: FailureAttribution | None = None) -> PollCounts:
        """Polls what is due now."""
        return self.clock.run((poller or self.poller(memory=memory)).run(lambda: False, drain=True))

    def poll_on(self, lasts: float) -> int:
        """Polls whatever falls due within so many seconds, each at its time."""
        end, n = self.now + lasts, 0
        while True:
            due = self.there.db.scalar_or_none(float, "next_due")
            if due is None or due > end:
                self.clock.advance(max(0.0, end - self.now))
                return n
            self.clock.advance(max(0.0, due - self.now) + 0.001)
            self.poll()
            n += 1

    def state(self, id_: int = 1) -> FeedState:
        state = self.there.db.first(FeedState, "states", source_id=id_)
        assert state is not None
        return state

    def items(self, id_: int = 1) -> list[str]:
        return [row[3] for row in self.there.db.all("items", source_id=id_, before=2**53, n=1000)]

    def notices(self) -> list[tuple[str, str, bool]]:
        """Kind, title and whether it goes on; the newest first."""
        from tidegate.notices import inbox

        listed = self.queue.store.read(inbox.list_notices)
        return [(line.kind, line.title, line.open) for line in listed.items]


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """What was logged since the last time: level and text."""
    found = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "tidegate.feeds"]
    caplog.clear()
    return found


def poll_error(kind: str) -> PollError:
    return PollError(ErrorType(kind), kind)


GUARD = NetworkGuardPolicy()
