"""A target that nobody holds is gone, with its breaker; what that had counted stays."""

from __future__ import annotations

import gc

import pytest

from tests.unit.guard.scene import Scene, down
from tidegate.guard.breaker_registry import totals_for


@pytest.mark.req("BRK-08")
def test_the_state_of_a_breaker_goes_with_its_target_and_its_totals_stay() -> None:
    name = "a-target-that-goes"
    scene = Scene(name=name, backoff=None, breaker={"consecutive": 2})
    part, breaker = scene.target.key(7), scene.target.breaker
    scene.fail(down(), down())
    assert breaker is not None
    assert breaker.state == "open"
    scene.events.assert_one("breaker_state_changed")
    assert totals_for(name).breakers() == [breaker]

    del scene, breaker
    gc.collect()
    (kept,) = totals_for(name).breakers()  # a part of it is enough
    assert kept.state == "open"
    del part, kept
    gc.collect()
    assert totals_for(name).breakers() == []
    results, moves = totals_for(name).totals()
    assert results["failure"] == 2
    assert moves == {("closed", "open"): 1}
