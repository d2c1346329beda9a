"""The room at a target, rule by rule."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tidegate.guard.capacity import (
    CapacityLimits,
    FillLevel,
    PendingSend,
    QueueDepth,
    SendAllowance,
    depth_failed,
    depth_observed,
    depth_requested,
    own_sends,
    record_claims,
    record_settled,
    send_allowance,
)

LIMITS = CapacityLimits(cap=4, own=900.0, every=30.0)


def seen(depth: int | None = 1, **given: Any) -> FillLevel:
    return FillLevel(**{"depth": depth, "at": 100.0, "fresh": True, **given})


SENDS = (PendingSend(1, 100.0), PendingSend(2, 110.0, done=True), PendingSend(3, 105.0))


@pytest.mark.parametrize(
    ("filling", "now", "cycle", "expected"),
    [
        (seen(), 110.0, 0.0, SendAllowance(3)),
        (seen(own=SENDS[:2]), 110.0, 0.0, SendAllowance(1)),
        (seen(own=SENDS), 110.0, 0.0, SendAllowance(until=130.0)),
        (seen(own=SENDS, spent=True), 110.0, 0.0, SendAllowance(ask=True)),
        (seen(9), 110.0, 0.0, SendAllowance(until=130.0)),
        (seen(None), 110.0, 0.0, SendAllowance(ask=True)),
        (seen(fresh=False), 110.0, 0.0, SendAllowance(ask=True)),
        (seen(), 100.0, 0.0, SendAllowance(3)),
        (seen(), 99.9, 0.0, SendAllowance(ask=True)),
        (seen(), 129.9, 0.0, SendAllowance(3)),
        (seen(), 130.0, 0.0, SendAllowance(ask=True)),
        (seen(), 110.0, 100.0, SendAllowance(3)),
        (seen(), 110.0, 100.1, SendAllowance(ask=True)),
        (seen(asking="w", asking_until=115.0), 114.9, 0.0, SendAllowance(until=115.0)),
        (seen(asking="w", asking_until=115.0), 115.0, 0.0, SendAllowance(3)),
        (seen(asking="w", asking_until=115.0), 105.0, 0.0, SendAllowance(until=115.0)),
        (seen(asking="w", asking_until=115.0), 104.9, 0.0, SendAllowance(3)),
        (seen(failures=1, failed_at=104.0, retry_at=112.0), 111.9, 0.0, SendAllowance(until=112.0)),
        (seen(failures=1, failed_at=104.0, retry_at=112.0), 112.0, 0.0, SendAllowance(3)),
        (seen(failures=1, failed_at=104.0, retry_at=112.0), 104.0, 0.0, SendAllowance(until=112.0)),
        (seen(failures=1, failed_at=104.0, retry_at=112.0), 103.9, 0.0, SendAllowance(3)),
        (seen(failures=1, failed_at=104.0, retry_at=112.0), 110.0, 104.0, SendAllowance(until=112.0)),
        (seen(failures=1, failed_at=104.0, retry_at=112.0), 110.0, 105.0, SendAllowance(ask=True)),
    ],
)
def test_what_may_be_sent_now_or_who_must_ask_or_when_to_look_again(
    filling: FillLevel, now: float, cycle: float, expected: SendAllowance
) -> None:
    assert send_allowance(filling, LIMITS, now, cycle) == expected


def test_without_a_cycle_the_oldest_observation_counts() -> None:
    assert send_allowance(FillLevel(depth=1, at=0.5, fresh=True), LIMITS, 1.0) == SendAllowance(3)


def test_a_send_of_our_own_counts_for_its_time_and_no_longer() -> None:
    filling = seen(own=SENDS)
    assert own_sends(filling, LIMITS, 999.9) == SENDS
    assert own_sends(filling, LIMITS, 1000.0) == SENDS[1:]


def test_who_asks_keeps_others_from_asking_for_ten_seconds() -> None:
    assert depth_requested(seen(), "w", 110.0) == seen(asking="w", asking_until=120.0)


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (QueueDepth(1), [2, 1, 3]),
        (QueueDepth(2), [1, 3]),
        (QueueDepth(3), [3]),
        (QueueDepth(9), []),
        (QueueDepth(0), [2, 1, 3]),
        (QueueDepth(9, landed=[]), [2, 1, 3]),
        (QueueDepth(9, landed=[1, 2]), [3]),
    ],
)
def test_what_has_become_visible_counts_no_more_the_accepted_first_then_the_oldest(
    answer: QueueDepth, kept: list[int]
) -> None:
    asking = seen(own=SENDS, spent=True, failures=2, failed_at=1.0, retry_at=2.0, asking="w", asking_until=120.0)
    found = depth_observed(asking, LIMITS, "w", answer, 115.0)
    assert [send.job for send in found.own] == kept
    assert found == FillLevel(depth=answer.total, at=115.0, fresh=True, own=found.own)


def test_the_first_answer_shows_nothing_of_our_own_and_a_late_one_changes_nothing() -> None:
    asking = replace(seen(None), own=SENDS, asking="w", asking_until=120.0)
    assert len(depth_observed(asking, LIMITS, "w", QueueDepth(9), 115.0).own) == 3
    assert depth_observed(asking, LIMITS, "other", QueueDepth(9), 115.0) is asking
    assert depth_failed(asking, LIMITS, "other", 115.0) is asking


@pytest.mark.parametrize(("failures", "wait"), [(0, 5.0), (1, 10.0), (2, 20.0), (3, 30.0), (10_000, 30.0)])
def test_a_question_without_an_answer_is_asked_again_later_and_later(failures: int, wait: float) -> None:
    asking = seen(own=SENDS, asking="w", asking_until=120.0, failures=failures)
    assert depth_failed(asking, LIMITS, "w", 115.0) == seen(
        own=SENDS, fresh=False, failures=failures + 1, failed_at=115.0, retry_at=115.0 + wait
    )


def test_the_ladder_of_questions_ends_at_a_step_that_can_be_counted() -> None:
    slow = replace(LIMITS, every=1e9)
    waits = [depth_failed(seen(asking="w", failures=n), slow, "w", 0.0).retry_at for n in (15, 16, 17, 5000)]
    assert waits == [5.0 * 2**15, 5.0 * 2**16, 5.0 * 2**16, 5.0 * 2**16]


def test_claims_are_sends_and_those_whose_time_is_over_go() -> None:
    found = record_claims(seen(own=SENDS), LIMITS, [3, 4], 1000.0)
    assert found == seen(own=(SENDS[1], PendingSend(3, 1000.0), PendingSend(4, 1000.0)), spent=True)
    assert record_claims(found, LIMITS, [], 1000.0) is found


@pytest.mark.parametrize(("each", "fresh"), [(True, False), (False, True)])
def test_what_was_accepted_is_counted_from_now_and_what_was_not_takes_no_place(each: bool, fresh: bool) -> None:
    limits = replace(LIMITS, each=each)
    found = record_settled(seen(own=SENDS), limits, [(1, True), (3, False), (77, True)], 120.0)
    assert found == seen(own=(PendingSend(1, 120.0, done=True), SENDS[1]), fresh=fresh)
    assert record_settled(seen(own=SENDS), limits, [(3, False)], 120.0) == seen(own=SENDS[:2])
    assert record_settled(seen(fresh=False), limits, [(3, False)], 120.0).fresh is False


def test_what_the_store_keeps_is_this_document_and_an_empty_one_is_nothing_known() -> None:
    filling = seen(own=SENDS[1:2], spent=True, asking="w", asking_until=120.0, failures=2, failed_at=3.0, retry_at=4.0)
    assert json.loads(filling.dump()) == {
        "depth": 1, "at": 100.0, "fresh": True, "spent": True, "asking": "w", "asking_until": 120.0, "failures": 2,
        "failed_at": 3.0, "retry_at": 4.0, "own": [[2, 110.0, True]],
    }  # fmt: skip
    assert FillLevel.load(filling.dump()) == filling
    assert FillLevel.load(None) == FillLevel.load("{}") == FillLevel()
