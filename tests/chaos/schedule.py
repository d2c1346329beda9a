"""What is done when, drawn from a seed before a run begins: as many blows of each kind as its length allows."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass

from tests.chaos.orders import LEASE


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of blow."""

    every: float  # seconds between two, on average
    least: float = 0.0  # seconds that it lasts
    most: float = 0.0
    needs: str = ""  # what there must be, or it is left out


KINDS: dict[str, Kind] = {
    "kill a worker": Kind(2.5),
    "kill the leader": Kind(12),
    "kill the enqueuer": Kind(25),
    "pause a worker": Kind(15, 1.2 * LEASE, 3 * LEASE),
    "stop a worker": Kind(20),
    "fill the disk": Kind(40, 2, 7),
    "step a clock": Kind(6, needs="clock"),
    "copy the database": Kind(30),
    "roll out a version": Kind(100),
    "move the file away": Kind(20, 1, 5, needs="file"),
    "harm the file": Kind(50, needs="file"),
    "restart the database": Kind(30, needs="postgres"),
    "fill the server's disk": Kind(30, 2, 7, needs="disk of the server"),
    "step the server's clock": Kind(10, needs="clock of the server"),
    "cut all connections": Kind(12, needs="postgres"),
    "cut some connections": Kind(6, needs="postgres"),
    "silence the wire": Kind(30, 1, 1.5 * LEASE, needs="postgres"),
    "swallow the answers": Kind(15, 0.1, 1, needs="postgres"),
    "refuse connections": Kind(40, 1, 8, needs="postgres"),
}


@dataclass(frozen=True, slots=True, order=True)
class Blow:
    """One of them. *roll* in [0, 1) chooses whom it hits, or how far."""

    at: float
    kind: str
    lasts: float
    roll: float


def blows(seed: int, seconds: float, there: Collection[str], often: float = 1.0) -> list[Blow]:
    """All blows of a run, in order; at least one of each kind that is possible. *often*: times as many."""
    found = []
    for name, kind in KINDS.items():
        if kind.needs and kind.needs not in there:
            continue
        dice = random.Random(f"{seed} {name}")
        times = max(1, round(often * seconds / kind.every))
        found += [
            Blow(dice.uniform(0.02, 0.98) * seconds, name, dice.uniform(kind.least, kind.most), dice.random())
            for _ in range(times)
        ]
    return sorted(found)
