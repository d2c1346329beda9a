"""The numbers of a target in words, as its workers tell them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.text import names
from tidegate import Backoff, Capacity, Cooldown, Queue, Rate, Target
from tidegate.targets import reports
from tidegate.web.pages import target_policy


def words(**numbers: Any) -> dict[str, str]:
    return dict(target_policy.rows(json.loads(Target("mailer", "jobs", **numbers).for_jobs().shown())))


# What is declared, and the values that its rows name.
CASES: dict[str, tuple[dict[str, Any], list[tuple[str, ...]]]] = {
    "doubling": ({"backoff": Backoff("30s", cap="30m")}, [("30 s", "30 min")]),
    "another factor": ({"backoff": Backoff("1m", cap="1h", factor=3)}, [("1 min", "3 times", "1 h")]),
    "always the same": ({"backoff": Backoff("5s", cap="5s")}, [("5 s",)]),
    "steps": ({"backoff": Backoff.conversion()}, [("5 s, 15 s, 45 s",)]),
    "rests": (
        {"backoff": None, "cooldown": Cooldown({"not_found": (3, "48h"), "gone": (1, "72h")})},
        [("not_found", "2 days", "3 times"), ("gone", "3 days", "1 time")],
    ),
    "rate": ({"backoff": None, "rate": Rate(1, per=1.1)}, [("1 call", "1 s", "1 at once")]),
    "a low rate": ({"backoff": None, "rate": Rate(0.5, per=1.1)}, [("0.5 calls", "1 s", "1 at once")]),
    "one at a time": ({"backoff": None, "concurrency": 1}, [("1 job",)]),
    "capacity": ({"backoff": None, "capacity": Capacity(50, depth=lambda: 0)}, [("50",)]),
    "a breaker": ({"backoff": None, "breaker": {"consecutive": 5, "timeout": 120}}, [("5 failures",), ("2 min",)]),
    "a breaker of one": (
        {"backoff": None, "breaker": {"consecutive": 1, "max_requests": 1}},
        [("1 failure ",), ("1 ",)],
    ),
    "a probe": (
        {"backoff": None, "breaker": True, "probe": lambda: None, "probe_after": {"GW_5XX", "GW_4XX"}},
        [("GW_4XX", "GW_5XX")],
    ),
}


@pytest.mark.parametrize(("numbers", "told"), CASES.values(), ids=list(CASES))
def test_every_number_is_told_in_one_row(numbers: dict[str, Any], told: list[tuple[str, ...]]) -> None:
    rows = [f"{name}: {value}" for name, value in words(**numbers).items()]
    for values in told:
        assert [row for row in rows if names(row, *values)], values
    if "breaker" not in numbers:
        assert len(rows) == 1 + len(told)  # the first says what becomes of its jobs meanwhile


def test_a_probe_that_opens_the_breaker_is_a_rule_of_its_own() -> None:
    without, after_all = (
        words(backoff=None, breaker=True, probe=lambda: None, **more) for more in ({}, {"probe_after": True})
    )
    assert len(after_all) == len(without) + 1


def test_it_is_told_where_the_numbers_come_from(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}") as q:

        @q.job(queue="mail", target=Target("mailer"))
        async def send(n: int) -> None: ...

        q.drain()
        told = q.store.read(lambda tx: reports.one(tx, "mailer"))

    assert told.report.rules["declared_in"] == __name__
