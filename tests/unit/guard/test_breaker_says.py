"""What a breaker says of itself at each moment, and what it must not forget or remember on the way."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.text import names
from tests.unit.guard.forms import FORMS, Clock, Down, Form, drive, opened, play
from tidegate import Breaker, BreakerOpen, TooManyRequests


def test_it_is_closed_since_it_was_made() -> None:
    breaker = Breaker("api", clock=Clock(7.0))
    assert (breaker.state, breaker.since, breaker.until, breaker.run) == ("closed", 7.0, None, 0)


def test_the_run_that_opened_it_is_told_until_it_closes_again() -> None:
    clock = Clock()
    breaker = Breaker("api", consecutive=3, clock=clock)
    play(breaker, "FFF")
    assert breaker.run == 3
    clock.now = 120.0
    assert (breaker.state, breaker.run) == ("half-open", 3)
    play(breaker, "F")
    assert (breaker.state, breaker.run) == ("open", 3)
    clock.now = 240.0
    play(breaker, "SSS")
    assert (breaker.state, breaker.run) == ("closed", 0)


def test_each_interval_is_one_generation() -> None:
    clock = Clock()
    breaker = Breaker("api", clock=clock)
    for number in range(4):
        clock.now = 60.0 * number
        assert breaker.generation == number


def test_forced_closed_lasts_to_its_end_however_many_intervals_that_are() -> None:
    clock = Clock()
    breaker = Breaker("api", interval=60, consecutive=1, clock=clock)
    breaker.force("closed", 600.0)
    for clock.now in (59.0, 60.0, 121.0, 599.0):
        play(breaker, "FF")
        assert breaker.state == "closed"
    clock.now = 600.0
    play(breaker, "F")
    assert breaker.state == "open"


def test_failures_of_calls_from_before_the_window_do_not_open_it() -> None:
    clock = Clock()
    breaker = Breaker("api", window=10, min_requests=2, clock=clock)
    early = [breaker.allow(), breaker.allow()]
    clock.now = 1.5
    between = breaker.allow()
    assert between is not None
    between.done(None)
    clock.now = 30.0
    for permit in early:
        assert permit is not None
        permit.done(False)
    assert (breaker.state, breaker.counts) == ("closed", (0, 0, 0, 0, 0))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_call_at_the_very_end_of_an_interval_belongs_to_the_next(form: Form) -> None:
    clock = Clock()
    breaker = Breaker("api", clock=clock)
    play(breaker, "FFFFF", form)
    clock.now = 60.0
    play(breaker, "F", form)
    assert breaker.counts == (1, 0, 1, 0, 1)


def test_what_a_call_is_given_reaches_the_function_in_every_form() -> None:
    breaker = Breaker("api", clock=Clock())

    def plain(*args: Any, **named: Any) -> Any:
        return args, named

    async def waiting(*args: Any, **named: Any) -> Any:
        return args, named

    given = (1, 2), {"x": 3}
    assert breaker.call(plain, 1, 2, x=3) == given
    assert drive(breaker.acall(waiting, 1, 2, x=3)) == given
    assert breaker(plain)(1, 2, x=3) == given
    assert drive(breaker(waiting)(1, 2, x=3)) == given


def test_a_failure_from_an_earlier_interval_completes_the_run_of_this_one() -> None:
    clock = Clock()
    breaker = Breaker("api", consecutive=3, clock=clock)
    slow = breaker.enter()
    clock.now = 61.0
    play(breaker, "FF")
    breaker.left(slow, Down())
    assert (breaker.state, breaker.run) == ("open", 3)


def test_a_late_success_from_an_earlier_interval_ends_the_run_and_a_new_one_counts() -> None:
    clock = Clock()
    breaker = Breaker("api", consecutive=2, clock=clock)
    slow = breaker.enter()
    clock.now = 61.0
    play(breaker, "F")
    slow.ok()
    play(breaker, "F")
    assert (breaker.state, breaker.run) == ("closed", 1)
    play(breaker, "F")
    assert (breaker.state, breaker.run) == ("open", 2)


def test_failures_from_an_earlier_interval_begin_a_run_after_a_success_of_this_one() -> None:
    clock = Clock()
    breaker = Breaker("api", consecutive=2, clock=clock)
    slow = [breaker.enter(), breaker.enter()]
    clock.now = 61.0
    play(breaker, "FS")
    assert breaker.run == 0
    breaker.left(slow[0], Down())
    assert (breaker.state, breaker.run) == ("closed", 1)
    breaker.left(slow[1], Down())
    assert (breaker.state, breaker.run) == ("open", 2)


def test_every_call_that_proved_nothing_is_taken_out_of_the_counts() -> None:
    breaker = Breaker("api", counts_as_failure=lambda error: None, clock=Clock())
    play(breaker, "FFF")
    assert breaker.counts == (0, 0, 0, 0, 0)


def test_half_open_by_a_probe_begins_when_the_probe_answered() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 50.0
    assert breaker.half_open() is True
    assert (breaker.state, breaker.since, breaker.until) == ("half-open", 50.0, None)
    assert breaker.half_open() is False


def test_its_times_are_told_on_the_clock_that_people_read() -> None:
    clock = Clock(100.0)
    breaker = Breaker("api", consecutive=1, timeout=30, clock=clock)
    breaker.read_on(lambda: 1.7e9 + clock.now)
    play(breaker, "F")
    with pytest.raises(BreakerOpen) as refused:
        breaker.call(int)
    assert (refused.value.since, refused.value.until, refused.value.retry_after) == (1.7e9 + 100, 1.7e9 + 130, 30.0)
    assert breaker.until == 130.0
    breaker.force("open", 1.7e9 + 160)
    assert breaker.until == 160.0


def test_who_comes_while_every_permit_is_out_is_told_when_the_first_expires_as_people_read_it() -> None:
    clock = Clock(100.0)
    breaker = opened(clock, timeout=30, permit_timeout=20)
    breaker.read_on(lambda: 1.7e9 + clock.now)
    for clock.now in (130.0, 131.0, 132.0):
        assert breaker.allow() is not None
    clock.now = 135.0
    with pytest.raises(TooManyRequests) as refused:
        breaker.call(int)
    held = refused.value
    assert (held.target, held.key, held.reason) == ("api", None, "breaker")
    assert (held.since, held.until, held.retry_after) == (1.7e9 + 130, 1.7e9 + 150, 15.0)


def test_who_finds_that_a_permit_has_expired_is_told_that_it_is_open() -> None:
    clock = Clock()
    breaker = opened(clock, timeout=30, permit_timeout=20)
    clock.now = 30.0
    assert breaker.allow() is not None
    clock.now = 60.0  # the permit expired at 50, and that was a failure
    with pytest.raises(BreakerOpen) as refused:
        breaker.call(int)
    held = refused.value
    assert (held.target, held.key, held.reason) == ("api", None, "breaker")
    assert (held.since, held.until, held.retry_after) == (50.0, 80.0, 20.0)


def test_totals_add_up_all_buckets_of_the_window_and_what_came_late() -> None:
    clock = Clock()
    breaker = Breaker("api", window=10, min_requests=100, clock=clock)
    slow = breaker.enter()
    for clock.now in (0.5, 2.5, 4.5):
        play(breaker, "SSF")
    assert breaker.totals == {"success": 6, "failure": 3, "rejected": 0}
    for clock.now in (50.0, 70.0):
        assert breaker.totals == {"success": 6, "failure": 3, "rejected": 0}
    slow.ok()
    assert breaker.totals == {"success": 7, "failure": 3, "rejected": 0}


def test_without_a_rule_of_ones_own_every_error_is_a_failure_and_a_stop_is_none() -> None:
    judge = Breaker("api", clock=Clock()).policy.judge
    assert judge(Down()) is True
    assert judge(KeyboardInterrupt()) is None


def test_what_is_as_old_as_the_window_is_no_longer_in_it() -> None:
    clock = Clock()
    breaker = Breaker("api", window=10, clock=clock)
    play(breaker, "F")
    clock.now = 1.0
    play(breaker, "S")
    clock.now = 10.0
    assert breaker.counts == (1, 1, 0, 1, 0)


def test_a_coroutine_that_comes_out_of_a_plain_call_is_refused_in_a_whole_sentence() -> None:
    async def waiting() -> None: ...

    sentence = "call: the function is async def, and nothing of it has run; use `await breaker.acall(...)`"
    with pytest.raises(TypeError) as refused:
        Breaker("api", clock=Clock()).call(waiting)  # type: ignore[unused-coroutine]
    assert str(refused.value) == sentence


def test_a_plain_function_in_an_awaited_call_is_refused_in_a_whole_sentence_and_no_failure_of_the_service() -> None:
    breaker = Breaker("api", consecutive=1, clock=Clock())
    plain: Any = int
    with pytest.raises(TypeError) as refused:
        asyncio.run(breaker.acall(plain))
    assert names(str(refused.value), "acall: ", "`breaker.call(...)`")
    assert (breaker.state, breaker.counts) == ("closed", (0, 0, 0, 0, 0))


def test_what_is_no_coroutine_and_can_be_awaited_all_the_same_is_awaited() -> None:
    async def main() -> None:
        ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        ready.set_result(3)
        assert await Breaker("api", clock=Clock()).acall(lambda: ready) == 3

    asyncio.run(main())


def test_a_function_may_have_parameters_called_like_those_of_the_call() -> None:
    def named(**given: int) -> dict[str, int]:
        return given

    async def anamed(**given: int) -> dict[str, int]:
        return given

    breaker = Breaker("api", clock=Clock())
    assert breaker.call(named, fn=1, self=2) == {"fn": 1, "self": 2}
    assert asyncio.run(breaker.acall(anamed, fn=1, self=2)) == {"fn": 1, "self": 2}


def test_a_decorator_around_no_function_is_refused() -> None:
    nothing: Any = 3
    with pytest.raises(TypeError, match=r"\b3\b"):
        Breaker("api", clock=Clock())(nothing)


def test_it_is_forced_until_a_date() -> None:
    clock = Clock()
    breaker = Breaker("api", clock=clock)
    breaker.force("open", datetime.fromtimestamp(600, UTC))
    assert breaker.until == 600.0
