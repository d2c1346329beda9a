"""What an application in the world is."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidegate import Queue
from tidegate.apps import Installed
from tidegate.secrets import Secrets

if TYPE_CHECKING:
    from tests.simulation.machines import Machine
    from tests.simulation.world import World

KEY = Secrets(b"of every machine of the world...")


class Part(ABC):
    """One application: installed on every machine, with one simulated service for all of them."""

    name = ""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = world.clock
        self.dice: random.Random = world.dice_of(self.name)

    @abstractmethod
    def install(self, queue: Queue) -> Installed[Any]:
        """Declares it on the queue of one machine."""

    async def live(self, end: float) -> None:  # noqa: B027 - not every one has such
        """What happens outside, until *end*."""

    @abstractmethod
    def fall_ill(self) -> str:
        """Something goes wrong with its service; returns what."""

    def mend(self) -> None:  # noqa: B027 - not every one has such
        """Its service is well again."""

    def put_right(self, machine: Machine) -> None:  # noqa: B027 - not every one has such
        """What only a person can do, once nothing is broken any more."""

    def settled(self) -> bool:
        """Whether all that is to be done is done, as far as it can be seen from outside."""
        return True

    def wrong(self) -> Iterator[str]:
        """What it broke its promises with."""
        yield from ()
