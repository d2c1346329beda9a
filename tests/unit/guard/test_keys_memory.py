"""What keys cost: nothing while they never failed, little while they do, nothing again when they are idle."""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from tests.unit.guard.scene import Scene
from tidegate import Backoff
from tidegate.faults.codes import CORE
from tidegate.guard.key_health import Admission
from tidegate.guard.keys import KeyRegistry
from tidegate.guard.pipeline import CallPolicy
from tidegate.testing import VirtualClock

DAY = 86_400


@pytest.fixture
def traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


def held_bytes() -> int:
    """Bytes that Tidegate and this test hold. Threads of the test runner allocate meanwhile; they are left out."""
    ours = [tracemalloc.Filter(inclusive=True, filename_pattern=pattern) for pattern in ("*/tidegate/*", __file__)]
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(ours).traces)


def policy() -> CallPolicy:
    return CallPolicy(
        name="spotify",
        rule_pack=None,
        backoff=Backoff.sync(),
        cooldown=None,
        deadline=None,
        max_retry_after=3600,
        reprobe_every=3600,
        cap_notice=True,
        user=lambda key: key,
        probe=None,
        probe_every=10,
    )


def test_keys_that_never_failed_cost_nothing(traced: None) -> None:
    scene = Scene()

    @scene.target.guard(key="user", retry=3)
    def recent(user: int) -> int:
        return user

    recent(0)
    before = held_bytes()
    for user in range(200_000):
        recent(user)
    assert held_bytes() - before < 1000
    assert scene.target.unhealthy() == []


def test_a_key_that_fails_costs_at_most_160_bytes_beside_its_fault_and_its_place(traced: None) -> None:
    clock, many = VirtualClock(), 50_000
    keys, fault, names = KeyRegistry(policy(), clock), CORE["network"].fault("test"), list(range(10**6, 10**6 + many))
    before = tracemalloc.get_traced_memory()[0]
    for name in names:
        clock.advance(0.0001)
        keys.record_failure(Admission(name, "recent"), fault, 0.5)
    used = tracemalloc.get_traced_memory()[0] - before - sys.getsizeof(keys.states)

    assert len(keys.states) == many
    assert used / many <= 160


@pytest.mark.alone
def test_recording_a_failure_costs_the_same_however_many_keys_fail() -> None:
    clock = VirtualClock()
    keys, fault = KeyRegistry(policy(), clock), CORE["network"].fault("test")

    def record(names: range) -> float:
        started = time.process_time()
        for name in names:
            keys.record_failure(Admission(name, "recent"), fault, 0.5)
        return time.process_time() - started

    few = record(range(20_000))
    record(range(20_000, 180_000))
    assert record(range(180_000, 200_000)) < 5 * few + 0.1


def test_a_run_that_nobody_goes_on_with_is_forgotten_after_a_day() -> None:
    scene = Scene()
    for key in range(10):
        scene.fail(ConnectionError(), key=key)
    scene.clock.advance(DAY + 60)

    assert scene.target.unhealthy() == []


def test_idle_keys_go_while_others_keep_failing() -> None:
    clock = VirtualClock()
    keys, fault = KeyRegistry(policy(), clock), CORE["network"].fault("test")
    for day in range(20):
        for name in range(300):
            keys.record_failure(Admission((day, name), "recent"), fault, 0.5)
        clock.advance(DAY)
    assert len(keys.states) < 1000


def test_what_people_were_told_of_is_remembered_for_a_week_and_what_only_they_can_end_for_good() -> None:
    clock = VirtualClock()
    keys = KeyRegistry(policy(), clock)
    keys.record_failure(Admission("quota", "recent"), CORE["quota_exhausted"].fault("test"), 0.5)
    keys.record_failure(Admission("credentials", "recent"), CORE["unauthorized"].fault("test"), 0.5)
    keys.record_failure(Admission("operation", "recent"), CORE["not_supported"].fault("test"), 0.5)
    clock.advance(6 * DAY)
    assert {key for key, _, _ in keys.unhealthy()} == {"quota", "credentials", "operation"}
    clock.advance(2 * DAY)
    assert {key for key, _, _ in keys.unhealthy()} == {"credentials"}
