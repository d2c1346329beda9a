"""Machines, services, applications and people on one virtual clock, from one seed.

Faults first; then none, and all must end well.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import math
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import apsw
from fastapi.dependencies import models

from tests.simulation import clients, faults, loop, people, poison
from tests.simulation.loop import TrueTime
from tests.simulation.machines import Machine
from tests.simulation.mailbox import Mailbox
from tests.simulation.parts import ALL, Part
from tests.simulation.poison import Deaths
from tests.simulation.quiet import loaded_dice, seldom_collected, silence
from tests.simulation.server import Server
from tests.simulation.services import Service
from tests.simulation.store_weather import Change, OnWeather
from tidegate.clock import VirtualClock
from tidegate.errors import StoreBusy, StoreFull
from tidegate.store.base import now_of

if TYPE_CHECKING:
    from tidegate.store.sql import Statement

T = TypeVar("T")
SERVICES = ("alpha", "beta", "gamma")
LOOK = 60.0  # seconds between two looks whether all has ended well
# What applications do by the clock never ends; each of them says itself when it is done.
OPEN = """
select count(*) from tg_job where state in ('blocked', 'waiting', 'ready', 'running')
and queue in ('calls', 'after', 'brief', 'notices')
"""
HISTORY = "select job, fence, seq, kind, round(at, 3), attempt, code from tg_event order by job, fence, seq"
TOLD = "select kind, subject, name, lane, round(episode, 3), round(created_at, 3) from tg_notice order by id"


def unchanged(statement: Statement) -> Statement:
    return statement


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug that every machine has. *changed* is what becomes of their statements, *settings* are of applications."""

    changed: Change = unchanged
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass
class World:
    """One run."""

    seed: int
    folder: Path
    hours: float = 1.0
    patience: float = 2 * 3600.0  # seconds that everything may take to end well, once nothing is broken any more
    calm: bool = False  # services fall ill, and nothing else breaks
    days: bool = True  # the wall clock steps by days; never in a calm world
    planted: Planted = field(default_factory=Planted)
    with_parts: Sequence[str] = tuple(ALL)  # applications
    clock: VirtualClock = field(default_factory=VirtualClock)
    machines: list[Machine] = field(default_factory=list)
    gone: list[Machine | Server] = field(default_factory=list)
    services: dict[str, Service] = field(default_factory=dict)
    put: dict[tuple[str, str], int] = field(default_factory=dict)  # ids by service and key, as acknowledged
    due: dict[int, float] = field(default_factory=dict)  # not before this moment
    asked_to_stop: set[int] = field(default_factory=set)
    retried: set[int] = field(default_factory=set)  # by a person, perhaps
    cancelled: dict[int, float] = field(default_factory=dict)  # before they began: when
    rested: list[tuple[int, float, float]] = field(default_factory=list)  # job, cancelled at, asked for once more at
    pauses: list[tuple[str, float, float]] = field(default_factory=list)
    outages: list[tuple[str, float, float]] = field(default_factory=list)  # of services that were down
    stepped_at: float = -math.inf  # the wall clock, for the last time
    mended_at: float = 0.0
    judged_at: float = 0.0  # by the wall clock: what came later had no time to end
    wrong: list[str] = field(default_factory=list)
    deaths: Deaths = field(default_factory=Deaths)  # by jobs that kill their worker
    server: Server = field(init=False)
    desk: OnWeather = field(init=False)  # of an operator, whose database never fails; it boots with the machines
    events: int = 0
    settled_at: dict[str, int] = field(default_factory=dict)  # seconds after nothing was broken any more

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self._hash = hashlib.sha256()
        self._spawned = set[asyncio.Task[None]]()
        self._raw: apsw.Connection | None = None
        for name in SERVICES:
            self.services[name] = Service(name, self.clock, self.dice_of(name), self.note)
        self.time = TrueTime(self.clock)
        self.mailbox = Mailbox(self.dice_of("mailbox"), self.note)
        self.parts: list[Part] = [ALL[name](self) for name in self.with_parts]

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'world.db'}"

    @property
    def digest(self) -> str:
        """The same for the same seed: of every call, fault and answer, in their order."""
        return self._hash.hexdigest()[:16]

    def dice_of(self, name: str) -> random.Random:
        """Dice of its own: what one part of the world does must not change what the others throw."""
        return random.Random(f"{self.seed} {name}")

    def note(self, *what: object) -> None:
        self.events += 1
        self._hash.update(repr((round(self.clock.monotonic(), 6), *what)).encode())

    @property
    def stepped(self) -> bool:
        return self.stepped_at >= 0

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Past all of our own code, with the library that the machines use: two on one file would corrupt it."""
        if self._raw is None:
            self._raw = apsw.Connection(str(self.folder / "world.db"))
            self._raw.set_busy_timeout(10_000)
        return [tuple(row) for row in self._raw.execute(sql, values)]

    # -- playing -------------------------------------------------------------------------------------------------------

    def play(self) -> None:
        with silence(), seldom_collected(), loaded_dice(self.seed):
            loop.run(self.clock, self._main())

    async def _main(self) -> None:
        self.server = Server(self)
        self.open_desk()
        for n in range(3 if self.seed % 5 == 0 else 2):
            self.begin(f"m{n}")
        end = self.end
        async with asyncio.TaskGroup() as going:
            going.create_task(clients.live(self, end))
            going.create_task(people.live(self, end))
            going.create_task(faults.live(self, end))
            going.create_task(faults.server_dies(self, end))
            going.create_task(poison.families(self, end))
            if not self.calm:
                going.create_task(poison.live(self, end))
            if self.days and not self.calm:
                steps = faults.reboots if self.seed % 3 == 0 else faults.step_by_days
                going.create_task(steps(self, end))
            for part in self.parts:
                going.create_task(part.live(end))
        self._mended()
        await self._converge()
        self.judged_at = self.desk.store.read(now_of)
        for sql in (HISTORY, TOLD):
            self.note(self.rows(sql))
        for each in self.machines:
            if (error := each.ended) is not None:
                self.wrong.append(f"the worker of {each.name} ended by itself: {error!r}")
            else:
                await each.stop()
        for one in (*self.machines, *self.gone):
            one.close()
        self.desk.close()
        self.server.close()

    def close(self) -> None:
        """After the verdict."""
        if self._raw is not None:
            self._raw.close()
        for each in vars(models).values():
            if hasattr(each, "cache_clear"):  # FastAPI remembers routes, and with them the worlds of twenty servers
                each.cache_clear()

    @property
    def end(self) -> float:
        """Of all faults."""
        return self.hours * 3600

    async def rest(self, lasts: float, end: float) -> bool:
        """Lets time pass, at most until *end*; whether that is still ahead."""
        await asyncio.sleep(max(0.0, min(lasts, end - self.clock.monotonic())))
        return self.clock.monotonic() < end - 0.001  # timers fire a hair before their time

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs *work* outside of the process that asks."""
        task = contextvars.Context().run(asyncio.get_running_loop().create_task, work)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)

    def open_desk(self) -> None:
        """Opens the desk, after a boot another one."""
        self.desk = OnWeather(self.url, self.dice_of("desk"), unchanged, clock=self.clock)

    def begin(self, name: str) -> Machine:
        made = Machine(name, self)
        made.start()
        self.machines.append(made)
        return made

    def anyone(self, dice: random.Random) -> Machine | None:
        """A machine that answers."""
        awake = [each for each in self.machines if not each.process.still]
        return dice.choice(awake) if awake else None

    async def acknowledged(self, ask: Callable[[Machine], T], dice: random.Random) -> T:
        """As a client does it: again, until somebody has answered."""
        while True:
            machine = self.anyone(dice)
            if machine is not None:
                try:
                    return ask(machine)
                except (StoreBusy, StoreFull):
                    pass  # as somebody who is told to come again
            await asyncio.sleep(1.0)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _mended(self) -> None:
        for service in self.services.values():
            service.ill = ""
        self.mailbox.mend()
        for part in self.parts:
            part.mend()
        self.server.queue.weather.mend()
        for each in self.machines:
            each.queue.weather.mend()
            if each.process.still:
                each.process.go_on()
        faults.set_right(self)
        self.mended_at = self.clock.monotonic()
        self.note("mended")

    async def _converge(self) -> None:
        end = self.clock.monotonic() + self.patience
        while self.clock.monotonic() < end and not self._settled():
            for part in self.parts if self.machines else ():
                part.put_right(self.machines[0])
            await asyncio.sleep(LOOK)

    def _settled(self) -> bool:
        """Notes when each part was done, for those who wonder what takes so long."""
        done = {"jobs": not self.rows(OPEN)[0][0], "mailbox": self.mailbox.settled(self.rows)}
        done |= {part.name: part.settled() for part in self.parts}
        for name, is_done in done.items():
            if is_done:
                self.settled_at.setdefault(name, round(self.clock.monotonic() - self.mended_at))
        return all(done.values())
