"""Blows at PostgreSQL: the server itself, its disk, its clock, and the wire to it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.proxy import WireThread
from tests.chaos.schedule import Blow
from tests.chaos.server import FULL, ServerUnderFire

Until = Callable[[float, Callable[[], None]], None]
# Who keeps time for all steps, and every lease lasts so much longer, or ends at once.
_STEPS = (15.0, 600.0, 10 * 86400.0, 400 * 86400.0)  # seconds


@dataclass
class OnServer:
    """What has been done to them; *until* ends something after so many seconds."""

    server: ServerUnderFire
    wire: WireThread
    until: Until
    cut: int = 0  # connections

    def strikes(self) -> dict[str, Callable[[Blow], bool]]:
        """Each returns False when it is not possible just now."""
        return {
            "restart the database": self._restart, "fill the server's disk": self._fill,
            "step the server's clock": self._step, "cut all connections": self._cut,
            "cut some connections": self._cut_some,
            "silence the wire": lambda blow: self._over_wire(blow, lambda wire: wire.wire.silence()),
            "swallow the answers": lambda blow: self._over_wire(blow, lambda wire: wire.wire.deafen()),
            "refuse connections": lambda blow: self._over_wire(blow, lambda wire: wire.wire.refuse()),
        }  # fmt: skip

    def figures(self) -> dict[str, int]:
        return {
            "connections cut": self.cut, "times that PostgreSQL said its disk is full": self.server.said(FULL),
            "times that it panicked": self.server.said("PANIC"),
            "times that it had to be started again": self.server.revived,
        }  # fmt: skip

    def _restart(self, blow: Blow) -> bool:
        if self.server.full or not self.server.server.running:
            return False
        self.server.server.crash_and_restart()
        return True

    def _fill(self, blow: Blow) -> bool:
        if self.server.full or not self.server.server.running:
            return False
        self.server.fill()
        self.until(blow.lasts, self.server.free)
        return True

    def _step(self, blow: Blow) -> bool:
        assert self.server.clock is not None
        dice = random.Random(blow.roll)
        self.server.clock.step(dice.choice(_STEPS) * (2 * dice.random() - 1))
        return True

    def _cut(self, blow: Blow) -> bool:
        self.cut += self.wire.do(self.wire.wire.cut)
        return True

    def _cut_some(self, blow: Blow) -> bool:
        dice = random.Random(blow.roll)
        self.cut += self.wire.do(lambda: self.wire.wire.cut_some(dice))
        return True

    def _over_wire(self, blow: Blow, do: Callable[[WireThread], None]) -> bool:
        self.wire.do(lambda: do(self.wire))
        self.until(blow.lasts, lambda: self.wire.do(lambda: self.wire.wire.heal(cut=blow.roll < 0.5)))
        return True
