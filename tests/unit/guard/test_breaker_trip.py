"""When a closed breaker opens, and what it counts."""

from __future__ import annotations

import pytest

from tests.unit.guard.forms import FORMS, Clock, Down, Form, by_call, play
from tidegate import Breaker
from tidegate.guard import Counts


@pytest.mark.req("BRK-01", "BRK-05")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("script", "state"),
    [
        ("F" * 9, "closed"),  # nine calls are too few
        ("F" * 10, "open"),
        ("SSSS" + "FFFFFF", "open"),  # exactly 60 % of ten
        ("SSSSS" + "FFFFF", "closed"),
        ("FFFFFFF" + "SSS", "closed"),  # 70 % of ten, but no failure has asked since the tenth
        ("FFFFFFF" + "SSS" + "F", "open"),
        ("FFFFFF" + "SSSS", "closed"),
        ("FFFFFF" + "SSSS" + "S" + "F", "closed"),  # 7 of 12
        ("S" * 100 + "F" * 149, "closed"),
        ("S" * 100 + "F" * 150, "open"),
    ],
)
def test_ten_calls_of_which_six_in_ten_failed_open_it_when_a_call_fails(form: Form, script: str, state: str) -> None:
    breaker = Breaker("api", clock=Clock())
    assert play(breaker, script, form) == script
    assert breaker.state == state


@pytest.mark.req("BRK-01")
def test_the_counts_are_cleared_at_each_interval() -> None:
    clock = Clock()
    breaker = Breaker("api", clock=clock)
    play(breaker, "F" * 9)
    clock.now = 59.9
    assert breaker.counts.failures == 9
    clock.now = 60.0
    assert breaker.counts == (0, 0, 0, 0, 0)
    play(breaker, "F" * 9)
    assert breaker.state == "closed"


@pytest.mark.req("BRK-01")
def test_the_interval_tumbles_from_the_call_that_began_it() -> None:
    clock = Clock()
    breaker = Breaker("api", clock=clock)
    clock.now = 100.0
    play(breaker, "FFFFF")  # a new interval: 100 to 160
    clock.now = 159.0
    play(breaker, "FFFFF")
    assert breaker.state == "open"


@pytest.mark.req("BRK-01")
def test_failures_on_both_sides_of_an_interval_are_not_added_up() -> None:
    clock = Clock()
    breaker = Breaker("api", clock=clock)
    clock.now = 59.0
    play(breaker, "F" * 9)
    clock.now = 60.0
    play(breaker, "F" * 9)
    assert breaker.state == "closed"
    assert breaker.counts.failures == 9


@pytest.mark.req("BRK-01")
def test_an_interval_of_zero_never_clears() -> None:
    clock = Clock()
    breaker = Breaker("api", interval=0, clock=clock)
    for _ in range(10):
        play(breaker, "F")
        clock.now += 86400
    assert breaker.transitions["closed", "open"] == 1


@pytest.mark.req("BRK-01")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_so_many_failures_in_a_row_open_it(form: Form) -> None:
    breaker = Breaker("api", consecutive=5, clock=Clock())
    assert play(breaker, "FFFFSFFFFF" + "F", form) == "FFFFSFFFFF" + "O"


@pytest.mark.req("BRK-01")
@pytest.mark.parametrize(
    ("consecutive", "begins", "most"),
    [(5, "FFFFFO", 800), (None, "FFFFFF", 7200)],
    ids=["the run opens it", "the ratio alone never does"],
)
def test_a_day_of_failures_at_five_calls_a_minute(consecutive: int | None, begins: str, most: int) -> None:
    clock = Clock()
    breaker = Breaker("api", consecutive=consecutive, clock=clock)
    seen = ""
    for tick in range(24 * 60 * 5):
        clock.now = tick * 12.0
        seen += play(breaker, "F")
    assert seen.startswith(begins)
    assert seen.count("F") <= most
    assert ("O" in seen) == (consecutive is not None)


@pytest.mark.req("BRK-01")
@pytest.mark.parametrize("lasts", [1.0, 59.0, 60.0, 90.0, 3600.0])
def test_calls_that_hang_longer_than_the_interval_still_open_it(lasts: float) -> None:
    clock = Clock()
    breaker = Breaker("api", consecutive=5, clock=clock)

    def hang() -> None:
        clock.now += lasts
        raise Down

    for _ in range(5):
        assert breaker.state == "closed"
        with pytest.raises(Down):
            breaker.call(hang)
    assert breaker.transitions["closed", "open"] == 1


@pytest.mark.req("BRK-01")
def test_calls_that_overlap_and_outlast_the_interval_still_open_it() -> None:
    clock = Clock()
    breaker = Breaker("api", consecutive=5, clock=clock)
    permits = []
    for _ in range(5):
        permits.append(breaker.allow())
        clock.now += 61
    for permit in permits:
        assert permit is not None
        assert breaker.state == "closed"
        permit.done(False)
    assert breaker.state == "open"


@pytest.mark.req("BRK-01", "BRK-04")
def test_a_success_that_comes_after_its_interval_ends_the_run_and_changes_no_count() -> None:
    clock = Clock()
    breaker = Breaker("api", consecutive=3, clock=clock)
    slow = breaker.allow()
    clock.now = 61
    play(breaker, "FF")
    assert slow is not None
    slow.done(True)
    assert breaker.counts == (2, 0, 2, 0, 2)
    assert breaker.run == 0
    assert play(breaker, "FF") == "FF"
    assert breaker.run == 2
    play(breaker, "F")
    assert breaker.state == "open"


@pytest.mark.req("BRK-04")
def test_a_failure_that_comes_after_its_interval_changes_no_count_and_does_not_ask_the_ratio() -> None:
    clock = Clock()
    breaker = Breaker("api", clock=clock)
    play(breaker, "F" * 8)
    late = [breaker.allow(), breaker.allow()]
    clock.now = 60.0
    for permit in late:
        assert permit is not None
        permit.done(False)
    assert breaker.state == "closed"
    assert breaker.counts == (0, 0, 0, 0, 0)
    assert breaker.totals["failure"] == 10


@pytest.mark.req("BRK-05")
def test_requests_count_when_the_call_begins() -> None:
    breaker = Breaker("api", clock=Clock())
    inside: list[Counts] = []
    breaker.call(lambda: inside.append(breaker.counts))
    assert inside == [(1, 0, 0, 0, 0)]
    assert breaker.counts == (1, 1, 0, 1, 0)


@pytest.mark.req("BRK-05")
@pytest.mark.parametrize(
    ("script", "counts"),
    [
        ("", (0, 0, 0, 0, 0)),
        ("S", (1, 1, 0, 1, 0)),
        ("SS", (2, 2, 0, 2, 0)),
        ("SSF", (3, 2, 1, 0, 1)),
        ("SSFF", (4, 2, 2, 0, 2)),
        ("SSFFS", (5, 3, 2, 1, 0)),
    ],
)
@pytest.mark.parametrize("window", [None, 60], ids=["interval", "window"])
def test_five_counts_can_be_read(script: str, counts: tuple[int, ...], window: int | None) -> None:
    breaker = Breaker("api", window=window, clock=Clock())
    play(breaker, script)
    assert breaker.counts == counts


def test_the_failure_ratio_of_nothing_is_zero() -> None:
    assert Counts(0, 0, 0, 0, 0).failure_ratio == 0.0
    assert Counts(4, 1, 3, 0, 3).failure_ratio == 0.75


@pytest.mark.req("BRK-05")
def test_a_rule_of_ones_own_gets_the_counts_and_takes_the_place_of_the_ratio() -> None:
    seen: list[Counts] = []

    def trip(counts: Counts) -> bool:
        seen.append(counts)
        return counts.failures == 3

    breaker = Breaker("api", trip=trip, min_requests=1, failure_ratio=0.01, clock=Clock())
    assert play(breaker, "SFSFFF") == "SFSFFO"
    assert seen == [(2, 1, 1, 0, 1), (4, 2, 2, 0, 1), (5, 2, 3, 0, 2)]


@pytest.mark.req("BRK-05")
def test_a_rule_of_ones_own_leaves_the_run_its_say() -> None:
    breaker = Breaker("api", trip=lambda counts: False, consecutive=3, clock=Clock())
    assert play(breaker, "F" * 4) == "FFFO"


@pytest.mark.req("BRK-05")
def test_a_rule_of_ones_own_may_ask_the_breaker_and_one_that_raises_says_no(caplog: pytest.LogCaptureFixture) -> None:
    def trip(counts: Counts) -> bool:
        assert breaker.counts == counts
        raise ZeroDivisionError

    breaker = Breaker("api", trip=trip, clock=Clock())
    assert play(breaker, "FFF") == "FFF"
    assert breaker.state == "closed"
    assert "breaker_rule_raised name=api rule=trip" in caplog.messages


@pytest.mark.req("BRK-04", "BRK-05")
def test_what_a_slow_rule_says_holds_only_for_the_counts_that_it_saw() -> None:
    def trip(counts: Counts) -> bool:
        breaker.reset()
        return True

    breaker = Breaker("api", trip=trip, clock=Clock())
    play(breaker, "F")
    assert breaker.state == "closed"


@pytest.mark.req("BRK-01")
@pytest.mark.parametrize(
    ("at", "failures"),
    [(0.0, 9), (59.9, 9), (66.0, 0)],
    ids=["at once", "just inside", "a window and a bucket later"],
)
def test_a_sliding_window_remembers_a_failure_for_its_length(at: float, failures: int) -> None:
    clock = Clock()
    breaker = Breaker("api", window=60, clock=clock)
    play(breaker, "F" * 9)
    clock.now = at
    assert breaker.counts.failures == failures
    play(breaker, "F")
    assert breaker.state == ("open" if failures else "closed")


@pytest.mark.req("BRK-01")
def test_a_sliding_window_sees_failures_on_both_sides_of_a_minute() -> None:
    clock = Clock(55.0)
    breaker = Breaker("api", window="60s", clock=clock)
    play(breaker, "F" * 9)
    clock.now = 65.0
    play(breaker, "F")
    assert breaker.state == "open"


@pytest.mark.req("BRK-01")
def test_every_call_is_in_the_window_for_its_length_and_for_no_more_than_a_tenth_beyond() -> None:
    clock = Clock()
    breaker = Breaker("api", window=60, min_requests=10**6, clock=clock)
    made: list[float] = []
    for tick in range(4000):
        clock.now = tick * 0.7
        counts = breaker.counts
        assert counts.requests >= sum(1 for at in made if clock.now - at < 54)
        assert counts.requests <= sum(1 for at in made if clock.now - at <= 66)
        play(breaker, "SF"[tick % 2])
        made.append(clock.now)
    assert breaker.totals == {"success": 2000, "failure": 2000, "rejected": 0}


@pytest.mark.req("BRK-05")
def test_successes_in_a_row_are_told_across_the_buckets_of_a_window() -> None:
    clock = Clock()
    breaker = Breaker("api", window=60, clock=clock)
    for letter in "SFSSS":
        play(breaker, letter)
        clock.now += 6
    assert breaker.counts == (5, 4, 1, 3, 0)
    play(breaker, "F")
    assert breaker.counts[3:] == (0, 1)


@pytest.mark.req("BRK-01")
def test_a_window_counts_a_result_that_comes_while_its_call_is_inside_it_and_not_later() -> None:
    clock = Clock()
    breaker = Breaker("api", window=60, min_requests=2, failure_ratio=1, clock=clock)
    inside, outside = breaker.allow(), breaker.allow()
    assert inside is not None
    assert outside is not None
    clock.now = 30.0
    assert breaker.counts.requests == 2
    inside.done(None)
    assert breaker.counts.requests == 1
    clock.now = 90.0
    play(breaker, "F")
    outside.done(False)
    assert breaker.state == "closed"
    assert breaker.counts == (1, 0, 1, 0, 1)


@pytest.mark.req("BRK-01")
def test_a_window_opens_on_slow_failures_in_a_row_as_well() -> None:
    clock = Clock()
    breaker = Breaker("api", window=10, consecutive=3, min_requests=100, clock=clock)
    slow = [breaker.allow() for _ in range(3)]
    for permit in slow:
        clock.now += 7
        assert permit is not None
        permit.done(False)
    assert breaker.state == "open"


def test_the_generation_grows_with_every_clearing_and_every_change() -> None:
    clock = Clock()
    breaker = Breaker("api", consecutive=1, clock=clock)
    seen = [breaker.generation]
    clock.now = 60
    seen.append(breaker.generation)
    play(breaker, "F")
    seen.append(breaker.generation)
    clock.now = 180
    seen.append(breaker.generation)
    breaker.reset()
    seen.append(breaker.generation)
    assert seen == [0, 1, 2, 3, 4]


@pytest.mark.req("BRK-01")
@pytest.mark.parametrize(("ratio", "least"), [(0.6, 10), (0.29, 100), (0.7, 10), (1 / 3, 3), (0.01, 10), (1.0, 7)])
def test_no_failure_that_could_trip_is_left_unasked(ratio: float, least: int) -> None:
    for failures in range(1, least + 1):
        breaker = Breaker("api", failure_ratio=ratio, min_requests=least, clock=Clock())
        play(breaker, "S" * (least - failures) + "F" * failures, by_call)
        assert (breaker.state == "open") == (failures / least >= ratio), failures


@pytest.mark.req("BRK-01")
@pytest.mark.parametrize(
    ("ratio", "least", "enough"),
    [(0.6, 10, 6), (0.29, 100, 29), (0.35, 10, 4), (1 / 3, 3, 1), (0.01, 10, 1), (1.0, 7, 7)],
)
def test_the_fewest_failures_that_can_open_it_are_known(ratio: float, least: int, enough: int) -> None:
    assert Breaker("api", failure_ratio=ratio, min_requests=least).policy.enough == enough
