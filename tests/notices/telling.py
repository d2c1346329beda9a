"""A queue on virtual time with channels that only note what they are sent, or fail as they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import pytest

from tests.databases import APSW, Database
from tests.jobs.gating import play, queue_on, working
from tidegate import outbox
from tidegate.clock import VirtualClock
from tidegate.events import Notice, NoticeKind
from tidegate.jobs.queue import Queue
from tidegate.notices import deliveries, inbox
from tidegate.notices.channels import Channel, Mail, Message, Webhook
from tidegate.notices.dispatcher import NoticeDispatcher
from tidegate.notices.policy import NoticePolicy

HOOK = Channel(name="hook", config=Webhook(url="http://127.0.0.1:1/"), order=1)
MAIL = Channel(name="mail", config=Mail(host="h", port=25, sender="t@example.org", to=("ops@example.org",)), order=2)

MESSAGE = "The service refused the credentials."

on_sqlite = pytest.mark.parametrize("db", [APSW], indirect=True)


@dataclass
class Outside:
    """What was sent through which channel, and what each raises instead."""

    ill: dict[str, Exception] = field(default_factory=dict)
    sent: list[tuple[str, Message]] = field(default_factory=list)
    to: list[tuple[str, ...]] = field(default_factory=list)
    tries: int = 0

    def send(self, channel: Channel, letter: Message, *, now: float) -> None:
        self.tries += 1
        if channel.name in self.ill:
            raise self.ill[channel.name]
        self.sent.append((channel.name, letter))
        self.to.append(channel.config.to if isinstance(channel.config, Mail) else ())

    def told(self, channel: str | None = None) -> list[str]:
        """The kind and the name of each notice that was sent: "fatal spotify". A test of a channel is none."""
        sent = [letter.about for name, letter in self.sent if channel in (None, name) and "kind" in letter.about]
        return [f"{about['kind']} {about['name']}" for about in sent]


@dataclass
class Scene:
    """One process: a queue, what tells, and what is declared on it."""

    db: Database
    clock: VirtualClock
    outside: Outside
    channels: tuple[Channel, ...] = (HOOK, MAIL)
    policy: NoticePolicy | None = None
    declare: Callable[[Queue], Any] = lambda queue: None
    q: Queue = field(init=False)
    telling: NoticeDispatcher = field(init=False)
    jobs: Any = field(init=False)

    def __enter__(self) -> Self:
        self.q = queue_on(self.db, self.clock)
        self.jobs = self.declare(self.q)
        self.telling = NoticeDispatcher(
            self.q, self.channels, self.policy, address="https://t.example", path=lambda row: f"/targets/{row.name}",
            send=self.outside.send,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self.q.close()

    def pass_(self, seconds: float, *, every: float = 30.0, work: bool = True) -> None:
        """So much time goes by while it looks and works."""

        async def main() -> None:
            stop = asyncio.Event()
            looking = asyncio.create_task(self.telling.run(stop, every))
            if work and self.q.queues():
                async with working(self.q):
                    await asyncio.sleep(seconds)
            else:
                await asyncio.sleep(seconds)
            stop.set()
            await looking

        play(self.clock, main)

    def lines(self) -> list[inbox.NoticeLine]:
        """The oldest first."""
        return self.q.store.read(inbox.list_notices).items[::-1]

    def kinds(self) -> list[str]:
        return [line.kind for line in self.lines()]

    def deliveries(self) -> list[tuple[int, str, str, str | None]]:
        found = self.q.store.read(lambda tx: deliveries.deliveries(tx, [line.id for line in self.lines()]))
        return [(each.notice, each.channel, each.state, each.instead_of) for rows in found.values() for each in rows]


def raise_fatal(scene: Scene, name: str = "spotify", key: str = "7", episode: float | None = None) -> None:
    at = scene.clock.now() if episode is None else episode
    about = Notice(
        kind=NoticeKind.FATAL, target=name, key=key, episode=at, title=f"{name} needs your attention",
        message=MESSAGE, advice="Connect it again.", code="unauthorized",
    )  # fmt: skip
    scene.q.store.write(lambda tx: outbox.record_target_notice(tx, outbox.of_target(about, key, key)))


def recover(scene: Scene, name: str = "spotify", key: str = "7") -> None:
    about = Notice(
        kind=NoticeKind.RECOVERED, target=name, key=key, episode=scene.clock.now(), title=f"{name} works again",
        message="The service answers again; there is nothing more to do.",
    )  # fmt: skip
    scene.q.store.write(lambda tx: outbox.record_target_notice(tx, outbox.of_target(about, key, key)))
