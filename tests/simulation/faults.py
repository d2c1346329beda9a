"""What breaks: machines die or stand still, databases go away, disks fill, services fall ill, and time steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.simulation.server import Server
from tests.simulation.services import ILLS
from tidegate.errors import StoreBusy, StoreFull

if TYPE_CHECKING:
    from tests.simulation.machines import Machine
    from tests.simulation.world import World

EVERY = 90.0  # seconds between two faults, on average
DAYS_EVERY = 2400.0  # the same of the steps of the wall clock by days
DAY = 86400.0
FAR_AHEAD = 20 * DAY  # as far as the music of a listener without a mark is found: it looks 30 days back
REBOOTS_EVERY = 1800.0  # the same of reboots on a clock that is ahead
SERVER_DIES = 4 * 3600.0  # the same of the deaths of the server; each takes half a second of ours

Fault = Callable[["World", float], Coroutine[Any, Any, None]]


async def live(world: World, end: float) -> None:
    faults: list[Fault] = [illness, silent_channel]
    if not world.calm:
        faults += [kill, stand_still, partition, disk_full, unheard, delayed, illness, step]
    async with asyncio.TaskGroup() as going:
        while await world.rest(world.dice.expovariate(1 / EVERY), end):
            fault = world.dice.choice(faults)
            going.create_task(fault(world, world.dice.uniform(5, 240)))


async def kill(world: World, lasts: float) -> None:
    victim = world.anyone(world.dice)
    if victim is None or len(world.machines) < 2:
        return
    world.machines.remove(victim)
    world.gone.append(victim)
    world.note("kill", victim.name)
    victim.queue.weather.delayed = 1.0  # what it sends last may arrive long after it is gone
    await asyncio.sleep(5)
    await victim.kill()
    await world.rest(lasts, world.end)
    while True:
        with suppress(StoreBusy, StoreFull):
            world.begin(f"{victim.name}'")
            return
        await asyncio.sleep(5)


async def server_dies(world: World, end: float) -> None:
    """Now and then, with dice of its own: what it was asked last may be done long after, and nobody is told so."""
    dice = world.dice_of("server dies")
    while not world.calm and await world.rest(dice.expovariate(1 / SERVER_DIES), end):
        world.note("server dies")
        victim = world.server
        victim.queue.weather.delayed = 1.0
        await world.rest(5, end)
        victim.dead = True
        await world.rest(dice.uniform(5, 240), end)
        if world.server is victim:  # no reboot has replaced it meanwhile
            world.gone.append(victim)
            world.server = Server(world)


async def stand_still(world: World, lasts: float) -> None:
    """As after SIGSTOP: its leases end meanwhile, and it does not know."""
    victim = world.anyone(world.dice)
    if victim is None:
        return
    world.note("still", victim.name)
    victim.process.stop()
    await world.rest(lasts, world.end)
    if victim.process.still:
        victim.process.go_on()


async def partition(world: World, lasts: float) -> None:
    weather = _one(world).queue.weather
    world.note("away")
    weather.away = True
    await world.rest(lasts, world.end)
    weather.away = False


async def disk_full(world: World, lasts: float) -> None:
    world.note("full")
    there: list[Machine | Server] = [world.server, *world.machines]
    for each in there:
        each.queue.weather.full = True
    await world.rest(lasts / 4, world.end)
    for each in there:
        each.queue.weather.full = False


async def unheard(world: World, lasts: float) -> None:
    weather = _one(world).queue.weather
    world.note("unheard")
    weather.unheard = 0.3
    await world.rest(lasts, world.end)
    weather.unheard = 0.0


async def delayed(world: World, lasts: float) -> None:
    weather = _one(world).queue.weather
    world.note("delayed")
    weather.delayed = 0.3
    await world.rest(lasts, world.end)
    weather.delayed = 0.0


async def illness(world: World, lasts: float) -> None:
    """Of a service of plain jobs, or of an application."""
    names = [*world.services, *(each.name for each in world.parts)]
    name = world.dice.choice(names)
    if name not in world.services:
        part = next(each for each in world.parts if each.name == name)
        world.note("ill", name, part.fall_ill())
        await world.rest(3 * lasts, world.end)
        part.mend()
        return
    service, ill = world.services[name], world.dice.choice(ILLS)
    world.note("ill", name, ill)
    service.ill, began = ill, world.clock.monotonic()
    await world.rest(3 * lasts, world.end)
    if ill == service.ill == "down":
        world.outages.append((name, began, world.clock.monotonic()))
    service.ill = ""


async def silent_channel(world: World, lasts: float) -> None:
    world.note("silent", *world.mailbox.fall_ill())
    await world.rest(3 * lasts, world.end)
    world.mailbox.mend()


async def step(world: World, lasts: float) -> None:
    by = world.dice.choice((-1, 1)) * lasts
    _step(world, by)


async def step_by_days(world: World, end: float) -> None:
    """The clock of the host of the database is set wrong by days, ahead or back: for a while, or for good."""
    dice = world.dice_of("days")
    while await world.rest(dice.expovariate(1 / DAYS_EVERY), end):
        by = dice.choice((-1, 1)) * dice.uniform(1, 400) * DAY
        _step(world, by)
        if dice.random() < 0.5:  # it is set right again, before or after it is believed
            await world.rest(dice.uniform(5, 1200), end)
            _step(world, -by)


async def reboots(world: World, end: float) -> None:
    """The host of all processes boots on a clock that is ahead by days. It is corrected soon, or by another boot."""
    dice = world.dice_of("reboots")
    while await world.rest(dice.expovariate(1 / REBOOTS_EVERY), end):
        by = dice.uniform(1, 400) * DAY
        for ahead in (by, 0.0) if dice.random() < 0.5 else (by,):
            await _reboot(world, ahead, dice.uniform(1, 100))
            await world.rest(dice.uniform(5, 400), end)
        if dice.random() < 0.5:
            _step(world, -by)
        else:
            await _reboot(world, -by, dice.uniform(1, 100))


async def _reboot(world: World, by: float, lasts: float) -> None:
    world.note("reboot", by)
    world.server.dead = True
    end = world.clock.monotonic() + lasts
    while world.machines or world.clock.monotonic() < end:  # one that was killed before may begin meanwhile
        while world.machines:
            victim = world.machines.pop()
            world.gone.append(victim)
            await victim.kill()
        await asyncio.sleep(1)
    world.gone.append(world.server)  # perhaps not the one of the beginning
    for each in world.gone:
        each.queue.weather.rebooted = each.queue.weather.dead = True
    world.clock.boot_id = f"boot {world.clock.monotonic()}"
    _step(world, by)
    world.server = Server(world)
    world.desk.close()
    world.open_desk()  # a process keeps the id of its boot, so the old desk would count from the boot before
    for n in range(2):
        world.begin(f"b{n}")


def set_right(world: World) -> None:
    """At the end, in half of the worlds. In the others the clock stays wrong, if it is not far ahead."""
    ahead = world.clock.now() - world.time.now()
    if ahead > FAR_AHEAD or (abs(ahead) > 1 and world.dice_of("clock").random() < 0.5):
        _step(world, -ahead)


def _step(world: World, by: float) -> None:
    world.note("step", by)
    world.stepped_at = world.clock.monotonic()
    world.clock.step_wall(by)


def _one(world: World) -> Machine | Server:
    there: list[Machine | Server] = [world.server, *world.machines]
    return world.dice.choice(there)
