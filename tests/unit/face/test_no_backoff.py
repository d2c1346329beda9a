"""A target without a backoff of its own: nothing is waited but what the service asks for, and all other gates hold."""

from __future__ import annotations

import pytest

from tests.unit.face.scene import Answered, Scene, down
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
