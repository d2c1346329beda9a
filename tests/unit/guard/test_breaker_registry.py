"""Totals by name, over all breakers that ever had it."""

from __future__ import annotations

import gc
from itertools import count

import pytest

from tests.unit.guard.forms import Clock, play
from tidegate import Breaker
from tidegate.guard.breaker_registry import all_totals, totals_for
from tidegate.guard.breaker_state import BreakerMachine

_numbers = count()


@pytest.fixture
def name() -> str:
    """One that no breaker of this process had before: a ledger never forgets."""
    return f"ledger-{next(_numbers)}"


def test_breakers_of_one_name_share_a_ledger_and_others_do_not(name: str) -> None:
    first, second, other = (Breaker(each, clock=Clock()) for each in (name, name, f"{name}-b"))
    assert totals_for(name).breakers() == [first, second]
    assert totals_for(f"{name}-b").breakers() == [other]
    names = [each.name for each in all_totals()]
    assert names == sorted(names)
    assert {name, f"{name}-b"} <= set(names)


def test_what_breakers_that_are_gone_have_counted_is_counted_for_ever(name: str) -> None:
    ledger = totals_for(name)
    for _ in range(40):  # past the first sweep
        play(Breaker(name, consecutive=2, clock=Clock()), "SFF" + "S")
    living = Breaker(name, consecutive=1, clock=Clock())
    play(living, "SF")
    gc.collect()
    results, moves = ledger.totals()
    assert results == {"success": 41, "failure": 81, "rejected": 40}
    assert moves == {("closed", "open"): 41}
    assert ledger.breakers() == [living]
    assert ledger.totals() == (results, moves)


def test_breakers_that_are_gone_are_swept_out_as_new_ones_join(name: str) -> None:
    for _ in range(500):
        Breaker(name, clock=Clock())
    kept = [each for each in gc.get_objects() if type(each) is BreakerMachine and each.policy.name == name]
    assert len(kept) <= 17


def test_a_breaker_made_anew_under_its_name_goes_on_counting(name: str) -> None:
    play(Breaker(name, clock=Clock()), "SS")
    play(again := Breaker(name, clock=Clock()), "S")
    assert totals_for(name).totals()[0]["success"] == 3
    assert again.totals["success"] == 1
