"""Pause, cooldown, groups, limits and probes of a target, and the explanation of all of them."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.face.scene import Answered, Scene, Stopped, down, held
from tidegate import Breaker, BreakerOpen, Cooldown, Held, Rate, Reach, Target, TooManyRequests
from tidegate.core.rule import Pack, Rule

# -- cooldown ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("FEED-04", "FEED-05", "FEED-10")
def test_a_feed_that_is_gone_rests_gets_one_probe_and_is_enabled_by_a_success() -> None:
    scene = Scene(cooldown=Cooldown.feeds())
    scene.fail(Answered(410))
    with held("cooldown") as caught:
        scene.call()
    assert caught.value.retry_after == pytest.approx(72 * 3600)
    disabled = scene.events.assert_one("target_disabled", key=7)
    assert disabled.fields == {"reason": "gone", "by": "auto", "run_length": 1, "consecutive_errors": 1}
    scene.clock.advance("72h")

    def probe() -> str:
        assert scene.reason() == "cooldown", "one probe is under way"
        return "304"

    scene.target.key(7).call(probe)
    assert scene.target.unhealthy() == []
    scene.events.assert_one("target_enabled", by="auto")


@pytest.mark.req("FEED-04", "FEED-06")
def test_failures_in_a_row_are_of_any_type_and_a_run_is_of_one() -> None:
    scene = Scene(cooldown=Cooldown.feeds())
    scene.fail(
        Answered(500), Answered(404), Answered(429), ZeroDivisionError(), Answered(404), Answered(404), Answered(404)
    )

    fields = scene.events.assert_one("target_disabled").fields
    assert (fields["run_length"], fields["consecutive_errors"]) == (3, 7)
    scene.fail("ok")
    assert scene.target.unhealthy() == []


@pytest.mark.req("FEED-10")
def test_a_probe_that_fails_rests_again_and_one_that_is_throttled_waits_by_backoff() -> None:
    scene = Scene(cooldown=Cooldown.feeds())
    scene.fail(Answered(410), Answered(404))
    assert scene.holds() == ["cooldown", "backoff"]
    assert scene.left() == pytest.approx(48 * 3600)
    scene.fail(Answered(429))
    assert scene.holds() == ["backoff"]
    scene.fail(Answered(500))
    assert scene.left() == pytest.approx(6 * 3600)


@pytest.mark.req("FEED-04")
def test_what_a_cooldown_governs_is_not_fatal_and_backs_off_with_the_wait_that_was_asked_for() -> None:
    scene = Scene(cooldown=Cooldown.feeds())
    scene.fail(Answered(403))
    assert (scene.holds(), scene.notices()) == (["backoff"], [])
    scene.fail(Answered(503, {"Retry-After": "600"}))
    assert scene.left() == pytest.approx(600)


@pytest.mark.req("FEED-04")
def test_a_run_is_remembered_however_slowly_the_feed_is_polled_and_however_many_others_fail() -> None:
    scene = Scene(cooldown=Cooldown.feeds())
    for day in range(3):
        assert scene.holds() == []
        scene.fail(Answered(404))
        for other in range(1000):
            scene.fail(down(), key=("other", day, other))
        scene.clock.advance("24h")
    assert scene.holds() == ["cooldown"]


def test_a_person_disables_with_an_end_or_without_and_enables_again() -> None:
    scene = Scene()
    part = scene.target.key(7)
    part.disable("48h", by="anna")
    assert scene.holds() == ["cooldown"]
    assert scene.left() == pytest.approx(48 * 3600)
    assert [each.disabled_by for each in scene.target.unhealthy()] == ["anna"]
    part.disable(None, by="anna")
    scene.clock.advance("3650d")
    with held("cooldown") as caught:
        scene.call()
    assert caught.value.until is None
    assert part.enable(by="ben")
    assert not part.enable()
    assert scene.reason() is None
    assert [event.fields["by"] for event in scene.events.of("target_enabled")] == ["ben"]


def test_an_answer_that_comes_late_does_not_undo_what_a_person_ordered() -> None:
    scene = Scene()

    def slow() -> str:
        scene.target.key(7).disable("1h")
        return "ok"

    scene.target.key(7).call(slow)
    assert scene.holds() == ["cooldown"]


def test_a_probe_after_a_rest_that_a_person_ordered_is_free_again_when_it_fails() -> None:
    scene = Scene()
    scene.target.key(7).disable("1h")
    scene.fail(down())

    assert scene.holds() == ["backoff"]
    scene.fail("ok")
    assert scene.target.unhealthy() == []


# -- pause -------------------------------------------------------------------------------------------------------------


def test_a_pause_holds_every_key_and_ends_by_itself_or_by_a_person() -> None:
    scene = Scene()
    scene.target.pause("10m", by="anna")
    assert [scene.reason(key=key) for key in (7, 8)] == ["paused", "paused"]
    hold = scene.target.key(7).explain()[0]
    assert (hold.message, hold.ended_by) == ("Paused by anna.", "person")
    scene.clock.advance("10m")
    assert scene.reason() is None
    assert not scene.target.resume()

    scene.target.pause(scene.clock.now() + 60)
    assert scene.target.resume()
    assert scene.reason() is None


def test_nothing_gets_past_a_pause_or_a_rest_on_the_short_way() -> None:
    scene = Scene()

    @scene.target.guard(key="user")
    def recent(user: int) -> int:
        return user

    @scene.target.guard(key="user")
    async def arecent(user: int) -> int:
        return user

    assert recent(7) == 7
    scene.target.pause("1h")
    with held("paused"):
        recent(7)
    with held("paused"):
        scene.clock.run(arecent(7))
    scene.target.resume()
    scene.target.key(7).disable("1h")
    with held("cooldown"):
        recent(7)
    with held("cooldown"):
        scene.clock.run(arecent(7))
    assert recent(8) == scene.clock.run(arecent(8)) == 8


@pytest.mark.parametrize("until", [None, -1.0, 0, "0s", math.inf, math.nan, 1e300, datetime(2001, 1, 1, tzinfo=UTC)])
def test_a_pause_always_has_an_end_ahead_of_now(until: Any) -> None:
    with pytest.raises(ValueError, match=r"^until: "):
        Scene().target.pause(until)


def test_an_end_may_be_given_as_a_duration_a_moment_or_a_date() -> None:
    scene = Scene()
    for until in (
        "1h",
        timedelta(hours=1),
        scene.clock.now() + 3600,
        datetime.fromtimestamp(scene.clock.now() + 3600, UTC),
    ):
        scene.target.pause(until)
        assert scene.left() == pytest.approx(3600)


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
        {"groups": {"a": ["x"]}},
        {"groups": {"a": ["x"], "b": ["x"]}, "breaker": True},
        {"groups": {"a": ["x"]}, "breaker": Breaker("mine")},
    ],
)
def test_groups_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^groups: "):
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


# -- explain -----------------------------------------------------------------------------------------------------------


def shut_everything(scene: Scene) -> None:
    """Every gate at once: fatal and backoff of the operation, cooldown and backoff of the key, and so on."""
    scene.fail(Answered(403), operation="recent")
    scene.fail(down(), operation="other")
    scene.target.key(7).disable("5h")
    scene.target.pause("10h")
    assert scene.target.breaker is not None
    scene.target.breaker.force("open", "9h")


def test_it_lists_every_hold_in_the_order_of_the_gate() -> None:
    scene = Scene(breaker=True, rate=Rate(1, "8h", burst=2), concurrency=5)
    shut_everything(scene)

    holds = scene.target.key(7).explain("recent")
    assert [str(hold.reason) for hold in holds] == ["paused", "fatal", "cooldown", "backoff", "breaker", "rate"]
    assert [str(hold.ended_by) for hold in holds] == ["person", "person", "time", "time", "time", "time"]
    now = scene.clock.now()
    lefts = [None if hold.until is None else round(hold.until - now) for hold in holds]
    assert lefts == [36_000, None, 18_000, 30, 32_400, 28_800]
    assert all(hold.since <= now for hold in holds)
    assert [hold.operation for hold in holds] == [None, "recent", None, None, None, None]


def test_every_hold_that_a_call_meets_is_the_first_in_the_explanation() -> None:
    scene = Scene(breaker=True, rate=Rate(1, "8h", burst=2), concurrency=5)
    shut_everything(scene)
    breaker = scene.target.breaker
    assert breaker is not None
    met = []
    for reopen in (
        scene.target.resume,
        scene.target.key(7).clear,
        breaker.reset,
        lambda: scene.clock.advance("8h"),
    ):
        first = scene.target.key(7).explain("recent")[0]
        with pytest.raises(Held) as caught:
            scene.call()
        assert caught.value.reason == first.reason
        assert caught.value.since == pytest.approx(first.since)
        assert caught.value.until == (None if first.until is None else pytest.approx(first.until))
        met.append(caught.value.reason)
        reopen()
    assert met == ["paused", "fatal", "breaker", "rate"]
    assert scene.holds() == []
    assert scene.call() == "ok"


def test_the_fatal_state_of_an_operation_comes_before_the_backoff_of_its_key() -> None:
    scene = Scene()
    scene.fail(Answered(403), operation="recent")
    scene.fail(down(), operation="other")

    assert scene.holds(operation="recent") == ["fatal", "backoff"]
    assert scene.reason(operation="recent") == "fatal"
    assert scene.reason(operation="other") == "backoff"


def test_a_half_open_breaker_with_a_free_permit_holds_nobody() -> None:
    scene = Scene(breaker={"consecutive": 1, "timeout": "1m", "max_requests": 1})
    scene.fail(down())
    scene.clock.advance("1m")
    assert scene.holds(key=8) == []

    def probe() -> None:
        assert scene.holds(key=9) == ["breaker"]
        assert scene.target.key(9).explain()[0].ended_by == "call"

    scene.target.key(8).call(probe)


def test_times_are_shown_on_the_wall_clock_also_after_it_was_stepped() -> None:
    scene = Scene()
    scene.fail(down())
    scene.clock.step_wall(7200)

    hold = scene.target.key(7).explain()[0]
    assert hold.until == pytest.approx(scene.clock.now() + 30)
    with held("backoff") as caught:
        scene.call()
    assert caught.value.retry_after == pytest.approx(30)


def test_unhealthy_lists_keys_and_operations_with_what_holds_them() -> None:
    pack = Pack("own", [Rule(name="slow", code="upstream_failure", status=520, reach=Reach.OPERATION)])
    scene = Scene(rules=pack)
    scene.fail(down(), down(), key=7)
    scene.fail(Answered(520), key=8, operation="lists")
    scene.fail("ok", key=9)
    found = {(each.key, each.operation): each for each in scene.target.unhealthy()}

    assert set(found) == {(7, None), (8, "lists")}
    assert (found[7, None].failures, found[8, "lists"].failures) == (2, 1)
    fault, hold = found[7, None].fault, found[7, None].hold
    assert fault is not None
    assert hold is not None
    assert (fault.code, hold.reason) == ("network", "backoff")
