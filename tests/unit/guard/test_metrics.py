"""What Prometheus reads of breakers: exact names, from the start, and counters that never go back."""

from __future__ import annotations

import gc
import itertools
import logging
import threading
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.unit.guard.forms import Clock, Down, play
from tidegate import Breaker, sinks

MOVES = [
    ("closed", "open"),
    ("half-open", "closed"),
    ("half-open", "open"),
    ("open", "closed"),
    ("open", "half-open"),
]
_names = (f"metrics-{number}" for number in itertools.count())


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    sinks(metrics=registry)
    return registry


@pytest.fixture
def name() -> str:
    return next(_names)


class Scrape:
    """The samples of one name, read once."""

    def __init__(self, registry: CollectorRegistry, name: str) -> None:
        self.samples = {
            (sample.name, *(value for label, value in sorted(sample.labels.items()) if label != "name")): sample.value
            for family in registry.collect()
            for sample in family.samples
            if sample.labels.get("name") == name
        }

    def state(self) -> float:
        return self.samples["circuit_breaker_state",]

    @property
    def run(self) -> float:
        return self.samples["circuit_breaker_consecutive_failures",]

    def results(self) -> tuple[float, ...]:
        names = ("success", "failure", "rejected")
        return tuple(self.samples["circuit_breaker_requests_total", result] for result in names)

    def moves(self, old: str, new: str) -> float:
        return self.samples["circuit_breaker_state_transitions_total", old, new]

    @property
    def counters(self) -> dict[tuple[str, ...], float]:
        return {key: value for key, value in self.samples.items() if key[0].endswith("_total")}


@pytest.mark.req("BRK-08")
def test_all_series_are_there_at_zero_from_construction(registry: CollectorRegistry, name: str) -> None:
    breaker = Breaker(name, clock=Clock())
    text = generate_latest(registry).decode()
    lines = {line for line in text.splitlines() if f'name="{name}"' in line}
    assert lines == {
        f'circuit_breaker_state{{name="{name}"}} 0.0',
        f'circuit_breaker_consecutive_failures{{name="{name}"}} 0.0',
        *(f'circuit_breaker_requests_total{{name="{name}",result="{result}"}} 0.0'
          for result in ("success", "failure", "rejected")),
        *(f'circuit_breaker_state_transitions_total{{from_state="{old}",name="{name}",to_state="{new}"}} 0.0'
          for old, new in MOVES),
    }  # fmt: skip
    for family, kind in (
        ("circuit_breaker_state", "gauge"),
        ("circuit_breaker_consecutive_failures", "gauge"),
        ("circuit_breaker_requests_total", "counter"),
        ("circuit_breaker_state_transitions_total", "counter"),
    ):
        assert f"# TYPE {family} {kind}" in text
    assert breaker.state == "closed"


@pytest.mark.req("BRK-08")
def test_results_are_counted_by_kind_and_both_refusals_are_rejected(registry: CollectorRegistry, name: str) -> None:
    clock = Clock()
    breaker = Breaker(name, consecutive=2, max_requests=1, clock=clock)
    play(breaker, "SSSFF" + "SS")  # two are refused: open
    clock.now = 120.0
    probe = breaker.allow()
    play(breaker, "S")  # one is refused: too many
    breaker.allow()  # and one more
    assert Scrape(registry, name).results() == (3, 2, 4)
    assert probe is not None
    probe.done(True)
    scrape = Scrape(registry, name)
    assert scrape.results() == (4, 2, 4)
    assert scrape.state() == 0
    assert {move: scrape.moves(*move) for move in MOVES} == {
        ("closed", "open"): 1,
        ("open", "half-open"): 1,
        ("half-open", "closed"): 1,
        ("half-open", "open"): 0,
        ("open", "closed"): 0,
    }


@pytest.mark.req("BRK-08")
@pytest.mark.parametrize(("now", "state", "moved"), [(119.0, 2, 0), (120.0, 1, 1), (86400.0, 1, 1)])
def test_an_idle_open_breaker_is_shown_as_what_it_is(
    registry: CollectorRegistry, name: str, now: float, state: int, moved: int
) -> None:
    clock = Clock()
    breaker = Breaker(name, consecutive=1, clock=clock)
    play(breaker, "F")
    clock.now = now
    scrape = Scrape(registry, name)
    assert scrape.state() == state
    assert scrape.moves("open", "half-open") == moved


@pytest.mark.req("BRK-08")
def test_failures_in_a_row_keep_their_last_value_while_open(registry: CollectorRegistry, name: str) -> None:
    clock = Clock()
    breaker = Breaker(name, consecutive=3, clock=clock)
    seen = []
    for script, now in (("F", 0), ("F", 0), ("S", 0), ("FFF", 0), ("S", 50), ("", 120), ("SSS", 120), ("F", 130)):
        clock.now = now
        play(breaker, script)
        seen.append(Scrape(registry, name).run)
    assert seen == [1, 2, 0, 3, 3, 3, 0, 1]


@pytest.mark.req("BRK-08")
def test_failures_in_a_row_do_not_end_with_the_interval(registry: CollectorRegistry, name: str) -> None:
    clock = Clock()
    breaker = Breaker(name, clock=clock)
    play(breaker, "FF")
    clock.now = 60.0
    assert Scrape(registry, name).run == 2
    play(breaker, "F")
    assert Scrape(registry, name).run == 3


@pytest.mark.full
@pytest.mark.req("BRK-08")
def test_counters_survive_intervals_windows_resets_and_late_results(registry: CollectorRegistry, name: str) -> None:
    for window in (None, 60):
        clock = Clock()
        breaker = Breaker(name, window=window, consecutive=4, clock=clock)
        before = Scrape(registry, name).counters
        for step in range(200):
            late = breaker.allow()
            play(breaker, "SFFSF"[step % 5])
            clock.now += 17
            if step % 3 == 0:
                breaker.reset()
            now = Scrape(registry, name).counters
            assert all(now[key] >= before[key] for key in before)
            before = now
            if late is not None:
                late.done(step % 2 == 0)
        assert breaker.totals["success"] + breaker.totals["failure"] >= 350


@pytest.mark.req("BRK-08")
def test_counters_stay_when_a_breaker_goes_and_go_on_when_it_is_made_anew(
    registry: CollectorRegistry, name: str
) -> None:
    clock = Clock()
    first: Breaker | None = Breaker(name, consecutive=2, clock=clock)
    second: Breaker | None = Breaker(name, clock=clock)
    assert first is not None
    assert second is not None
    play(first, "SFF" + "S")
    play(second, "SS")
    scrape = Scrape(registry, name)
    assert scrape.results() == (3, 2, 1)
    assert scrape.state() == 2  # the worst of those that share a name
    del first
    gc.collect()
    scrape = Scrape(registry, name)
    assert scrape.results() == (3, 2, 1)
    assert scrape.moves("closed", "open") == 1
    assert scrape.state() == 0
    del second
    gc.collect()
    scrape = Scrape(registry, name)
    assert scrape.results() == (3, 2, 1)
    assert ("circuit_breaker_state",) not in scrape.samples  # what is gone has no state
    third = Breaker(name, clock=clock)
    play(third, "S")
    assert Scrape(registry, name).results() == (4, 2, 1)


@pytest.mark.req("BRK-08")
def test_counters_never_go_back_while_breakers_in_cycles_come_and_go(registry: CollectorRegistry, name: str) -> None:
    made, stop = 0, threading.Event()
    worst: list[float] = []

    def scraping() -> None:
        before = 0.0
        while not stop.is_set():
            now = Scrape(registry, name).samples.get(("circuit_breaker_requests_total", "success"), before)
            worst.append(now - before)
            before = now

    thread = threading.Thread(target=scraping)
    thread.start()
    try:
        for _ in range(2000):
            holder: dict[str, Any] = {}
            holder["breaker"] = Breaker(name, on_state_change=lambda *move, holder=holder: holder)
            play(holder["breaker"], "S")
            made += 1
    finally:
        stop.set()
        thread.join()
    gc.collect()
    assert min(worst, default=0) >= 0
    assert Scrape(registry, name).results() == (made, 0, 0)


def test_names_made_up_without_end_do_not_pile_up(registry: CollectorRegistry) -> None:
    for number in range(1500):
        play(Breaker(f"endless-{number}", clock=Clock()), "S")
    gc.collect()
    shown = generate_latest(registry).decode().count("endless-")
    assert shown <= 1000 * 8


@pytest.mark.req("BRK-08")
def test_asking_twice_for_the_same_registry_is_harmless(registry: CollectorRegistry, name: str) -> None:
    sinks(metrics=registry)
    sinks(metrics=registry)
    breaker = Breaker(name, clock=Clock())
    play(breaker, "S")
    text = generate_latest(registry).decode()
    assert text.count(f'circuit_breaker_state{{name="{name}"}}') == 1


@pytest.mark.req("BRK-08")
def test_two_registries_are_both_served(registry: CollectorRegistry, name: str) -> None:
    other = CollectorRegistry()
    sinks(metrics=other)
    breaker = Breaker(name, clock=Clock())
    play(breaker, "S")
    assert Scrape(registry, name).results() == Scrape(other, name).results() == (1, 0, 0)


@pytest.mark.req("BRK-08")
def test_a_transition_is_logged_at_info_also_without_a_sink(name: str, caplog: pytest.LogCaptureFixture) -> None:
    breaker = Breaker(name, consecutive=1, clock=Clock())
    with caplog.at_level(logging.INFO, "tidegate.breaker"), pytest.raises(Down):
        breaker.call(_down)
    assert [record.getMessage() for record in caplog.records] == [
        f"breaker_state_changed name={name} from=closed to=open"
    ]
    assert caplog.records[0].levelname == "INFO"


def _down() -> None:
    raise Down


@pytest.mark.req("BRK-08")
def test_an_expired_probe_is_a_failure_in_the_metrics_at_the_next_scrape(
    registry: CollectorRegistry, name: str
) -> None:
    clock = Clock()
    breaker = Breaker(name, consecutive=1, clock=clock)
    play(breaker, "F")
    clock.now = 120.0
    breaker.allow()
    clock.now = 180.0
    scrape = Scrape(registry, name)
    assert (scrape.state(), scrape.results()) == (2, (0, 2, 0))
