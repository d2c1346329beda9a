"""How a target stands: one word and one line for everything that can be true of it, the most urgent first."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from tidegate.guard.breaker_policy import OpenedBy, TripReason
from tidegate.guard.capacity import CapacityLimits
from tidegate.labels import FULL, HELD_UP, JOBS, NEED_YOU, PAUSED, RECOVERING, TARGETS, WELL, format_duration
from tidegate.targets.breaker import StoredBreaker
from tidegate.targets.status import HeldKeys, TargetStatus, standing
from tidegate.targets.table import TargetRow

NOW = 1_700_000_000.0
PLAIN = TargetRow(name="svc")
RULES = json.dumps({"breaker": {"max_requests": 3, "open_for": 120}, "probe_every": 10})


def breaker(**fields: Any) -> TargetRow:
    return replace(PLAIN, rules=RULES, breaker=StoredBreaker(**{"generation": 1, "since": NOW - 240, **fields}))


def full(depth: int, at: float = NOW - 5, **fields: Any) -> TargetRow:
    """A target that said at some time how full it is, of 50 places."""
    rules = json.dumps({"capacity": asdict(CapacityLimits(cap=50, own=900.0, every=30.0))})
    return replace(breaker(**fields), rules=rules, capacity=json.dumps({"depth": depth, "at": at}))


def held(reason: str, n: int = 1, **fields: Any) -> HeldKeys:
    about = {
        "since": NOW - 100, "until": NOW + 240, "failures": 3, "code": "timeout", "message": None, "key": "7",
        "rest": None,
    }  # fmt: skip
    return HeldKeys("svc", reason, n, **{**about, **fields})


def program(at: float = NOW - 4, **said: Any) -> TargetRow:
    """A target that a program of its own reports."""
    about = {"breakers": {"svc": {"state": "closed", "requests": 9}}, "unhealthy": 0, "reasons": [], "at": at, **said}
    return replace(PLAIN, reported_at=at, summary=json.dumps({"host-1": about}))


REFUSED = "It said no."
CASES: list[tuple[TargetRow, list[HeldKeys], bool, str, str, float | None]] = [
    # row, keys that are held, whether it was ever called, token, its key in the catalogue of wording, next try
    (PLAIN, [], False, "new", "never-called", None),
    (PLAIN, [], True, "ok", "nothing-holds", None),
    (breaker(buckets=((NOW - 30, 21, 2),)), [], True, "ok", "failures-in-window", None),
    (breaker(buckets=((NOW - 30, 21, 0),)), [], True, "ok", "no-failure-in-window", None),
    (breaker(buckets=((NOW - 30, 1, 0),)), [], True, "ok", "last-call-good", None),
    (breaker(buckets=((NOW - 30, 1, 1),)), [], True, "ok", "last-call-failed", None),
    (breaker(closed_at=NOW - 300), [], True, "ok", "recovered", None),
    (full(47, buckets=((NOW - 30, 21, 2),)), [], True, "ok", "almost-full", None),
    (full(50, buckets=((NOW - 30, 21, 2),)), [], True, "full", "full", None),
    (full(50, at=NOW - 3600), [], True, "ok", "full-long-ago", None),
    # one key, many keys, the whole of it
    (PLAIN, [held("backoff")], True, "degraded", "key-backoff", NOW + 240),
    (PLAIN, [held("backoff", 12, code=None)], True, "degraded", "keys-backoff",
     NOW + 240),
    (PLAIN, [held("backoff", key="", failures=1)], True, "degraded", "target-backoff", NOW + 240),
    (PLAIN, [held("backoff", until=NOW - 5)], True, "degraded", "backoff-over",
     NOW - 5),
    (PLAIN, [held("retry_after", key="", until=NOW + 1800)], True, "limited", "retry-after", NOW + 1800),
    (PLAIN, [held("cooldown", until=NOW + 172_800)], True, "disabled", "key-cooldown", NOW + 172_800),
    (PLAIN, [held("cooldown", 4)], True, "disabled", "keys-cooldown",
     NOW + 240),
    (PLAIN, [held("cooldown", rest='{"by": "ada"}')], True, "disabled", "key-disabled-for-a-time", NOW + 240),
    (PLAIN, [held("cooldown", until=None, rest='{"by": "ada"}')], True, "disabled", "key-disabled", None),
    (PLAIN, [held("fatal", until=None, message=REFUSED)], True, "action", "key-fatal", None),
    (PLAIN, [held("fatal", 3, until=NOW + 3600, message=None, code="quota_exhausted")],
     True, "action", "keys-fatal", NOW + 3600),
    # its breaker
    (breaker(state="open", run=5, until=NOW + 60), [], True, "open", "open-by-run", NOW + 60),
    (breaker(state="open", run=1, until=NOW + 60), [], True, "open", "open-by-one", NOW + 60),
    (breaker(state="open", until=NOW + 60), [], True, "open", "open-by-ratio-unknown", NOW + 60),
    (breaker(state="open", run=5), [], True, "open", "open-until-probe", None),
    (replace(breaker(state="open", run=5), rules=None), [], True, "open", "open-until-person", None),
    (breaker(state="open", run=1, opened=TripReason(rule=OpenedBy.PROBE, run=1, requests=8, failures=2)),
     [], True, "open", "open-by-probe", None),
    (breaker(state="open", run=1, until=NOW + 60, opened=TripReason(rule=OpenedBy.RATIO, requests=8, failures=4)),
     [], True, "open", "open-by-ratio", NOW + 60),
    (breaker(state="open", run=9, until=NOW + 60, opened=TripReason(rule=OpenedBy.HALF_OPEN, run=9)),
     [], True, "open", "open-by-trial", NOW + 60),
    (breaker(state="open", run=5, until=NOW + 60, opened=TripReason(rule=OpenedBy.CONSECUTIVE, run=5)),
     [], True, "open", "open-by-known-run", NOW + 60),
    (breaker(state="open", by="ada", until=NOW + 7200), [], True, "open", "open-by-person-for-a-time",
     NOW + 7200),
    (breaker(state="open", by="ada"), [], True, "open", "open-by-person", None),
    (breaker(state="open", run=5, until=NOW - 1), [], True, "probing", "open-over", NOW - 1),
    (breaker(state="half-open", good=2), [], True, "probing", "half-open", None),
    # a person
    (replace(PLAIN, paused_at=NOW - 60, paused_until=NOW + 720, paused_by="ada"),
     [], True, "paused", "paused", NOW + 720),
    (replace(PLAIN, paused_at=NOW - 60, paused_until=NOW - 1, paused_by="ada"), [], True, "ok", "pause-over", None),
    # a program of its own
    (program(), [], False, "ok", "program-ok", None),
    (program(breakers={}), [], False, "ok", "program-without-breaker", None),
    (program(breakers={"svc": {"state": "closed", "requests": 0}}), [], False, "new", "program-never-called", None),
    (program(breakers={"svc": {"state": "closed", "requests": 0, "calls": 9}}), [], False, "ok",
     "program-called", None),
    (program(breakers={"svc": {"state": "open", "consecutive_failures": 5}}), [], False, "open", "program-open", None),
    (program(breakers={"svc": {"state": "half-open"}}), [], False, "probing", "program-half-open", None),
    (program(unhealthy=2, reasons=["backoff"]), [], False, "degraded", "program-backoff", None),
    (program(unhealthy=2), [], False, "degraded", "program-failing", None),
    (program(unhealthy=2, reasons=["backoff", "fatal"]), [], False, "action", "program-fatal", None),
    (program(reasons=["retry_after"]), [], False, "limited", "program-retry-after", None),
    (program(reasons=["cooldown"]), [], False, "disabled", "program-cooldown", None),
    (program(reasons=["paused"]), [], False, "paused", "program-paused", None),
    (program(reasons=["rate", "concurrency"]), [], False, "ok", "program-limits", None),
    (program(at=NOW - 7200), [], False, "silent", "program-silent", None),
    (program(at=NOW - 7200), [], True, "ok", "program-silent-but-called", None),
]  # fmt: skip


@pytest.mark.parametrize(("row", "keys", "tried", "token", "key", "next_try"), CASES, ids=[case[4] for case in CASES])
def test_a_target_says_how_it_stands(
    row: TargetRow, keys: list[HeldKeys], tried: bool, token: str, key: str, next_try: float | None
) -> None:
    found = standing(row, keys, NOW, tried=tried)

    assert (found.token, found.next_try) == (token, next_try)


def test_every_state_of_a_target_is_tried_here() -> None:
    assert {case[3] for case in CASES} == set(TARGETS)


def test_of_several_the_most_urgent_is_told() -> None:
    row = replace(breaker(state="open", run=5, until=NOW + 60), paused_at=NOW, paused_until=NOW + 60, paused_by="ada")
    keys = [held("backoff"), held("cooldown"), held("retry_after"), held("fatal", until=None)]
    told = []
    for _ in range(4):
        found = standing(row, keys, NOW, tried=True)
        told.append(found.token)
        if found.token == "paused":
            row = replace(row, paused_at=None, paused_until=None)
        elif found.token == "open":
            row = PLAIN
        else:
            keys = [each for each in keys if each.reason != "fatal"]

    assert told == ["action", "paused", "open", "disabled"]


def test_every_state_is_in_one_group_of_the_sentence() -> None:
    groups = [NEED_YOU, RECOVERING, PAUSED, HELD_UP, FULL, WELL]

    assert sorted(token for group in groups for token in group) == sorted(TARGETS)


@pytest.mark.parametrize(("table", "name"), [(TARGETS, "targets"), (JOBS, "jobs")], ids=["targets", "jobs"])
def test_no_two_states_look_alike(table: Any, name: str) -> None:
    assert len({word.word for word in table.values()}) == len(table)
    assert len({word.icon for word in table.values()}) == len(table)
    assert all(line.endswith(".") for word in table.values() for line in word.lines.values())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "1 s"), (-5, "1 s"), (40.4, "40 s"), (59.6, "1 min"), (60, "1 min"), (725, "12 min"), (3599, "59 min"),
     (3600, "1 h"), (86_399, "23 h"), (86_400, "1 day"), (200_000, "2 days")],
)  # fmt: skip
def test_a_span_of_time_is_one_number_and_a_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_standing_without_a_time_has_none() -> None:
    assert TargetStatus("ok", "x.") == TargetStatus("ok", "x.", None, None)
