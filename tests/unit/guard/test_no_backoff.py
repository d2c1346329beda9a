"""A target without a backoff of its own: nothing is waited but what the service asks for, and all other gates hold."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from tests.unit.guard.scene import Answered, Scene, down
from tidegate import Backoff, Cooldown, Target


def test_a_target_has_the_ladder_of_the_sync_loops_unless_it_says_otherwise() -> None:
    scene = Scene()
    with pytest.raises(ConnectionRefusedError):
        scene.call(down())

    assert scene.holds() == ["backoff"]
    assert Target("svc").for_jobs().backoff == Backoff.sync()


def test_without_a_backoff_a_failure_holds_nothing() -> None:
    scene = Scene(backoff=None)
    for _ in range(50):
        with pytest.raises(ConnectionRefusedError):
            scene.call(down())

    assert scene.holds() == []
    assert scene.notices() == []  # there is no longest wait that could be reached
    assert Target("svc", backoff=None).for_jobs().backoff is None


class Contended:
    """A lock for which one has to wait once, while *meanwhile* happens."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], object] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        self._lock.acquire()

    def __exit__(self, *details: object) -> None:
        self._lock.release()


def test_without_a_backoff_a_failure_while_a_call_waits_for_its_turn_does_not_hold_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lock = Contended()
    monkeypatch.setattr("tidegate.guard.keys.threading", SimpleNamespace(Lock=lambda: lock))
    scene = Scene(backoff=None)

    def fail_later() -> None:
        scene.clock.advance(1)
        with pytest.raises(ConnectionRefusedError):
            scene.call(down())

    fail_later()
    lock.meanwhile = fail_later
    assert scene.call() == "ok"
    fail_later()
    lock.meanwhile = fail_later
    assert scene.target.key(7).explain("recent") == []
    assert lock.meanwhile is None, "there was a wait"


def test_without_a_backoff_the_service_is_still_obeyed() -> None:
    scene = Scene(backoff=None)
    with pytest.raises(Answered):
        scene.call(Answered(429, {"Retry-After": "90"}))

    assert scene.holds() == ["retry_after"]
    scene.clock.advance(91)
    assert scene.call() == "ok"


def test_without_a_backoff_a_fatal_fault_holds_as_ever() -> None:
    scene = Scene(backoff=None)
    with pytest.raises(Answered):
        scene.call(Answered(401))

    assert scene.holds() == ["fatal"]


def test_without_a_backoff_a_run_of_failures_rests_as_ever() -> None:
    scene = Scene(backoff=None, cooldown=Cooldown({"network": (3, "1h")}))
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            scene.call(down())

    assert scene.holds() == ["cooldown"]
    scene.clock.advance("61m")
    assert scene.call() == "ok"


def test_without_a_backoff_the_breaker_opens_as_ever() -> None:
    scene = Scene(backoff=None, breaker={"consecutive": 2})
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            scene.call(down())

    assert scene.holds() == ["breaker"]
