"""The numbers of a target in words, as its workers tell them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tidegate import Backoff, Capacity, Cooldown, Queue, Rate, Target
from tidegate.ops import target_reports
from tidegate.web.pages import policy


def words(**numbers: Any) -> dict[str, str]:
    return dict(policy.rows(json.loads(Target("mailer", **numbers).for_jobs().shown())))


CASES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "doubling": (
        {"backoff": Backoff("30s", cap="30m")},
        {"After a failure": "a key waits 30 s, each time twice as long, at most 30 min"},
    ),
    "another factor": (
        {"backoff": Backoff("1m", cap="1h", factor=3)},
        {"After a failure": "a key waits 1 min, each time 3 times as long, at most 1 h"},
    ),
    "always the same": ({"backoff": Backoff("5s", cap="5s")}, {"After a failure": "a key waits 5 s"}),
    "steps": ({"backoff": Backoff.conversion()}, {"After a failure": "a key waits 5 s, 15 s, 45 s"}),
    "rests": (
        {"backoff": None, "cooldown": Cooldown({"not_found": (3, "48h"), "gone": (1, "72h")})},
        {
            "Rests after not_found": "2 days, when it was met 3 times in a row",
            "Rests after gone": "3 days, when it was met 1 time in a row",
        },
    ),
    "rate": ({"backoff": None, "rate": Rate(1, per=1.1)}, {"Rate": "at most 1 call in 1 s, 1 at once"}),
    "a low rate": ({"backoff": None, "rate": Rate(0.5, per=1.1)}, {"Rate": "at most 0.5 calls in 1 s, 1 at once"}),
    "one at a time": ({"backoff": None, "concurrency": 1}, {"At the same time": "at most 1 job"}),
    "capacity": (
        {"backoff": None, "capacity": Capacity(50, depth=lambda: 0)},
        {"Capacity": "at most 50 in its own queue"},
    ),
}


@pytest.mark.parametrize(("numbers", "said"), CASES.values(), ids=list(CASES))
def test_every_number_has_words(numbers: dict[str, Any], said: dict[str, str]) -> None:
    assert words(**numbers) == {"While it is held": "its jobs wait", **said}


def test_a_breaker_says_when_it_opens_and_for_how_long() -> None:
    found = words(backoff=None, breaker={"consecutive": 5, "timeout": 120})
    assert found["Or opens"] == "after 5 failures in a row"
    assert found["Stays open for"] == "2 min"
    found = words(backoff=None, breaker={"consecutive": 1, "max_requests": 1})
    assert (found["Or opens"], found["Trial calls"]) == ("after 1 failure in a row", "1 good one closes it again")


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ({"GW_5XX", "GW_4XX"}, "when a call fails with GW_4XX or GW_5XX, and then its health probe too"),
        (True, "when a call fails, and then its health probe too"),
    ],
)
def test_a_probe_that_opens_the_breaker_is_named_as_a_rule(after: Any, said: str) -> None:
    found = words(backoff=None, breaker=True, probe=lambda: None, probe_after=after)

    assert found["Or opens at once"] == said
    assert "Or opens at once" not in words(backoff=None, breaker=True, probe=lambda: None)


def test_it_is_told_where_the_numbers_come_from(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}") as q:

        @q.job(queue="mail", target=Target("mailer"))
        async def send(n: int) -> None: ...

        q.drain()
        told = q.store.read(lambda tx: target_reports.one(tx, "mailer"))

    assert told.report.rules["declared_in"] == __name__
