"""Breakers of groups, limits and probes of a target."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.guard.scene import Answered, Scene, Stopped, down, held
from tidegate import Breaker, BreakerOpen, Held, Rate, Target, TooManyRequests

# -- breaker and groups ------------------------------------------------------------------------------------------------


def test_a_held_call_says_what_the_breaker_said_in_wall_time_for_its_own_target_and_key() -> None:
    scene = Scene(breaker={"consecutive": 1, "timeout": "2m", "max_requests": 1})
    scene.fail(down())
    scene.clock.advance("60s")
    with pytest.raises(BreakerOpen) as caught:
        scene.call(key=8)
    said = caught.value
    assert (said.target, said.key, said.reason) == ("spotify", 8, "breaker")
    assert said.since == pytest.approx(scene.clock.now() - 60)
    assert said.until == pytest.approx(scene.clock.now() + 60)
    scene.clock.advance("60s")

    def probe() -> None:
        with pytest.raises(TooManyRequests):
            scene.call(key=9)

    scene.target.key(8).call(probe)


def test_a_breaker_of_the_users_own_is_shown_in_wall_time_whatever_its_clock() -> None:
    now = [5.0]
    scene = Scene(breaker=Breaker("mine", consecutive=1, timeout=100, clock=lambda: now[0]))
    scene.fail(down())
    now[0] = 45.0
    with pytest.raises(BreakerOpen) as caught:
        scene.call(key=8)
    hold = scene.target.key(8).explain()[0]
    for said in (caught.value, hold):
        assert said.since == pytest.approx(scene.clock.now() - 40)
        assert said.until == pytest.approx(scene.clock.now() + 60)


def test_each_declared_group_has_one_breaker_and_everything_else_another() -> None:
    groups = {"local": ["queue", "commands"], "metadata": ["lookup"]}
    scene = Scene(name="lidarr", breaker={"consecutive": 1}, groups=groups, backoff=None)
    scene.fail(down(), operation="lookup", key=1)

    states = {group: breaker.state for group, breaker in scene.target.breakers.items()}
    assert states == {None: "closed", "local": "closed", "metadata": "open"}
    assert [breaker.name for breaker in scene.target.breakers.values()] == ["lidarr", "lidarr/local", "lidarr/metadata"]
    assert scene.reason(operation="lookup", key=2) == "breaker"
    assert [scene.reason(operation=name, key=2) for name in ("queue", "commands", "other")] == [None] * 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"groups": {"a": ["x"]}, "breaker": False},
        {"groups": {"a": ["x"], "b": ["x"]}, "breaker": True},
        {"groups": {"a": ["x"]}, "breaker": Breaker("mine")},
    ],
)
def test_groups_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^groups\b"):
        Target("lidarr", **wrong)


@pytest.mark.req("LID-10")
@pytest.mark.parametrize(
    ("error", "state"),
    [(Answered(500), "open"), (Answered(401), "closed"), (Answered(404), "closed"), (Answered(429), "closed"),
     (Stopped(), "closed")],
)  # fmt: skip
def test_only_what_speaks_of_the_whole_service_counts_for_its_breaker(error: BaseException, state: str) -> None:
    scene = Scene(breaker={"consecutive": 5})
    for key in range(5):
        scene.fail(error, key=key)

    assert scene.target.breaker is not None
    assert scene.target.breaker.state == state


def test_a_change_of_the_breaker_is_an_event_and_calls_the_users_own_function_too() -> None:
    told: list[tuple[str, ...]] = []
    scene = Scene(breaker={"consecutive": 1, "on_state_change": lambda *change: told.append(change)})
    scene.fail(down())

    assert scene.events.assert_one("breaker_state_changed").fields == {
        "name": "spotify",
        "from": "closed",
        "to": "open",
    }
    assert told == [("spotify", "closed", "open")]


# -- limits ------------------------------------------------------------------------------------------------------------


def test_concurrency_is_the_targets_and_given_back_however_a_call_ends() -> None:
    scene = Scene(concurrency=1)

    def busy() -> None:
        with held("concurrency") as caught:
            scene.call(key=8)
        assert caught.value.until is None
        assert scene.holds(key=8) == ["concurrency"]

    scene.target.key(7).call(busy)
    for key, outcome in enumerate(["ok", down(), Stopped(), Answered(404), Answered(401)]):
        scene.fail(outcome, key=key)
    assert scene.reason(key=9) is None


def test_after_a_breaker_has_closed_concurrency_climbs_from_one_to_its_limit_in_a_minute() -> None:
    scene = Scene(concurrency=10, breaker={"consecutive": 1, "max_requests": 1, "timeout": "1m"})
    before = scene.room()
    scene.fail(down(), "ok")
    climbed = []
    for _ in range(7):
        climbed.append(scene.room())
        scene.clock.advance("10s")

    assert before == 10
    assert climbed == [1, 2, 4, 5, 7, 9, 10]


@pytest.mark.parametrize(("wait", "outcomes"), [(0, ["ok", "rate", "rate"]), ("1s", ["ok", "ok", "ok"])])
def test_a_call_waits_for_the_rate_as_long_as_it_may(wait: Any, outcomes: list[str]) -> None:
    scene = Scene(rate=Rate(2, "1s"), wait=wait)

    found = [scene.reason() or "ok" for _ in range(3)]
    assert found == outcomes
    assert scene.clock.monotonic() == (0 if wait == 0 else pytest.approx(1.0))


def test_who_may_not_wait_so_long_is_told_when() -> None:
    scene = Scene(rate=Rate(1, "10s"), wait="1s")
    scene.call()
    with held("rate") as caught:
        scene.call()
    assert caught.value.retry_after == pytest.approx(10)
    assert scene.holds() == ["rate"]
    scene.clock.advance("9s")
    assert scene.holds() == []


# -- the health probe of an open breaker -------------------------------------------------------------------------------


class Health:
    def __init__(self, *, colour: str = "def") -> None:
        self.asked, self.error, self.takes = 0, down() if colour else None, 0.0
        self.probe: Any = self._ask if colour == "def" else self._aask

    def _ask(self) -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error

    async def _aask(self) -> None:
        self.asked += 1
        await asyncio.sleep(self.takes)
        if self.error is not None:
            raise self.error


@pytest.mark.req("CNV-08")
@pytest.mark.parametrize("colour", ["def", "async def"])
def test_with_a_probe_open_ends_by_the_probe_only_at_most_once_per_interval_and_never_closed(colour: str) -> None:
    health = Health(colour=colour)
    scene = Scene(breaker={"consecutive": 1, "max_requests": 2}, probe=health.probe, probe_every="10s")
    assert scene.target.breaker is not None
    breaker = scene.target.breaker

    async def recent() -> str:
        return "ok"

    def call() -> str:
        try:
            if colour == "def":
                return str(scene.call(key=8))
            return scene.clock.run(scene.target.key(8).acall(recent))
        except Held as caught:
            return caught.reason

    scene.fail(down())
    assert (breaker.state, breaker.until) == ("open", None)
    assert {call() for _ in range(50)} == {"breaker"}
    assert health.asked == 1
    scene.clock.advance("24h")
    assert (call(), health.asked, breaker.state) == ("breaker", 2, "open")
    health.error = None
    scene.clock.advance("9s")
    assert call() == "breaker"
    scene.clock.advance("1s")
    assert (call(), breaker.state) == ("ok", "half-open")
    assert (call(), breaker.state) == ("ok", "closed")
    assert health.asked == 3


def test_a_paused_target_or_a_key_that_is_held_anyway_is_not_probed() -> None:
    health = Health()
    scene = Scene(breaker={"consecutive": 1}, probe=health.probe)
    scene.fail(down())
    scene.clock.advance("1s")
    assert scene.reason(key=7) == "backoff"
    scene.target.pause("1h")
    assert scene.reason(key=8) == "paused"
    assert health.asked == 0


@pytest.mark.parametrize(("deadline", "took"), [(None, 10), ("3s", 3)])
def test_a_probe_that_hangs_ends_at_the_deadline_or_when_the_next_one_is_due(deadline: Any, took: float) -> None:
    health = Health(colour="async def")
    health.takes, health.error = 3600.0, None
    scene = Scene(breaker={"consecutive": 1}, probe=health.probe, deadline=deadline)
    scene.fail(down())

    async def recent() -> None:
        raise AssertionError("it must not be called")

    with held("breaker"):
        scene.clock.run(scene.target.key(8).acall(recent))
    assert scene.clock.monotonic() == pytest.approx(took)
