"""Those who put plain jobs in: again, until somebody has acknowledged it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.machines import Machine
    from tests.simulation.world import World

EVERY = 40.0  # seconds between two jobs, on average


async def live(world: World, end: float) -> None:
    dice, names, n = world.dice_of("clients"), list(world.services), 0
    while await world.rest(dice.expovariate(1 / EVERY), end):
        n += 1
        name = dice.choice(names)
        await _enqueued(world, name, f"k{n}")
        if dice.random() < 0.2:
            await _enqueued(world, name, f"k{dice.randint(1, n)}")  # perhaps one that is there already


async def _enqueued(world: World, name: str, key: str) -> None:
    dice = world.dice
    later = dice.choice((0.0, 0.0, 0.0, 0.0, dice.uniform(30, 400)))
    first, with_child = world.clock.monotonic(), dice.random() < 0.15

    def ask(machine: Machine) -> None:
        made = machine.kinds[name].options(due=later).enqueue(key)
        world.note("put", name, key, made.id)
        if (name, key) not in world.put:
            world.due[made.id] = first + later
        if world.put.setdefault((name, key), made.id) != made.id:
            world.wrong.append(f"{key} of {name} is job {world.put[name, key]} and job {made.id}")
        if with_child:
            machine.after.options(after=[made]).enqueue(key)

    await world.acknowledged(ask, dice)
