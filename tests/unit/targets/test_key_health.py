"""The health of a lane: what a job's own bug makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import requests

from tidegate import Cooldown, Fault, Target, classify
from tidegate.guard.policy import TargetRules
from tidegate.targets import key_health
from tidegate.targets.table import StoredKeyHealth


def own_bug() -> Fault:
    with pytest.raises(KeyError) as caught:
        dict[str, int]()["user"]
    fault = classify(caught.value)
    assert fault is not None
    assert fault.own_bug
    return fault


def unsent(fn: Callable[[], object]) -> Fault:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        fn()
    fault = classify(caught.value)
    assert fault is not None
    return fault


RULES = Target("svc", "jobs", cooldown=Cooldown({"unexpected": (3, "1h")}), backoff=None).for_jobs()


def after(*faults: Fault, rules: TargetRules = RULES) -> StoredKeyHealth:
    row = key_health.fresh("svc", "", 0.0)
    for at, fault in enumerate(faults, 1):
        row = key_health.record_failure(row, rules, fault, claimed_at=10.0 * at - 1, now=10.0 * at, roll=0.5).row
    return row


def test_a_bug_of_a_job_does_not_count_towards_a_cooldown_of_its_target() -> None:
    bug = own_bug()
    row = after(bug, bug, bug)
    assert (row.rest.disabled, row.rest.failing_count, row.reason) == (
        False,
        0,
        key_health.fresh("svc", "", 0.0).reason,
    )


def test_a_bug_of_a_job_does_not_end_a_run_of_failures() -> None:
    bug = own_bug()
    failure = replace(bug, rule="unknown")
    assert after(failure, bug, failure).rest.failing_count == 2
    assert after(failure, bug, failure, failure).rest.disabled


@pytest.mark.parametrize(
    "fn",
    [
        lambda: int("abc"),
        lambda: requests.get("http://127.0.0.1:9/", timeout=-1),
        lambda: requests.get("nope.invalid"),
        lambda: requests.get("http://127.0.0.1:9/", headers={"a": "b\nc"}),
    ],
)
def test_a_request_of_a_job_that_was_never_sent_does_not_hold_its_target(fn: Callable[[], object]) -> None:
    fault = unsent(fn)
    assert fault.counts_as_failure is None
    assert after(fault, rules=Target("svc", "jobs").for_jobs()) == key_health.fresh("svc", "", 0.0)
