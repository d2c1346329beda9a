"""What a breaker says of itself at each moment, and what it must not forget or remember on the way."""

from __future__ import annotations

from tests.unit.machine.forms import Clock, play
from tidegate import Breaker


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
