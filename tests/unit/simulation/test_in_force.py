"""The policy in force, as the store has it, is what an outage is played against."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tidegate import Backoff, Cooldown, Target
from tidegate.jobs.history import CallCounts, History
from tidegate.simulation import outage
from tidegate.simulation.outage import LENGTHS, ReplayPolicy
from tidegate.testing.simulation import ReplayRequest, draw


def told(**target: Any) -> dict[str, Any]:
    """The numbers of a target, as its workers put them into the store."""
    return dict(json.loads(Target("svc", "jobs", **target).for_jobs().shown()))


def test_the_numbers_come_back_as_they_were_declared() -> None:
    breaker = {"consecutive": 5, "window": "3m", "failure_ratio": 0.5, "min_requests": 6, "timeout": "2m"}
    rules = told(backoff=Backoff("1m", cap="1h", factor=3), breaker=breaker, cooldown=Cooldown({"gone": (3, "2d")}))

    assert outage.gates(rules) == ReplayPolicy(
        backoff=Backoff(60, cap=3600, factor=3, jitter=0), cooldown=Cooldown({"gone": (3, 172_800.0)}), probe=False,
        breaker={
            "consecutive": 5, "window": 180.0, "failure_ratio": 0.5, "min_requests": 6, "timeout": 120.0,
            "interval": 60.0, "max_requests": 3,
        },
    )  # fmt: skip


def test_waits_that_are_written_out_stay_as_they_are() -> None:
    found = outage.gates(told(backoff=Backoff.listed("1m", "5m", "30m")))

    assert found is not None
    assert [found.backoff.delay(n, 0.5) for n in range(4)] == [60, 300, 1800, 1800]


def test_a_target_without_a_gate_has_nothing_to_play() -> None:
    assert outage.gates({"when_open": "hold"}) is None
    with pytest.raises(ValueError, match="gate"):
        draw(ReplayRequest(rules={}, length="2h", every=60))


def test_a_rule_of_the_users_own_is_not_taken_for_a_share_of_failures() -> None:
    found = outage.gates(told(breaker={"trip": lambda counts: counts.failures > 2}))

    assert found is not None
    assert found.breaker is not None
    assert found.breaker["min_requests"] > LENGTHS["1d"].lasts / LENGTHS["1d"].every


@pytest.mark.parametrize(
    ("n", "step", "every"), [(0, 900, 60), (90, 900, 10), (900, 900, 1), (1, 3600, 300), (40, 900, 30)]
)
def test_it_is_called_about_as_often_as_of_late(n: int, step: int, every: int) -> None:
    points = [CallCounts(at=step, good=n, bad=0, rejected=0), CallCounts(at=2 * step, good=0, bad=0, rejected=5)]

    assert outage.pace(LENGTHS["2h"], History(start=0, end=2 * step, step=step, points=points)) == every


def test_slots_in_which_it_was_held_do_not_make_it_slower() -> None:
    points = [CallCounts(at=900 * n, good=90 if n > 3 else 1, bad=0, rejected=0) for n in range(1, 9)]

    assert outage.pace(LENGTHS["2h"], History(start=0, end=7200, step=900, points=points)) == 10


def test_a_long_outage_of_a_busy_target_is_played_with_fewer_calls() -> None:
    busy = [CallCounts(at=900, good=900, bad=0, rejected=0)]

    assert outage.pace(LENGTHS["1d"], History(start=0, end=900, step=900, points=busy)) == 10


@pytest.mark.parametrize("length", LENGTHS)
def test_the_picture_of_a_breaker_has_colours_from_the_page_and_a_text_beside_it(length: str) -> None:
    found = draw(ReplayRequest(rules=told(breaker={"consecutive": 5}), length=length, every=LENGTHS[length].every))

    svg = ET.fromstring(found.svg)
    classes = {each.get("class") for each in svg.iter()} - {None}
    assert {"o-band", "o-breaker-open", "o-ok"} <= classes
    assert all(str(each).startswith("o-") for each in classes - {"outage"})
    assert "style" not in found.svg
    assert svg.get("aria-label") == found.summary
    counted = {name: row for name, *row in found.rows}
    ours, plain = (int(cell.split()[0].replace(",", "")) for cell in counted["failed calls"][:2])
    assert ours < plain / 2
