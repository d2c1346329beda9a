"""A target on a virtual clock, whose service does what the test says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate import Held, Target
from tidegate.events import Notice
from tidegate.guard import Tuning
from tidegate.testing import EventLog, VirtualClock


class Answered(Exception):
    """What a client raises for a status that is no good."""

    def __init__(self, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        super().__init__(f"status {status}")
        self.response = SimpleNamespace(status_code=status, headers=dict(headers or {}), content=body)


class Stopped(BaseException):
    """As a signal or a cancellation: no Exception."""


class CountedClock(VirtualClock):
    """Tells how often it was read: a call that nothing stands before reads no clock."""

    __slots__ = ("reads",)

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def monotonic(self) -> float:
        self.reads += 1
        return super().monotonic()


def down() -> Exception:
    return ConnectionRefusedError("nobody there")


class Scene:
    """One target, and what becomes of calls to it. *roll* 0.5 is the middle of every jitter."""

    def __init__(self, *, roll: float = 0.5, clock: VirtualClock | None = None, **settings: Any) -> None:
        self.clock = clock or VirtualClock()
        self.events = EventLog()
        settings.setdefault("self_guard", False)
        settings.setdefault("name", "spotify")
        settings.setdefault("profile", "sync")
        tuned = {name: settings.pop(name) for name in ("max_retry_after", "cap_notice") if name in settings}
        tuning = Tuning(bus=self.events.bus, rng=lambda: roll, **tuned)
        self.target = Target(clock=self.clock, tuning=tuning, **settings)

    def call(self, outcome: object = "ok", *, key: Any = 7, operation: str = "recent") -> Any:
        """One call that ends in *outcome*: a value, or an exception that is raised."""

        def fn() -> Any:
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        fn.__name__ = operation
        return self.target.key(key).call(fn)

    def fail(self, *outcomes: object, key: Any = 7, operation: str = "recent") -> None:
        """Calls one after another, each as soon as the gate lets it."""
        for outcome in outcomes:
            self.wait(key=key, operation=operation)
            with suppress(Exception, Stopped):
                self.call(outcome, key=key, operation=operation)

    def wait(self, *, key: Any = 7, operation: str = "recent") -> None:
        """Until the gate is open."""
        while holds := self.target.key(key).explain(operation):
            assert holds[0].until is not None, f"held for ever: {holds}"
            self.clock.advance(max(0.001, holds[0].until - self.clock.now()))

    def reason(self, *, key: Any = 7, operation: str = "recent") -> str | None:
        """Why a call is held; None when it goes."""
        try:
            self.call(key=key, operation=operation)
        except Held as held:
            return held.reason
        return None

    def holds(self, *, key: Any = 7, operation: str | None = "recent") -> list[str]:
        return [str(hold.reason) for hold in self.target.key(key).explain(operation)]

    def left(self, *, key: Any = 7, operation: str = "recent") -> float | None:
        """Seconds until the first hold ends."""
        until = self.target.key(key).explain(operation)[0].until
        return None if until is None else until - self.clock.now()

    def room(self, *, key: Any = "many") -> int:
        """How many calls may be under way at once."""
        try:
            return int(self.target.key(key).call(lambda: 1 + self.room(key=key)))
        except Held:
            return 0

    def notices(self) -> list[str]:
        return [str(notice.kind) for notice in self.events.notices()]

    def last_notice(self) -> Notice:
        return self.events.notices()[-1]


@contextmanager
def held(reason: str) -> Iterator[Any]:
    with pytest.raises(Held) as caught:
        yield caught
    assert caught.value.reason == reason
