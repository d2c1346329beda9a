"""Verdicts in doubt: what counts as a sighting, and when it is believed."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.faults import Confirm
from tidegate.faults.codes import CORE
from tidegate.guard.confirmation import ConfirmationTracker

UNAUTHORIZED = CORE["unauthorized"].fault("test", status=401, detail="said no")
FORBIDDEN = CORE["forbidden"].fault("test")


class Seen:
    """A doubt with one policy, asked at chosen moments."""

    def __init__(self, code: str = "unauthorized", **fields: Any) -> None:
        self.policy = Confirm(code, **fields)
        self.doubt = ConfirmationTracker([self.policy], CORE)
        self.fault = CORE[code].fault("test", status=401, detail="said no")

    def at(self, now: float, key: int = 7, operation: str | None = "recent", *, worked: bool = False) -> str:
        found = self.doubt.judged(self.policy, key, operation, self.fault, now, worked=worked)
        return "good" if found is None else found.code

    def success(self, now: float, key: int = 7, operation: str | None = "recent") -> None:
        self.doubt.record_success(key, operation, now)


def test_it_is_believed_from_the_sighting_that_makes_the_number_on() -> None:
    seen = Seen(times=2, apart="30s")

    assert [seen.at(now) for now in (0, 30, 31)] == ["upstream_failure", "unauthorized", "unauthorized"]


def test_sightings_too_close_together_are_one() -> None:
    seen = Seen(times=3, apart="30s")

    assert [seen.at(now) for now in (0, 10, 29, 30, 59, 60)] == ["upstream_failure"] * 5 + ["unauthorized"]


def test_it_is_treated_as_until_then_and_becomes_what_it_is_told_to() -> None:
    seen = Seen(times=2, apart=0, until_then="overloaded", becomes="misconfigured")

    assert [seen.at(0), seen.at(1)] == ["overloaded", "misconfigured"]


def test_it_can_turn_out_to_be_a_good_answer_and_stays_one_until_something_else_is_said() -> None:
    seen = Seen(times=2, apart=0, good=True)

    assert [seen.at(now) for now in (0, 1, 2)] == ["upstream_failure", "good", "good"]
    seen.success(3)
    assert seen.at(4) == "upstream_failure"


def test_a_success_of_the_same_key_ends_the_count_and_one_of_another_does_not() -> None:
    seen = Seen(times=2, apart=0)
    seen.at(0)
    seen.success(1, key=8)
    assert seen.at(2) == "unauthorized"
    seen.success(3)
    assert seen.at(4) == "upstream_failure"


@pytest.mark.parametrize("code", ["forbidden", "bad_request"])
def test_a_code_that_reaches_no_further_than_one_operation_is_counted_for_each_operation(code: str) -> None:
    seen = Seen(code, times=2, apart=0)

    assert [seen.at(0, operation="a"), seen.at(1, operation="b"), seen.at(2, operation="a")] == [
        "upstream_failure", "upstream_failure", code,
    ]  # fmt: skip
    seen.success(3, operation="a")
    assert seen.at(4, operation="b") == code


def test_a_target_that_ever_worked_keeps_the_milder_verdict_for_good() -> None:
    seen = Seen(times=1, unless_worked=True)

    assert [seen.at(now, worked=True) for now in (0, 100, 200)] == ["upstream_failure"] * 3
    assert seen.at(300, worked=False) == "unauthorized"


def test_only_what_worked_before_is_doubted() -> None:
    seen = Seen(times=2, apart=0, only_worked=True)

    assert seen.at(0) == "unauthorized"
    seen.success(1)
    assert [seen.at(2), seen.at(3)] == ["upstream_failure", "unauthorized"]
    assert seen.at(4, operation="another") == "unauthorized"
    assert seen.doubt.tracks_success


def test_many_keys_that_say_the_same_mean_that_the_service_is_at_fault() -> None:
    seen = Seen(times=1, fewer_than=3, within="5m")

    assert [seen.at(0, key=1), seen.at(1, key=2), seen.at(2, key=3), seen.at(3, key=1)] == [
        "unauthorized", "unauthorized", "upstream_failure", "upstream_failure",
    ]  # fmt: skip
    assert seen.at(400, key=4) == "unauthorized", "the others said so more than five minutes ago"


def test_keys_count_by_when_they_last_said_it_not_by_when_it_counted() -> None:
    seen = Seen(times=1, fewer_than=3, within="5m", apart="1h")
    for key in (1, 2):
        seen.at(0, key=key)
        seen.at(900, key=key)

    assert seen.at(901, key=3) == "upstream_failure"


def test_a_reconnect_forgets_all_of_its_key_and_nothing_else() -> None:
    seen = Seen(times=2, apart=0)
    seen.at(0, key=7)
    seen.at(0, key=8)
    seen.doubt.forget(7)

    assert [seen.at(1, key=7), seen.at(1, key=8)] == ["upstream_failure", "unauthorized"]


def test_what_was_not_seen_for_a_day_is_forgotten() -> None:
    seen = Seen(times=2, apart=0)
    seen.at(0)
    seen.success(86_401, key=8)

    assert not seen.doubt.waiting
    assert seen.at(86_402) == "upstream_failure"


def test_the_verdict_keeps_status_and_detail_and_says_that_it_is_in_doubt() -> None:
    doubted = ConfirmationTracker([Confirm("unauthorized")], CORE)
    found = doubted.unconfirmed(Confirm("unauthorized"), UNAUTHORIZED)

    assert (found.status, found.detail, found.rule) == (401, "said no", "test (unconfirmed)")


def test_what_is_believed_as_another_code_says_so_and_keeps_what_the_service_asked_for() -> None:
    policy = Confirm("unauthorized", becomes="misconfigured")
    doubted = ConfirmationTracker([policy], CORE)
    asked = CORE["unauthorized"].fault("test", status=401, retry_after=9.0)
    found = doubted.confirmed(policy, asked)

    assert found is not None
    assert (found.code, found.rule, found.retry_after) == ("misconfigured", "test (confirmed)", 9.0)
    assert doubted.unconfirmed(policy, asked).retry_after == 9.0


@pytest.mark.parametrize(
    "wrong", [{"code": "odd"}, {"code": "gone", "becomes": "odd"}, {"code": "gone", "until_then": "odd"}]
)
def test_a_code_that_is_in_no_book_is_refused_by_its_name(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"^confirm: .*'odd'"):
        ConfirmationTracker([Confirm(**wrong)], CORE)  # type: ignore[arg-type]


def test_without_policies_there_is_no_doubt() -> None:
    assert not ConfirmationTracker([], CORE)
    doubted = ConfirmationTracker([Confirm("unauthorized")], CORE)
    assert doubted
    assert doubted.policy(UNAUTHORIZED) == Confirm("unauthorized")
    assert doubted.policy(FORBIDDEN) is None
    assert not doubted.waiting


def test_something_waits_for_a_success_once_it_was_seen() -> None:
    seen = Seen(times=2, apart=0)
    seen.at(0)
    assert seen.doubt.waiting
    seen.success(1)
    assert not seen.doubt.waiting


def test_a_code_that_reaches_the_whole_key_is_counted_over_all_its_operations() -> None:
    seen = Seen(times=2, apart=0)

    assert [seen.at(0, operation="a"), seen.at(1, operation="b")] == ["upstream_failure", "unauthorized"]


def test_a_success_of_an_operation_ends_what_was_seen_of_that_operation() -> None:
    seen = Seen("forbidden", times=2, apart=0)
    seen.at(0, operation="a")
    seen.success(1, operation="a")

    assert seen.at(2, operation="a") == "upstream_failure"


def test_a_success_is_to_be_told_once_and_again_after_a_reconnect() -> None:
    seen = Seen(times=2, apart=0, only_worked=True)
    assert seen.doubt.must_hear(7, "recent")
    seen.success(0)
    seen.success(0, key=8)
    assert not seen.doubt.must_hear(7, "recent")
    assert seen.doubt.must_hear(7, "another")
    seen.doubt.forget(7)
    assert seen.doubt.must_hear(7, "recent")
    assert not seen.doubt.must_hear(8, "recent")


def test_a_sighting_a_day_old_still_counts_and_one_at_the_edge_of_the_window_too() -> None:
    seen = Seen(times=2, apart=0)
    seen.at(100)
    assert seen.at(86_500) == "unauthorized"
    many = Seen(times=1, fewer_than=2, within="5m")
    many.at(100, key=1)
    assert many.at(400, key=2) == "upstream_failure"


def test_successes_are_remembered_in_a_bounded_number_of_places_the_latest_longest() -> None:
    seen = Seen(times=2, apart=0, only_worked=True)
    for key in range(5000):
        seen.success(0, key=key)
    assert not seen.doubt.must_hear(4999, "recent")
    seen.success(0, key=5000)
    assert seen.doubt.must_hear(4999, "recent"), "from half of the room on, each success decides who is forgotten"
    for key in range(5001, 10_000):
        seen.success(0, key=key)
    seen.success(0, key=0)
    seen.success(0, key=10_000)

    assert [seen.at(1, key=key) for key in (0, 1, 2)] == ["upstream_failure", "unauthorized", "upstream_failure"]


@pytest.mark.parametrize("places", [10_050])
def test_it_remembers_a_bounded_number_of_places(places: int) -> None:
    seen = Seen(times=2, apart=0)
    for key in range(places):
        seen.at(0, key=key)

    assert seen.at(1, key=places - 1) == "unauthorized"
    assert seen.at(1, key=0) == "upstream_failure", "the oldest went first"


def test_it_remembers_ten_thousand_places_and_no_more() -> None:
    seen = Seen(times=2, apart=0)
    for key in range(10_000):
        seen.at(0, key=key)
    assert seen.at(1, key=0) == "unauthorized"
