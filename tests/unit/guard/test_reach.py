"""Where a fault is held against whom: a key, an operation, one item, nobody."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.unit.guard.scene import Answered, Scene, Stopped, down, held
from tidegate import Backoff, Cooldown, rules
from tidegate.faults import Reach
from tidegate.faults.rule import Pack, Rule


@pytest.mark.req("SYNC-06")
@pytest.mark.parametrize(
    "error", [down(), TimeoutError(), Answered(429), Answered(500), Answered(502), Answered(503), Answered(504)]
)
def test_network_timeout_429_and_5xx_back_off_the_whole_key_and_no_other(error: Exception) -> None:
    scene = Scene()
    scene.fail(error)

    assert scene.reason(operation="recent") == "backoff"
    assert scene.reason(operation="playlists") == "backoff"
    assert scene.reason(key=8) is None


@pytest.mark.req("SYNC-05", "SYNC-06")
def test_the_ladder_climbs_with_each_failure_of_the_key() -> None:
    scene, waits = Scene(), []
    for _ in range(8):
        scene.fail(down())
        waits.append(scene.left())

    assert waits == pytest.approx([30, 60, 120, 240, 480, 960, 1800, 1800])


@pytest.mark.req("SYNC-05")
def test_own_numbers_are_settings_and_retry_after_is_a_lower_bound_of_at_most_an_hour() -> None:
    scene = Scene(backoff=Backoff("1s", cap="10s", jitter=0))
    scene.fail(down())
    assert scene.left() == pytest.approx(1)
    scene.fail(Answered(429, {"Retry-After": "90"}))
    assert scene.left() == pytest.approx(90)
    assert scene.holds() == ["retry_after"]
    scene.fail(Answered(503, {"Retry-After": "86400"}))
    assert scene.left() == pytest.approx(3600)
    scene.fail(Answered(429, {"Retry-After": "1"}))
    assert scene.left() == pytest.approx(8), "it never shortens our own backoff"


@pytest.mark.req("SYNC-06", "SYNC-09")
def test_a_fault_that_reaches_one_operation_stops_that_operation_only() -> None:
    scene = Scene()
    scene.fail(Answered(403), operation="recent")

    assert scene.reason(operation="recent") == "fatal"
    assert scene.reason(operation="playlists") is None
    assert scene.reason(key=8, operation="recent") is None


@pytest.mark.req("SYNC-09")
def test_refused_credentials_stop_every_operation_of_their_key_and_no_other_key() -> None:
    scene = Scene()
    scene.fail(Answered(401))

    assert {scene.reason(operation=name) for name in ("recent", "playlists", "other")} == {"fatal"}
    assert scene.reason(key=8) is None


@pytest.mark.req("SYNC-09")
@pytest.mark.parametrize("status", [400, 404, 409, 410, 422])
def test_a_fault_of_one_item_stops_nothing(status: int) -> None:
    scene = Scene()
    scene.fail(Answered(status), Answered(status), Answered(status))

    assert scene.reason() is None
    assert not scene.target.unhealthy()
    assert scene.notices() == []


def test_a_fault_of_one_item_shows_that_the_service_answers_and_ends_the_backoff() -> None:
    scene = Scene()
    scene.fail(down(), Answered(404))

    assert scene.target.unhealthy() == []


@pytest.mark.req("SYNC-08")
def test_a_success_ends_the_backoff_of_its_key_at_once() -> None:
    scene = Scene()
    scene.fail(down(), down(), "ok")
    assert scene.target.unhealthy() == []

    scene.fail(down())
    assert scene.left() == pytest.approx(30), "the ladder starts anew"


@pytest.mark.req("SYNC-08")
def test_a_success_ends_the_fault_of_its_own_operation_and_never_that_of_another() -> None:
    pack = Pack("own", [Rule(name="slow", code="upstream_failure", status=520, reach=Reach.OPERATION)])
    scene = Scene(rules=pack)
    scene.fail(Answered(520), operation="a")
    scene.fail(Answered(520), Answered(520), operation="b")
    scene.fail(down(), operation="c")
    scene.fail("ok", operation="a")

    assert scene.holds(operation="a") == []
    assert [(each.operation, each.failures) for each in scene.target.unhealthy()] == [("b", 2)]


@pytest.mark.req("SYNC-08")
def test_a_success_of_a_call_that_began_before_a_failure_does_not_end_its_hold() -> None:
    scene = Scene()
    slow = scene.target.key(7).guard()

    def answers_after_the_refusal() -> str:
        scene.fail(Answered(401), operation="playlists")
        assert scene.holds() == ["fatal"]
        return "ok"

    assert slow(answers_after_the_refusal)() == "ok"
    assert scene.holds() == ["fatal"]
    assert scene.notices() == ["fatal"]


@pytest.mark.req("SYNC-08")
def test_a_success_ends_what_was_known_when_its_call_began_and_not_what_came_after() -> None:
    scene = Scene(backoff=None)
    scene.fail(Answered(500))

    def fails_meanwhile() -> str:
        scene.fail(Answered(500))
        return "ok"

    assert scene.target.key(7).call(fails_meanwhile) == "ok"
    assert [each.failures for each in scene.target.unhealthy()] == [2]
    scene.call("ok")
    assert scene.target.unhealthy() == []


@pytest.mark.req("SYNC-08")
def test_a_late_success_of_an_earlier_run_does_not_end_the_next_run() -> None:
    scene = Scene(backoff=None)
    scene.fail(Answered(500))

    def fails_again_after_a_recovery() -> str:
        scene.call("ok")
        scene.fail(Answered(500))
        return "ok"

    assert scene.target.key(7).call(fails_again_after_a_recovery) == "ok"
    assert [each.failures for each in scene.target.unhealthy()] == [1]


@pytest.mark.req("SYNC-08")
def test_a_success_that_began_after_a_fatal_fault_ends_it() -> None:
    scene = Scene(reprobe_every="1h")
    scene.fail(Answered(402))
    scene.clock.advance(3601)
    scene.call("ok")

    assert scene.holds() == []
    assert scene.notices() == ["fatal", "recovered"]


@pytest.mark.req("SYNC-10")
def test_clearing_a_key_lets_the_next_call_go_at_once_and_the_next_fatal_is_a_new_episode() -> None:
    scene = Scene()
    scene.fail(Answered(401))
    scene.clock.advance("1h")
    scene.target.key(7).clear()

    assert scene.target.unhealthy() == []
    scene.fail(Answered(401))
    first, second = scene.events.notices("fatal")
    assert second.episode - first.episode == pytest.approx(3600)
    scene.events.assert_one("target_cleared", key=7)


@pytest.mark.req("SYNC-11")
@pytest.mark.parametrize("told_of", [Answered(401), Answered(403)])  # of the key, and of one operation
def test_the_first_success_after_clearing_says_once_that_it_works_again(told_of: Exception) -> None:
    scene = Scene()
    scene.fail(told_of)
    scene.target.key(7).clear()
    scene.target.key(7).clear()
    scene.fail(Answered(401))
    scene.target.key(7).clear()
    scene.call(key=8)
    assert scene.notices() == ["fatal", "fatal"]
    for _ in range(2):
        scene.call(key=7)
    assert scene.notices() == ["fatal", "fatal", "recovered"]


def test_nobody_is_told_that_a_key_works_again_of_which_no_trouble_was_told() -> None:
    scene = Scene()
    scene.fail(down())
    scene.target.key(7).clear()
    scene.call(key=7)
    assert scene.notices() == []


@pytest.mark.req("SYNC-10")
@pytest.mark.parametrize("late", [Answered(401), down(), "ok"])
def test_an_outcome_with_replaced_credentials_changes_nothing(late: object) -> None:
    scene = Scene()

    def slow() -> object:
        scene.target.key(7).clear()
        scene.fail(Answered(401), operation="after")
        if isinstance(late, Exception):
            raise late
        return late

    scene.fail(down(), key=8)  # so that the slow call takes the long way too
    with suppress(Answered, ConnectionRefusedError):
        scene.target.key(7).call(slow)
    assert scene.holds(operation="after") == ["fatal"]
    assert scene.notices() == ["fatal"], "the one of the new credentials"


@pytest.mark.req("SYNC-06")
def test_calls_that_were_under_way_when_an_outage_began_are_one_failure() -> None:
    scene = Scene()

    def outer(depth: int) -> None:
        if depth:
            with pytest.raises(ConnectionRefusedError):
                scene.target.key(7).guard(operation="recent")(outer)(depth - 1)
        raise down()

    with pytest.raises(ConnectionRefusedError):
        scene.target.key(7).guard(operation="recent")(outer)(20)
    assert [each.failures for each in scene.target.unhealthy()] == [1]
    assert len(scene.events.of("call_failed")) == 21


def test_operations_count_their_own_late_failures_once_too() -> None:
    pack = Pack("own", [Rule(name="slow", code="upstream_failure", status=520, reach=Reach.OPERATION)])
    scene = Scene(rules=pack)

    def outer(depth: int) -> None:
        if depth:
            with pytest.raises(Answered):
                scene.target.key(7).guard(operation="recent")(outer)(depth - 1)
        raise Answered(520)

    with pytest.raises(Answered):
        scene.target.key(7).guard(operation="recent")(outer)(5)
    assert [(each.operation, each.failures) for each in scene.target.unhealthy()] == [("recent", 1)]


def test_a_fault_of_our_own_machine_is_held_against_nobody() -> None:
    scene = Scene(breaker={"consecutive": 1}, cooldown=Cooldown.feeds())
    scene.fail(OSError(28, "No space left on device"))

    assert scene.target.unhealthy() == []
    assert scene.target.breaker is not None
    assert scene.target.breaker.state == "closed"


@pytest.mark.req("SYNC-15")
def test_a_call_that_was_broken_off_is_no_failure_and_no_success() -> None:
    scene = Scene()
    scene.fail(down())
    scene.clock.advance("30s")
    with pytest.raises(Stopped):
        scene.call(Stopped())

    assert [each.failures for each in scene.target.unhealthy()] == [1]
    assert scene.reason() is None


def test_an_operation_that_a_rule_calls_an_item_stays_stopped() -> None:
    pack = Pack("own", [Rule(name="never", code="bad_request", status=451, reach=Reach.OPERATION)])
    scene = Scene(rules=pack)
    scene.fail(Answered(451))

    assert scene.reason() == "fatal"
    assert scene.notices() == ["fatal"]


@pytest.mark.req("SYNC-17")
def test_money_and_settings_are_asked_once_an_hour_with_exactly_one_call() -> None:
    scene = Scene(rules=rules.openai)
    scene.fail(Answered(402))
    with held("fatal") as caught:
        scene.call()
    assert caught.value.retry_after == pytest.approx(3600)
    scene.clock.advance("1h")

    def probe() -> None:
        assert scene.reason() == "fatal", "one probe is under way"
        raise Answered(402)

    with pytest.raises(Answered):
        scene.target.key(7).guard(operation="recent")(probe)()
    assert scene.left() == pytest.approx(3600)
    scene.fail("ok")
    assert scene.notices() == ["fatal", "recovered"]


@pytest.mark.req("SYNC-17")
def test_the_hourly_probe_of_one_operation_is_one_call_too() -> None:
    scene = Scene()
    scene.fail(Answered(501))
    assert scene.holds() == ["fatal"]
    scene.clock.advance("1h")

    def probe() -> None:
        assert scene.reason() == "fatal"
        assert scene.reason(operation="another") is None
        raise Answered(501)

    with pytest.raises(Answered):
        scene.target.key(7).guard(operation="recent")(probe)()
    assert scene.left() == pytest.approx(3600)


@pytest.mark.req("SYNC-17")
def test_refused_credentials_are_never_asked_again_by_themselves() -> None:
    scene = Scene()
    scene.fail(Answered(401))
    scene.clock.advance("3650d")

    assert scene.reason() == "fatal"
    assert scene.left() is None


@pytest.mark.req("SYNC-17")
@pytest.mark.parametrize(("setting", "left"), [("10m", 600), (None, None)])
def test_how_often_money_and_settings_are_asked_again_is_a_setting(setting: str | None, left: float | None) -> None:
    scene = Scene(reprobe_every=setting)
    scene.fail(Answered(402))

    assert scene.left() == (None if left is None else pytest.approx(left))


def test_a_probe_that_was_broken_off_may_be_taken_by_the_next_call() -> None:
    scene = Scene()
    scene.fail(Answered(402))
    scene.clock.advance("1h")
    with pytest.raises(Stopped):
        scene.call(Stopped())

    assert scene.reason() is None


def test_a_probe_that_never_comes_back_is_replaced_after_a_minute() -> None:
    scene = Scene()
    scene.fail(Answered(402))
    scene.clock.advance("1h")
    guarded = scene.target.key(7).guard(operation="recent")

    def hangs() -> str:
        scene.clock.advance("59s")
        assert scene.reason() == "fatal"
        scene.clock.advance("1s")
        assert scene.reason() is None
        return "late"

    assert guarded(hangs)() == "late"


def test_a_call_that_was_broken_off_does_not_free_the_probe_of_another() -> None:
    scene = Scene()

    def long_one() -> None:
        scene.fail(Answered(402), operation="other")
        raise Stopped

    with pytest.raises(Stopped):
        scene.target.key(7).call(long_one)
    scene.fail(down(), key=8)
    with pytest.raises(Stopped):
        scene.target.key(9).call(long_one)
    assert scene.left() == pytest.approx(3600)


@pytest.mark.req("SYNC-17")
@pytest.mark.parametrize("status", [402, 501])
def test_who_hurries_gets_one_trial_after_a_fatal_fault_that_credentials_do_not_mend(status: int) -> None:
    scene = Scene(reprobe_every=None)
    scene.fail(Answered(status))
    scene.target.key(7).retry_now()
    assert scene.holds() == []
    scene.fail(Answered(status))
    assert (scene.holds(), scene.notices()) == (["fatal"], ["fatal"])


@pytest.mark.req("SYNC-17")
def test_nobody_hurries_past_refused_credentials() -> None:
    scene = Scene()
    scene.fail(Answered(401))
    scene.target.key(7).retry_now()
    assert scene.holds() == ["fatal"]
