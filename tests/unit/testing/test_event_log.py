"""The event log finds what was asked for, and says what there was when it is not there."""

from __future__ import annotations

import pytest

from tests.text import names
from tidegate import Target
from tidegate.events import Bus
from tidegate.guard import Tuning
from tidegate.testing import EventLog, ScriptedTarget, Status, StatusError, VirtualClock


@pytest.fixture
def target(virtual_clock: VirtualClock, tide_events: EventLog) -> Target:
    return Target("spotify", clock=virtual_clock, tuning=Tuning(bus=tide_events.bus))


def test_the_one_event_that_matches_is_returned(target: Target, tide_events: EventLog) -> None:
    fail(target, 503, key=7)
    fail(target, 401, key=8)

    event = tide_events.assert_one("call_failed", key=7)

    assert event.fault is not None
    assert event.fault.status == 503
    assert tide_events.assert_one("call_failed", code="unauthorized", status=401).key == 8
    assert [notice.kind for notice in tide_events.notices()] == ["fatal"]
    assert tide_events.notices("cap") == []


def test_fields_of_an_event_can_be_asked_for(virtual_clock: VirtualClock, tide_events: EventLog) -> None:
    target = Target("spotify", breaker={"consecutive": 1}, clock=virtual_clock, tuning=Tuning(bus=tide_events.bus))
    fail(target, 503, key=7)

    tide_events.assert_one("breaker_state_changed", to="open")
    tide_events.assert_none("breaker_state_changed", to="closed")


def test_a_missing_event_is_told_with_what_there_was(target: Target, tide_events: EventLog) -> None:
    fail(target, 503, key=7)

    with pytest.raises(AssertionError) as told:
        tide_events.assert_one("call_failed", code="rate_limited")

    message = str(told.value)
    assert names(message.splitlines()[0], "call_failed code=rate_limited", 0)
    assert names(message.splitlines()[2], "+0s", "call_failed", "target=spotify", "key=7")
    assert "status=503" in message


def test_more_than_one_is_not_one(target: Target, tide_events: EventLog) -> None:
    fail(target, 503, key=7)
    fail(target, 503, key=8)

    with pytest.raises(AssertionError, match=r"call_failed.*\b2\b"):
        tide_events.assert_one("call_failed")
    with pytest.raises(AssertionError, match=r"call_failed.*\b2\b"):
        tide_events.assert_none("call_failed")


def test_an_empty_log_says_so(tide_events: EventLog) -> None:
    with pytest.raises(AssertionError, match="no event"):
        tide_events.assert_one("call_failed")


def test_a_name_that_no_event_has_never_matches(target: Target, tide_events: EventLog) -> None:
    fail(target, 503, key=7)

    assert tide_events.of("call_failed", colour="red") == []


def test_a_kind_that_does_not_exist_is_a_mistake_of_the_test(tide_events: EventLog) -> None:
    with pytest.raises(ValueError, match="call_faild"):
        tide_events.assert_one("call_faild")


def test_it_can_listen_to_a_bus_of_your_own_until_it_is_closed(virtual_clock: VirtualClock) -> None:
    bus = Bus()
    log = EventLog(bus)
    target = Target("spotify", clock=virtual_clock, tuning=Tuning(bus=bus))
    fail(target, 503, key=1)
    log.close()
    fail(target, 503, key=2)

    assert len(log) == 1
    log.clear()
    assert list(log) == []


def fail(target: Target, status: int, key: int) -> None:
    with pytest.raises(StatusError):
        target.key(key).call(ScriptedTarget(Status(status)))
