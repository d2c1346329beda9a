"""Holds: their order, and what a held call raises."""

from __future__ import annotations

import pytest

from tidegate.guard.hold import Hold, HoldReason, rank


def test_holds_stand_in_the_order_in_which_a_gate_is_asked() -> None:
    ranks = [rank(Hold(reason=reason, since=0.0, until=None)) for reason in HoldReason]
    assert ranks == list(range(len(HoldReason)))
    assert next(iter(HoldReason)) == "paused"


@pytest.mark.parametrize(("until", "left"), [(None, None), (30.0, 10.0), (20.0, 0.0), (5.0, 0.0)])
def test_a_held_call_is_told_what_holds_it_and_how_long_still(until: float | None, left: float | None) -> None:
    held = Hold(reason=HoldReason.COOLDOWN, since=2.0, until=until).error("api", ("eu", 1), 20.0)
    assert (held.target, held.key, held.reason, held.since) == ("api", ("eu", 1), "cooldown", 2.0)
    assert type(held.reason) is str
    assert (held.until, held.retry_after) == (until, left)
