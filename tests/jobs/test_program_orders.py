"""What people do to a target in the store is done by the program that guards it by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.databases import BOTH, Database
from tests.jobs.building import end
from tidegate import Held, Target
from tidegate.events import Bus
from tidegate.guard import Health, Tuning
from tidegate.jobs.queue import Queue
from tidegate.targets import reporter, reports
from tidegate.targets.remote_control import RemoteOrders
from tidegate.targets.reporter import Reporter, reporter_of
from tidegate.targets.reports import TargetDetail

both = pytest.mark.parametrize("db", BOTH, indirect=True)


@pytest.fixture
def q(db: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    monkeypatch.setitem(reporter._reporters, db.url, Reporter(db.url, every=0.1))  # noqa: SLF001 - sooner
    with Queue(db.url, driver=db.driver) as found:
        yield found
    end(reporter_of(db.url))


def eventually(look: Callable[[], Any], seconds: float = 60) -> Any:
    last = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < last, "it did not come"
        time.sleep(0.02)
    return found


def made(q: Queue, **more: Any) -> Target:
    target = Target("api", "sync", store=q.url, **more, tuning=Tuning(bus=Bus()))
    assert target.caught_up("60s")
    return target


def reasons(target: Target, key: str | None = None) -> list[str]:
    return [str(hold.reason) for hold in (target if key is None else target.key(key)).explain()]


@both
def test_a_pause_in_the_store_holds_the_calls_of_a_program_until_it_is_resumed_or_over(q: Queue) -> None:
    target = made(q)
    q.target("api").pause("1h", by="ada")
    eventually(lambda: reasons(target, "k") == ["paused"])
    (hold,) = target.explain()
    assert hold.message == "Paused by ada."
    assert hold.until == pytest.approx(time.time() + 3600, abs=120)
    with pytest.raises(Held):
        target.key("k").call(lambda: None)

    q.target("api").pause("2h", by="bob")
    eventually(lambda: [each.message for each in target.explain()] == ["Paused by bob."])
    assert q.target("api").resume(by="ada")
    eventually(lambda: not reasons(target, "k"))
    kinds = [each.kind for each in q.target("api").events()]
    assert kinds == ["target_resumed", "target_paused", "target_paused"]  # told once, by whoever ordered it


@both
def test_a_program_that_starts_during_a_pause_knows_of_it_when_it_has_caught_up(q: Queue) -> None:
    q.store.write(lambda tx: tx.query("target_new", {"name": "api"}))
    q.target("api").pause("1h", by="ada")
    q.target("api").key("k").disable("1h", by="ada")
    target = made(q)
    assert reasons(target) == ["paused"]
    assert sorted(reasons(target, "k")) == ["cooldown", "paused"]


@both
def test_a_key_that_is_cleared_in_the_store_is_called_again_and_no_other(q: Queue) -> None:
    target = made(q, backoff=None)
    ill = [target.key(name) for name in ("one", "two")]
    for key in ill:
        key.restore(_fatal(), failures=1, since=time.time() - 60, until=None)
    assert [reasons(target, name) for name in ("one", "two")] == [["fatal"], ["fatal"]]
    q.target("api").key("one").clear(by="ada")
    eventually(lambda: not reasons(target, "one"))
    assert reasons(target, "two") == ["fatal"]


class _Mute:
    def __str__(self) -> str:
        raise ValueError("I say nothing")


@both
def test_a_key_that_has_no_text_keeps_nobody_from_being_told_and_ordered(q: Queue) -> None:
    target = made(q, backoff=None)
    target.key(_Mute()).restore(_fatal(), failures=1, since=time.time() - 60, until=None)
    q.target("api").key("k").disable("1h", by="ada")
    eventually(lambda: reasons(target, "k") == ["cooldown"])
    detail = eventually(lambda: shown(q) if shown(q).of_programs else None)
    assert "_Mute" in detail.of_programs


@both
def test_a_key_that_a_program_holds_is_shown_and_clearing_it_says_that_something_changed(q: Queue) -> None:
    target = made(q)
    q.target("api").pause("1h")
    assert q.target("api").resume()
    assert not q.target("api").key("k").clear()
    with pytest.raises(_Refused):
        target.key("k").call(_refuse)
    eventually(lambda: q.store.read(lambda tx: tx.query("notices_open_of", _OPEN)))
    detail = eventually(lambda: shown(q) if shown(q).keys else None)
    (row,) = detail.keys
    assert (row.lane, row.reason, row.until, row.code, row.failures) == ("k", "fatal", None, "unauthorized", 1)
    assert detail.of_programs == {"k"}
    assert q.target("api").key("k").clear()
    eventually(lambda: not reasons(target, "k"))
    eventually(lambda: not shown(q).keys)


def test_a_trouble_that_is_written_after_its_key_was_cleared_is_told_to_nobody() -> None:
    ordered = RemoteOrders(now=100.0, asked_at=1000.0, cleared={"one": 90.0})
    found = [ordered.dealt_with(key, heard_at) for key, heard_at in (("one", 985.0), ("one", 995.0), ("two", 985.0))]
    assert found == [True, False, False]


@both
def test_what_went_wrong_after_it_was_cleared_stays(q: Queue) -> None:
    target = made(q)
    q.target("api").key("late").clear(by="ada")
    q.target("api").key("early").clear(by="ada")
    target.key("late").restore(_fatal(), failures=1, since=time.time() + 60, until=None)
    target.key("early").restore(_fatal(), failures=1, since=time.time() - 60, until=None)
    eventually(lambda: not reasons(target, "early"))
    assert reasons(target, "late") == ["fatal"]


@both
def test_a_key_that_is_disabled_in_the_store_rests_until_it_is_enabled(q: Queue) -> None:
    target = made(q)
    q.target("api").key("k").disable(by="ada", reason="too loud")
    eventually(lambda: reasons(target, "k") == ["cooldown"])
    (found,) = target.unhealthy()
    assert isinstance(found, Health)
    assert found.disabled_by == "ada"
    assert reasons(target, "another") == []
    assert q.target("api").key("k").enable(by="ada")
    eventually(lambda: not reasons(target, "k"))


@both
def test_an_order_for_a_key_holds_it_whatever_it_is_made_of_and_whether_or_not_it_has_ever_failed(q: Queue) -> None:
    target = made(q)
    call = target.guard(key="user")(_fine)
    assert call(7) == 7
    q.target("api").key("7").disable(by="ada")

    eventually(lambda: _is_held(call, 7))
    assert call(8) == 8
    assert [hold.reason for hold in target.key(7).explain()] == ["cooldown"]
    assert [(each.key, each.disabled_by) for each in target.unhealthy()] == [(7, "ada")]
    q.target("api").key("7").enable(by="ada")
    eventually(lambda: not _is_held(call, 7))
    assert target.unhealthy() == []


@both
def test_a_program_may_end_a_rest_that_was_ordered(q: Queue) -> None:
    target = made(q)
    for key in (7, 8):
        q.target("api").key(str(key)).disable(by="ada")
        eventually(lambda key=key: target.key(key).explain())  # type: ignore[misc]
    target.key(7).enable()
    target.key(8).clear()

    assert target.key(7).explain() == target.key(8).explain() == []


def _fine(user: int) -> int:
    return user


def _is_held(call: Callable[[int], int], user: int) -> bool:
    try:
        call(user)
    except Held as held:
        return held.reason == "cooldown"
    return False


def shown(q: Queue) -> TargetDetail:
    """As the page has it."""
    return q.store.read(lambda tx: reports.one(tx, "api"))


class _Refused(Exception):
    status_code = 401


def _refuse() -> None:
    raise _Refused("no")


def _fatal() -> Any:
    from tidegate.faults.codes import CORE

    return CORE["unauthorized"].fault("test")


_OPEN = {"subject": "target", "name": "api", "n": 9}
