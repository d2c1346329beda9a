"""Many threads on one breaker: nothing is lost, nothing is admitted twice."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.unit.guard.forms import Clock, Down, answer, opened, play
from tidegate import Breaker, Held
from tidegate.guard import Permit

THREADS = 64


@pytest.fixture(autouse=True)
def threads_that_switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], None], threads: int = THREADS) -> None:
    """Runs work(0..threads-1), all starting at once; what one raises is raised here."""
    start, errors = threading.Barrier(threads), []

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    every = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in every:
        thread.start()
    for thread in every:
        thread.join()
    if errors:
        raise errors[0]


def tally(breaker: Breaker, calls: int, letter_of: Callable[[int, int], str]) -> Counter[str]:
    seen: Counter[str] = Counter()
    lock = threading.Lock()
    guarded = breaker(answer)

    def work(number: int) -> None:
        mine: Counter[str] = Counter()
        for call in range(calls):
            letter = letter_of(number, call)
            try:
                guarded(None if letter == "S" else Down())
                mine["S"] += 1
            except Down:
                mine["F"] += 1
            except Held:
                mine["O"] += 1
        with lock:
            seen.update(mine)

    together(work)
    return seen


def exact_counts(calls: int) -> None:
    breaker = Breaker("threads", min_requests=10**9, interval=0)
    before = breaker.totals
    seen = tally(breaker, calls, lambda number, call: "F" if (number + call) % 3 == 0 else "S")
    counts = breaker.counts
    assert seen.total() == counts.requests == THREADS * calls
    assert (counts.successes, counts.failures) == (seen["S"], seen["F"])
    assert before == {"success": 0, "failure": 0, "rejected": 0}
    assert breaker.totals == {"success": seen["S"], "failure": seen["F"], "rejected": 0}


@pytest.mark.req("BRK-05")
def test_64_threads_are_counted_exactly() -> None:
    exact_counts(1_000)


@pytest.mark.long
@pytest.mark.req("BRK-05")
def test_64_threads_with_10_000_calls_each_are_counted_exactly() -> None:
    exact_counts(10_000)


def exact_totals(calls: int, window: float | None) -> None:
    """Intervals end, the breaker trips and recovers all the time, and no result is lost or counted twice."""
    clock, lock = Clock(), threading.Lock()

    def ticking() -> float:
        with lock:
            clock.now += 0.001
            return clock.now

    breaker = Breaker(
        "threads",
        min_requests=20,
        failure_ratio=0.5,
        interval=0.05,
        timeout=0.01,
        window=window,
        permit_timeout=60,
        clock=ticking,
    )
    seen = tally(breaker, calls, lambda number, call: "F" if call % 50 < 25 else "S")
    assert seen.total() == THREADS * calls
    assert breaker.totals == {"success": seen["S"], "failure": seen["F"], "rejected": seen["O"]}
    assert breaker.transitions["closed", "open"] > 0
    assert breaker.transitions["half-open", "closed"] > 0


@pytest.mark.req("BRK-08")
@pytest.mark.parametrize("window", [None, 0.05], ids=["interval", "window"])
def test_totals_are_exact_while_intervals_end_and_states_change(window: float | None) -> None:
    exact_totals(300, window)


@pytest.mark.long
@pytest.mark.req("BRK-08")
@pytest.mark.parametrize("window", [None, 0.05], ids=["interval", "window"])
def test_totals_are_exact_over_many_changes(window: float | None) -> None:
    exact_totals(10_000, window)


# A call counts as a request from when it is let in. So with every other thread inside, *f* failures are *f* of at most
# f + THREADS requests, and 0.6 of them is reached at 1.5 * THREADS at the latest; a run of ten needs ten.
BY_RATIO, IN_A_ROW = 1.5 * THREADS, 10


@pytest.mark.req("BRK-01")
@pytest.mark.parametrize(
    ("rule", "latest"),
    [({}, BY_RATIO), ({"min_requests": 10**9, "consecutive": 10}, IN_A_ROW)],
    ids=["ratio", "consecutive"],
)
def test_it_trips_once_under_threads_and_then_nobody_gets_through(rule: dict[str, Any], latest: float) -> None:
    breaker = Breaker("threads", clock=Clock(), **rule)
    seen = tally(breaker, 100, lambda number, call: "F")
    assert breaker.state == "open"
    assert breaker.transitions == {("closed", "open"): 1}
    # Those who were inside when it tripped may still finish.
    assert 10 <= seen["F"] <= latest + THREADS
    assert seen["F"] + seen["O"] == THREADS * 100 == breaker.totals["failure"] + breaker.totals["rejected"]
    assert play(breaker, "S") == "O"


@pytest.mark.req("BRK-03")
@pytest.mark.parametrize("most", [1, 3, 10])
def test_half_open_admits_exactly_so_many_of_64_racing_threads(most: int) -> None:
    for round_ in range(10):
        clock = Clock()
        breaker = opened(clock, max_requests=most)
        clock.now = 120.0
        permits: list[Permit | None] = []
        together(lambda number, into=permits, ask=breaker.allow: into.append(ask()))  # type: ignore[misc]
        admitted = [permit for permit in permits if permit is not None]
        assert len(admitted) == most, round_
        for permit in admitted:
            permit.done(True)
        assert breaker.state == "closed"
        assert breaker.totals["rejected"] == THREADS - most


def test_callbacks_from_many_threads_come_one_at_a_time_and_in_order() -> None:
    clock, inside = Clock(), threading.Lock()
    moves: list[tuple[str, str]] = []

    def told(name: str, old: str, new: str) -> None:
        assert inside.acquire(blocking=False), "two callbacks at once"
        moves.append((old, new))
        inside.release()

    breaker = Breaker("threads", consecutive=1, on_state_change=told, clock=clock)

    def work(number: int) -> None:
        for _ in range(50):
            play(breaker, "F")
            breaker.reset()

    together(work, 16)
    assert all(before[1] == after[0] for before, after in pairwise(moves))
    assert len(moves) == sum(breaker.transitions.values())
