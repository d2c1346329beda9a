"""Totals by name, over all breakers that ever had it."""

from __future__ import annotations

import gc

from tests.unit.machine.forms import Clock, play
from tidegate import Breaker
from tidegate.machine.ledger import ledger_of, ledgers
from tidegate.machine.states import States


def test_breakers_of_one_name_share_a_ledger_and_others_do_not() -> None:
    first, second, other = (Breaker(name, clock=Clock()) for name in ("ledger-a", "ledger-a", "ledger-b"))
    assert ledger_of("ledger-a").breakers() == [first, second]
    assert ledger_of("ledger-b").breakers() == [other]
    names = [each.name for each in ledgers()]
    assert names == sorted(names)
    assert {"ledger-a", "ledger-b"} <= set(names)


def test_what_breakers_that_are_gone_have_counted_is_counted_for_ever() -> None:
    ledger = ledger_of("ledger-gone")
    for _ in range(40):  # past the first sweep
        play(Breaker("ledger-gone", consecutive=2, clock=Clock()), "SFF" + "S")
    living = Breaker("ledger-gone", consecutive=1, clock=Clock())
    play(living, "SF")
    gc.collect()
    results, moves = ledger.totals()
    assert results == {"success": 41, "failure": 81, "rejected": 40}
    assert moves == {("closed", "open"): 41}
    assert ledger.breakers() == [living]
    assert ledger.totals() == (results, moves)


def test_breakers_that_are_gone_are_swept_out_as_new_ones_join() -> None:
    for _ in range(500):
        Breaker("ledger-swept", clock=Clock())
    kept = [each for each in gc.get_objects() if type(each) is States and each.policy.name == "ledger-swept"]
    assert len(kept) <= 17


def test_a_breaker_made_anew_under_its_name_goes_on_counting() -> None:
    play(Breaker("ledger-anew", clock=Clock()), "SS")
    play(again := Breaker("ledger-anew", clock=Clock()), "S")
    assert ledger_of("ledger-anew").totals()[0]["success"] == 3
    assert again.totals["success"] == 1
