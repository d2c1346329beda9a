"""Machines, services and people on one virtual clock, from one seed. Faults first; then none, and all must end well."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.acceptance.checker import rows
from tests.simulation.machines import Machine, Service
from tidegate.errors import StoreBusy, StoreFull
from tidegate.runtime.clock import VirtualClock
from tidegate.store.dialect import Statement

SERVICES = ("alpha", "beta", "gamma")
ILLS = ("down", "unavailable", "garbage", "slow", "hangs", "cuts")
OPEN = "select count(*) from tg_job where state in ('blocked', 'waiting', 'ready', 'running')"


def unchanged(statement: Statement) -> Statement:
    return statement


@dataclass
class World:
    """One run. *changed* plants a bug into the statements of every machine."""

    seed: int
    folder: Path
    hours: float = 1.0
    patience: float = 2 * 3600.0  # seconds that everything may take to end well, once nothing is broken any more
    calm: bool = False  # services fall ill, and nothing else breaks
    changed: Callable[[Statement], Statement] = unchanged
    clock: VirtualClock = field(default_factory=VirtualClock)
    machines: list[Machine] = field(default_factory=list)
    services: dict[str, Service] = field(default_factory=dict)
    put: dict[tuple[str, str], int] = field(default_factory=dict)  # ids by service and key, as acknowledged
    due: dict[int, float] = field(default_factory=dict)  # not before this moment
    asked_to_stop: set[int] = field(default_factory=set)
    cancelled: dict[int, float] = field(default_factory=dict)  # before they began: when
    pauses: list[tuple[str, float, float]] = field(default_factory=list)
    outages: list[tuple[str, float, float]] = field(default_factory=list)  # of services that were down
    stepped: bool = False
    wrong: list[str] = field(default_factory=list)
    events: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self._hash = hashlib.sha256()
        for name in SERVICES:
            self.services[name] = Service(name, self.clock, random.Random(f"{self.seed} {name}"), self.note)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'world.db'}"

    @property
    def digest(self) -> str:
        """The same for the same seed: of every call, fault and answer, in their order."""
        return self._hash.hexdigest()[:16]

    def note(self, *what: object) -> None:
        self.events += 1
        self._hash.update(repr((round(self.clock.monotonic(), 6), *what)).encode())

    # -- playing -------------------------------------------------------------------------------------------------------

    def play(self) -> None:
        with silence():
            self.clock.run(self._main())

    async def _main(self) -> None:
        for n in range(3):
            self._start(f"m{n}")
        end = self.hours * 3600
        async with asyncio.TaskGroup() as going:
            going.create_task(self._clients(end))
            going.create_task(self._people(end))
            going.create_task(self._weather(end))
        self._mended()
        await self._converge()
        for each in self.machines:
            if (error := each.ended) is not None:
                self.wrong.append(f"the worker of {each.name} ended by itself: {error!r}")
            else:
                await each.stop()

    def _start(self, name: str) -> Machine:
        made = Machine(name, self.url, self.clock, random.Random(f"{self.seed} {name}"), self.services, self.changed)
        made.start()
        self.machines.append(made)
        return made

    async def _clients(self, end: float) -> None:
        n = 0
        while self.clock.monotonic() < end:
            await asyncio.sleep(self.dice.expovariate(1 / 6))
            n += 1
            name, key = self.dice.choice(SERVICES), f"k{n}"
            await self._enqueued(name, key)
            if self.dice.random() < 0.2:
                await self._enqueued(name, f"k{self.dice.randint(1, n)}")  # perhaps one that is there already

    async def _enqueued(self, name: str, key: str) -> None:
        """As a client does it: again, until somebody has acknowledged it."""
        later = self.dice.choice((0.0, 0.0, 0.0, 0.0, self.dice.uniform(30, 400)))
        first = self.clock.monotonic()
        while True:
            machine = self.dice.choice(self.machines)
            with suppress(StoreBusy, StoreFull, IndexError):
                made = machine.kinds[name].enqueue(key, due=later)
                self.note("put", name, key, made.id)
                if (name, key) not in self.put:
                    self.due[made.id] = first + later
                if self.put.setdefault((name, key), made.id) != made.id:
                    self.wrong.append(f"{key} of {name} is job {self.put[name, key]} and job {made.id}")
                if self.dice.random() < 0.15:
                    machine.after.enqueue(key, after=[made])
                return
            await asyncio.sleep(1.0)

    # -- faults --------------------------------------------------------------------------------------------------------

    async def _weather(self, end: float) -> None:
        faults = [self._illness]
        if not self.calm:
            faults += [self._kill, self._partition, self._disk, self._unheard, self._delay, self._illness, self._step]
        async with asyncio.TaskGroup() as going:
            while self.clock.monotonic() < end:
                await asyncio.sleep(self.dice.expovariate(1 / 75))
                fault = self.dice.choice(faults)
                going.create_task(fault(self.dice.uniform(5, 240)))

    async def _kill(self, lasts: float) -> None:
        if len(self.machines) < 2:
            return
        victim = self.machines.pop(self.dice.randrange(len(self.machines)))
        self.note("kill", victim.name)
        victim.queue.weather.delayed = 1.0  # what it sends last may arrive long after it is gone
        await asyncio.sleep(5)
        await victim.kill()
        await asyncio.sleep(lasts)
        self._start(f"{victim.name}'")

    async def _partition(self, lasts: float) -> None:
        weather = self.dice.choice(self.machines).queue.weather
        self.note("away")
        weather.away = True
        await asyncio.sleep(lasts)
        weather.away = False

    async def _disk(self, lasts: float) -> None:
        self.note("full")
        for each in self.machines:
            each.queue.weather.full = True
        await asyncio.sleep(lasts / 4)
        for each in self.machines:
            each.queue.weather.full = False

    async def _unheard(self, lasts: float) -> None:
        weather = self.dice.choice(self.machines).queue.weather
        self.note("unheard")
        weather.unheard = 0.3
        await asyncio.sleep(lasts)
        weather.unheard = 0.0

    async def _delay(self, lasts: float) -> None:
        weather = self.dice.choice(self.machines).queue.weather
        self.note("delayed")
        weather.delayed = 0.3
        await asyncio.sleep(lasts)
        weather.delayed = 0.0

    async def _illness(self, lasts: float) -> None:
        service, ill = self.services[self.dice.choice(SERVICES)], self.dice.choice(ILLS)
        self.note("ill", service.name, ill)
        service.ill, began = ill, self.clock.monotonic()
        await asyncio.sleep(3 * lasts)
        if ill == service.ill == "down":
            self.outages.append((service.name, began, self.clock.monotonic()))
        service.ill = ""

    async def _step(self, lasts: float) -> None:
        by = self.dice.choice((-1, 1)) * lasts
        self.note("step", by)
        self.stepped = True
        self.clock.step_wall(by)

    # -- people --------------------------------------------------------------------------------------------------------

    async def _people(self, end: float) -> None:
        while self.clock.monotonic() < end:
            await asyncio.sleep(self.dice.expovariate(1 / 90))
            act = self.dice.choice((self._pause, self._cancel))
            with suppress(StoreBusy, StoreFull, IndexError):
                act(self.dice.choice(self.machines))

    def _pause(self, machine: Machine) -> None:
        name, lasts = self.dice.choice(SERVICES), self.dice.uniform(30, 200)
        machine.queue.target(name).pause(f"{lasts:.3f}s", by="ada")
        self.note("pause", name)
        now = self.clock.monotonic()
        self.pauses = [(each, start, min(end, now) if each == name else end) for each, start, end in self.pauses]
        self.pauses.append((name, now, now + lasts))

    def _cancel(self, machine: Machine) -> None:
        if not self.put:
            return
        id_ = self.dice.choice(list(self.put.values()))
        self.asked_to_stop.add(id_)  # whatever becomes of it: an answer that is not heard may have been a yes
        if machine.queue.cancel(id_, by="ada") == "cancelled":
            self.note("cancel", id_)
            self.cancelled[id_] = self.clock.monotonic()

    # -- the end -------------------------------------------------------------------------------------------------------

    def _mended(self) -> None:
        for service in self.services.values():
            service.ill = ""
        for each in self.machines:
            each.queue.weather.away = each.queue.weather.full = False
            each.queue.weather.unheard = each.queue.weather.delayed = 0.0
        self.note("mended")

    async def _converge(self) -> None:
        end = self.clock.monotonic() + self.patience
        while self.clock.monotonic() < end and rows(self.url, OPEN)[0][0]:  # noqa: ASYNC110 - the database alone knows
            await asyncio.sleep(30)


@contextmanager
def silence() -> Iterator[None]:
    """Thousands of lines of expected trouble would hide the verdict."""
    logger = logging.getLogger("tidegate")
    before, logger.disabled = logger.level, False
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
