"""The log: an event name and fields, at the level of what happened, on one line, without a secret."""

from __future__ import annotations

import logging

import pytest

from tests.unit.guard.scene import Answered, Scene, down
from tidegate import Cooldown, sinks
from tidegate.events import Event, EventKind
from tidegate.guard.sinks import fields_of, level_of, line


@pytest.mark.req("FEED-04")
@pytest.mark.parametrize(
    ("error", "code", "level"),
    [
        (Answered(429), "rate_limited", "WARNING"),
        (Answered(403), "forbidden", "WARNING"),
        (Answered(404), "not_found", "WARNING"),
        (Answered(410), "gone", "WARNING"),
        (Answered(500), "upstream_failure", "WARNING"),
        (Answered(503), "overloaded", "WARNING"),
        (down(), "network", "WARNING"),
        (TimeoutError(), "timeout", "WARNING"),
        (ZeroDivisionError("a bug"), "unexpected", "ERROR"),
        (Answered(401), "unauthorized", "ERROR"),
    ],
)
def test_a_failed_call_is_logged_at_the_level_of_its_fault(
    error: Exception, code: str, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(name="feed", cooldown=Cooldown({"gone": (99, "1h")}))
    sinks(log=True, bus=scene.events.bus)
    caplog.set_level(logging.DEBUG)
    scene.fail(error)

    record = next(each for each in caplog.records if each.getMessage().startswith("call_failed"))
    assert record.levelname == level
    assert record.name == "tidegate"
    assert record.getMessage().startswith(f"call_failed target=feed key=7 operation=recent code={code} ")


@pytest.mark.parametrize(
    ("kind", "level"),
    [(kind, {"target_fatal": 40, "own_link_lost": 40, "target_disabled": 30}.get(kind, 20)) for kind in EventKind],
)
def test_every_other_event_has_a_level_of_its_own(kind: EventKind, level: int) -> None:
    assert level_of(Event(kind=kind, at=0.0, target="spotify")) == level


def test_a_value_can_neither_break_the_line_nor_pass_for_another_field() -> None:
    fields = {"error": 'two\nlines code=gone "quoted"', "empty": "", "plain": 7}

    written = line("call_failed", fields)
    assert "\n" not in written
    assert written == """call_failed error='two\\nlines code=gone "quoted"' empty='' plain=7"""


def test_no_secret_reaches_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    scene = Scene()
    sinks(log=True, bus=scene.events.bus)
    for number, secret in enumerate(
        ["https://u:hunter2@a.test/x", "api_key=hunter2", "Authorization: Bearer hunter2", "?token=hunter2&a=1"]
    ):
        scene.fail(ConnectionError(f"could not fetch {secret}"), key=number)
    scene.fail(Answered(401, {}, b'{"access_token": "hunter2"}'))

    assert len(caplog.records) >= 5
    assert "hunter2" not in caplog.text


def test_a_notice_is_logged_by_its_title_and_a_breaker_tells_of_itself() -> None:
    scene = Scene(breaker={"consecutive": 1})
    scene.fail(Answered(402), down())

    found = fields_of(scene.events.assert_one("notice"))
    assert "spotify" in found.pop("title")
    assert found == {"target": "spotify", "key": 7, "notice": "fatal"}


def test_the_log_can_be_turned_on_twice_and_off_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="tidegate")
    scene = Scene()
    for log in (True, True):
        sinks(log=log, bus=scene.events.bus)
    scene.target.key(7).clear()
    sinks(log=False, bus=scene.events.bus)
    scene.target.key(8).clear()

    assert [record.getMessage() for record in caplog.records] == ["target_cleared target=spotify key=7"]
