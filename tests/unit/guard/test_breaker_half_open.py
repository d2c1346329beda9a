"""Open and half-open: who may go, what closes it, and results that come late."""

from __future__ import annotations

import asyncio
import math

import pytest

from tests.unit.guard.forms import FORMS, Clock, Down, Form, opened, play
from tidegate import Breaker, BreakerOpen, Held, TooManyRequests
from tidegate.guard import Permit


def must(permit: Permit | None) -> Permit:
    assert permit is not None
    return permit


@pytest.mark.req("BRK-02")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_open_refuses_at_once_and_the_function_is_not_called(form: Form) -> None:
    clock = Clock(10.0)
    breaker = opened(clock)
    clock.now = 129.9
    with pytest.raises(BreakerOpen) as refused:
        form(breaker, AssertionError("it was called"))
    held = refused.value
    assert (held.target, held.key, held.reason) == ("api", None, "breaker")
    assert (held.since, held.until) == (10.0, 130.0)
    assert held.retry_after == pytest.approx(0.1)


@pytest.mark.req("BRK-02", "BRK-03")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_after_the_timeout_the_next_call_finds_it_half_open_and_three_successes_close_it(form: Form) -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 120.0
    assert play(breaker, "S", form) == "S"
    assert breaker.state == "half-open"
    assert breaker.counts == (1, 1, 0, 1, 0)
    assert play(breaker, "S", form) == "S"
    assert breaker.state == "half-open"
    assert play(breaker, "S", form) == "S"
    assert breaker.state == "closed"
    assert breaker.counts == (0, 0, 0, 0, 0)


@pytest.mark.req("BRK-02")
@pytest.mark.parametrize(
    ("now", "state"), [(119.999, "open"), (120.0, "half-open"), (86400.0, "half-open")], ids=["before", "at", "after"]
)
def test_an_idle_breaker_tells_its_true_state(now: float, state: str) -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = now
    assert breaker.state == state
    assert breaker.since == (0.0 if state == "open" else 120.0)
    assert breaker.until == (120.0 if state == "open" else None)
    assert repr(breaker) == f"<Breaker 'api' {state}>"


@pytest.mark.req("BRK-03")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("before", ["", "S", "SS"])
def test_one_failure_while_half_open_opens_it_again_for_the_whole_timeout(form: Form, before: str) -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 150.0
    assert play(breaker, before + "F" + "S", form) == before + "F" + "O"
    clock.now = 269.9
    assert breaker.state == "open"
    clock.now = 270.0
    assert breaker.state == "half-open"


@pytest.mark.req("BRK-03")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("most", [1, 3, 7])
def test_half_open_admits_so_many_and_refuses_one_more_with_an_error_of_its_own(form: Form, most: int) -> None:
    clock = Clock()
    breaker = opened(clock, max_requests=most)
    clock.now = 120.0
    permits = [must(breaker.allow()) for _ in range(most)]
    clock.now = 125.0
    assert breaker.allow() is None
    with pytest.raises(TooManyRequests) as refused:
        form(breaker, AssertionError("it was called"))
    held = refused.value
    assert (held.target, held.reason, held.since, held.until) == ("api", "breaker", 120.0, 180.0)
    assert held.retry_after == 55.0
    for permit in permits:
        assert breaker.state == "half-open"
        permit.done(True)
    assert breaker.state == "closed"


@pytest.mark.req("BRK-03")
def test_permits_are_counted_in_all_not_at_a_time() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 120.0
    hanging = must(breaker.allow())
    assert play(breaker, "SSS") == "SST"
    hanging.done(True)
    assert breaker.state == "closed"


@pytest.mark.req("BRK-04")
@pytest.mark.parametrize("ok", [True, False, None])
def test_a_call_from_before_it_opened_changes_nothing_while_open_half_open_or_closed_again(ok: bool | None) -> None:
    for now, script, state in ((50.0, "", "open"), (120.0, "", "half-open"), (120.0, "SSS", "closed")):
        clock = Clock()
        breaker = Breaker("api", consecutive=2, clock=clock)
        late = must(breaker.allow())
        play(breaker, "FF")
        clock.now = now
        play(breaker, script)
        before = (breaker.state, breaker.counts, breaker.generation, breaker.run)
        late.done(ok)
        assert (breaker.state, breaker.counts, breaker.generation, breaker.run) == before
        assert breaker.state == state


@pytest.mark.req("BRK-04")
@pytest.mark.parametrize("ok", [True, False, None])
def test_a_probe_from_an_earlier_half_open_changes_nothing_in_the_next(ok: bool | None) -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 120.0
    late = must(breaker.allow())
    play(breaker, "F")
    clock.now = 240.0
    play(breaker, "S")
    before = (breaker.state, breaker.counts, breaker.generation)
    late.done(ok)
    assert (breaker.state, breaker.counts, breaker.generation) == before
    assert play(breaker, "SS") == "SS"
    assert breaker.state == "closed"


@pytest.mark.req("BRK-04")
def test_many_late_failures_do_not_open_a_breaker_that_recovered() -> None:
    clock = Clock()
    breaker = Breaker("api", consecutive=2, clock=clock)
    late = [must(breaker.allow()) for _ in range(20)]
    play(breaker, "FF")
    clock.now = 120.0
    play(breaker, "SSS")
    for permit in late:
        permit.done(False)
    assert breaker.state == "closed"
    assert breaker.counts == (0, 0, 0, 0, 0)
    assert breaker.totals == {"success": 3, "failure": 22, "rejected": 0}


@pytest.mark.req("BRK-03", "BRK-05")
def test_an_excluded_probe_gives_its_place_back() -> None:
    clock = Clock()
    breaker = opened(clock, max_requests=1)
    clock.now = 120.0
    for _ in range(100):
        must(breaker.allow()).done(None)
    assert breaker.counts == (0, 0, 0, 0, 0)
    assert play(breaker, "S") == "S"
    assert breaker.state == "closed"


@pytest.mark.req("BRK-03")
@pytest.mark.parametrize("then", [True, False, None])
@pytest.mark.parametrize("asked_before", [False, True], ids=["nobody looked", "somebody looked"])
def test_a_probe_that_hangs_is_a_failure_when_its_time_is_over_whoever_looked(
    then: bool | None, asked_before: bool
) -> None:
    clock = Clock()
    breaker = opened(clock, max_requests=1, permit_timeout=60)
    clock.now = 120.0
    hanging = must(breaker.allow())
    clock.now = 179.9
    assert breaker.state == "half-open"
    clock.now = 180.0
    if asked_before:
        assert breaker.state == "open"
    hanging.done(then)
    assert breaker.state == "open"
    assert breaker.since == 180.0
    assert breaker.until == 300.0
    assert breaker.totals == {"success": 0, "failure": 2, "rejected": 0}


@pytest.mark.req("BRK-03")
def test_hung_probes_never_wedge_it() -> None:
    clock = Clock()
    breaker = opened(clock)
    for _ in range(50):
        clock.now = breaker.until or math.nan
        probes = [breaker.allow() for _ in range(3)]
        assert all(probes)
        assert breaker.allow() is None
        clock.now += 60.0
    assert breaker.totals["failure"] == 1 + 150
    clock.now = 1e6
    assert play(breaker, "SSS") == "SSS"
    assert breaker.state == "closed"


def test_a_probe_that_comes_back_after_its_time_was_counted_once() -> None:
    clock = Clock()
    breaker = opened(clock, permit_timeout=60)
    clock.now = 120.0
    first = must(breaker.allow())
    clock.now = 150.0
    second = must(breaker.allow())
    clock.now = 185.0
    assert breaker.state == "open"
    first.done(True)
    second.done(True)  # its own time was not over when the state changed under it
    assert breaker.totals == {"success": 1, "failure": 2, "rejected": 0}


def test_time_that_passed_unseen_is_told_as_it_happened() -> None:
    clock = Clock()
    moves: list[tuple[str, str]] = []
    breaker = opened(clock, on_state_change=lambda name, old, new: moves.append((old, new)))
    clock.now = 120.0
    breaker.allow()
    clock.now = 1000.0
    assert breaker.state == "half-open"
    assert breaker.since == 300.0
    assert moves == [("closed", "open"), ("open", "half-open"), ("half-open", "open"), ("open", "half-open")]


@pytest.mark.req("BRK-02")
def test_without_a_timeout_only_a_health_probe_ends_the_open_state() -> None:
    clock = Clock()
    breaker = opened(clock, timeout=None)
    clock.now = 1e9
    assert breaker.until is None
    with pytest.raises(BreakerOpen) as refused:
        play_one(breaker)
    assert refused.value.until is None
    assert refused.value.retry_after is None
    assert breaker.half_open() is True
    assert breaker.state == "half-open"
    assert breaker.half_open() is False
    assert play(breaker, "SSS") == "SSS"
    assert breaker.half_open() is False
    assert breaker.state == "closed"


def play_one(breaker: Breaker) -> None:
    breaker.call(lambda: None)


def test_a_clock_that_steps_back_keeps_it_open_and_lets_it_go_on_after() -> None:
    clock = Clock(1000.0)
    breaker = opened(clock)
    clock.now = 500.0
    assert play(breaker, "S") == "O"
    clock.now = 1120.0
    assert play(breaker, "SSS") == "SSS"
    clock.now = 0.0
    assert play(breaker, "FS") == "FO"


async def test_cancelled_probes_of_real_tasks_free_their_places() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 120.0
    started = 0

    @breaker
    async def hang() -> None:
        nonlocal started
        started += 1
        await asyncio.Event().wait()

    for _ in range(10):
        tasks = [asyncio.create_task(hang()) for _ in range(5)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert sorted(type(each).__name__ for each in ended) == ["CancelledError"] * 3 + ["TooManyRequests"] * 2
    assert started == 30
    assert breaker.state == "half-open"
    assert breaker.counts.requests == 0
    assert breaker.totals == {"success": 0, "failure": 1, "rejected": 20}


async def test_a_thousand_tasks_never_have_more_than_three_probes_in_flight() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 120.0
    flying = most = rejected = 0

    async def probe() -> None:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0)
        flying -= 1
        raise Down

    async def client() -> None:
        nonlocal rejected
        for _ in range(100):
            try:
                await breaker.acall(probe)
            except Held:
                rejected += 1
            except Down:
                clock.now += 120.0
            await asyncio.sleep(0)

    await asyncio.gather(*(client() for _ in range(1000)))
    assert most <= 3
    assert breaker.totals["failure"] + rejected == 100_001
    assert breaker.totals["rejected"] == rejected
