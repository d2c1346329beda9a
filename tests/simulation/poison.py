"""Jobs that end their process among innocent ones, and parents that retention may take: as the world itself sees them.

Nothing here reads what the product knows of suspects. The world writes down who was killed by whom, and which calls of
the services were under way in that process.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.errors import StoreBusy, StoreFull

if TYPE_CHECKING:
    from tests.simulation.machines import Machine
    from tests.simulation.world import World
    from tidegate import Context

EVERY = 2400.0  # seconds between two such jobs, on average
FAMILIES_EVERY = 1200.0  # the same of parents that are soon forgotten
NEIGHBOURS = 8  # innocent jobs that are put in with one
KILLS = 3  # deaths of a job that runs alone, after which it has failed
YOUNG = 10.0  # seconds after which an attempt is not expected to crash its process
JOBS = """
select id, kind, state, error_code, result from tg_job
where kind in ('poison', 'innocent', 'alpha', 'beta', 'gamma', 'after')
"""
LOST = "select job, fence from tg_event where kind = 'lost' and seq = 0"


@dataclass
class Deaths:
    """What the world knows of them. *cost*: calls, by job and fence, that a poisonous job has taken along."""

    put: list[int] = field(default_factory=list)
    kills: Counter[int] = field(default_factory=Counter)  # by poisonous job
    last: dict[int, Machine] = field(default_factory=dict)  # the machine that each poisonous job killed last
    innocent: dict[tuple[int, int], tuple[Machine, float]] = field(default_factory=dict)  # under way: where, since when
    cost: set[tuple[int, int]] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)


async def live(world: World, end: float) -> None:
    dice, n = world.dice_of("poison"), 0
    while await world.rest(dice.expovariate(1 / EVERY), end):
        n += 1
        key = f"poison-{n}"
        place = dice.randint(0, NEIGHBOURS)

        def ask(machine: Machine, key: str = key, place: int = place) -> None:
            machine.innocent.enqueue_many([(each,) for each in [key] * place])
            made = machine.poison.enqueue(key)
            world.note("poison", made.id)
            world.deaths.put.append(made.id)
            machine.innocent.enqueue_many([(each,) for each in [key] * (NEIGHBOURS - place)])

        await world.acknowledged(ask, dice)


async def families(world: World, end: float) -> None:
    """Parents that retention would take long before their children begin."""
    dice, n = world.dice_of("families"), 0
    while await world.rest(dice.expovariate(1 / FAMILIES_EVERY), end):
        n += 1
        key, later = f"brief-{n}", dice.uniform(600, 2400)

        def ask(machine: Machine, key: str = key, later: float = later) -> None:
            machine.after.options(after=[machine.brief.enqueue(key)], due=later).enqueue(key)

        await world.acknowledged(ask, dice)


async def works(world: World, machine: Machine, job: Context) -> None:
    """What an innocent neighbour does."""
    dice, key = world.dice_of(f"{job.id} {job.fence} works"), (job.id, job.fence)
    world.deaths.innocent[key] = (machine, world.clock.monotonic())
    try:
        await asyncio.sleep(dice.uniform(0.5, 8))
    finally:
        del world.deaths.innocent[key]


async def dies(world: World, machine: Machine, job: Context) -> None:
    """As a segmentation fault: the process is gone at once, with all that it has under way."""
    dice = world.dice_of(f"{job.id} {job.fence} dies")
    await asyncio.sleep(dice.uniform(0.1, 3))
    if machine not in world.machines:
        await asyncio.sleep(3600)  # it is stopping already; a poisonous job never succeeds
    deaths, now = world.deaths, world.clock.monotonic()
    beside = [
        (id_, fence, at)
        for service in world.services.values()
        for id_, begun in service.begun.items()
        for at, fence in begun
        if service.called_by[id_, fence] is machine.process and (id_, fence) in service.under_way
    ]
    beside += [(*key, at) for key, (where, at) in deaths.innocent.items() if where is machine]
    deaths.cost.update((id_, fence) for id_, fence, _ in beside)
    young = [id_ for id_, _, at in beside if now - at < YOUNG]
    # A heartbeat that arrives after the death shows a living worker, which takes the suspicion away.
    suspected = job.id in deaths.last and not deaths.last[job.id].queue.weather.heard_late
    if suspected and young and not machine.process.stops:
        deaths.wrong.append(f"job {job.id} killed its worker once more, beside the jobs {young}")
    deaths.kills[job.id] += 1
    deaths.last[job.id] = machine
    world.machines.remove(machine)
    world.gone.append(machine)
    world.note("dies", machine.name, job.id)
    machine.queue.weather.dead = True
    world.spawn(_restarted(world, machine, dice.uniform(5, 60)))
    await asyncio.sleep(3600)  # nothing of this process goes on


async def _restarted(world: World, machine: Machine, after: float) -> None:
    await machine.kill()
    await asyncio.sleep(after)
    while True:
        with suppress(StoreBusy, StoreFull):
            world.begin(f"{machine.name}'")
            return
        await asyncio.sleep(5)


def wrong(world: World) -> Iterator[str]:
    """The guilty fail, and no other because of them. Whoever waited for a parent has its result."""
    yield from world.deaths.wrong
    lost = set[tuple[int, int]](world.rows(LOST))
    for id_, kind, state, code, result in world.rows(JOBS):
        if kind == "after" and state == "done" and json.loads(result or "{}").get("parents") != 1:
            yield f"job {id_} ran without the result of its parent: {result}"
        if kind == "poison":
            if (state, code) != ("failed", "worker_lost"):
                yield f"job {id_} kills its worker, and is {state} with {code}"
        elif kind == "innocent" and state != "done" and (state, code) != ("failed", "worker_lost"):
            yield f"job {id_} has done nothing, and is {state} with {code}"
        elif state == "failed" and code == "worker_lost":
            alone = [fence for job, fence in lost if job == id_ and (job, fence) not in world.deaths.cost]
            if len(alone) < KILLS:
                yield f"job {id_} of {kind} failed for others: {len(alone)} of its deaths were its own"
    for id_ in world.deaths.put:
        if not world.deaths.kills[id_]:
            yield f"job {id_} was to kill its worker, and never did"
