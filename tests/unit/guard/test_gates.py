"""Pause and cooldown of a target."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.guard.scene import Answered, Scene, down, held
from tidegate import Cooldown

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
    with pytest.raises(ValueError, match=r"^until\b"):
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
