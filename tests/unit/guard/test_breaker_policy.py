"""Why a breaker opened, as the store keeps it."""

from __future__ import annotations

import json

import pytest

from tidegate.guard.breaker_policy import OpenedBy, TripReason


@pytest.mark.parametrize("rule", OpenedBy)
def test_it_comes_back_from_the_store_as_it_was(rule: OpenedBy) -> None:
    opened = TripReason(rule=rule, run=3, requests=10, failures=6)

    assert json.loads(json.dumps(opened.dump())) == {"rule": str(rule), "run": 3, "requests": 10, "failures": 6}
    assert TripReason.load(opened.dump()) == opened


def test_what_was_not_counted_is_nothing() -> None:
    assert TripReason.load({"rule": "person"}) == TripReason(rule=OpenedBy.PERSON, run=0, requests=0, failures=0)


@pytest.mark.parametrize("kept", [None, {}, {"run": 3}, {"rule": "moon", "run": 3}])
def test_without_a_rule_that_this_program_knows_nothing_is_said(kept: dict[str, object] | None) -> None:
    assert TripReason.load(kept) is None
