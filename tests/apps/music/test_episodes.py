"""What people were told is kept in the store, and who connects anew ends it, whether anybody syncs or not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.apps.music.building import HOUR, MINUTE, Studio, World, kind_of, refused
from tests.jobs.building import end
from tidegate import Queue, outbox, rules
from tidegate.outbox import NewNotice, NoticeSubject
from tidegate.store.base import Tx
from tidegate.targets import reporter as target_reporter
from tidegate.targets.reporter import Reporter, reporter_of
from tidegate_apps.music.health import SyncDependencies
from tidegate_apps.music.jobs import sync_context


@pytest.fixture
def studio(quick: Queue, monkeypatch: pytest.MonkeyPatch) -> Iterator[Studio]:
    """Its targets tell the store of themselves, as those of a server do."""
    reporter = Reporter(quick.url, every=0.1)
    monkeypatch.setitem(target_reporter._reporters, quick.url, reporter)  # noqa: SLF001 - sooner
    world = World(quick.clock)  # type: ignore[arg-type]
    with Studio.opened(quick, kind_of(world), world=world) as found:
        begin(found)
        yield found
    end(reporter)


def begin(studio: Studio) -> None:
    """A process begins to sync; all that was in memory is gone."""
    outside = SyncDependencies(clock=studio.clock, bus=studio.bus, rng=lambda: 0.5, store=studio.queue.url)
    studio.shop = sync_context(studio.there, studio.kinds, outside)


def eventually(look: Callable[[], Any]) -> Any:
    last = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < last, "it did not come"
        time.sleep(0.02)
    return found


def open_notices(studio: Studio) -> list[Any]:
    return studio.queue.store.read(lambda tx: tx.query("notices_open_of", {"subject": "target", "name": "svc", "n": 9}))


@pytest.mark.req("SYNC-06", "SYNC-10")
def test_who_connects_anew_while_nobody_syncs_is_told_of_the_next_refusal_and_who_does_not_is_not(
    studio: Studio,
) -> None:
    s = studio
    s.world.ill["svc"] = refused(401)
    s.connect()
    s.run(MINUTE)
    eventually(lambda: s.notices() == ["fatal"] and open_notices(s))

    begin(s)  # it is adopted: nobody hears of it twice
    s.run(MINUTE)
    assert len(s.world.times()) == 2
    end(reporter_of(s.queue.url))  # all that it had to tell is told
    s.connect(password="another")  # while nobody syncs
    assert open_notices(s) == []

    begin(s)
    s.run(MINUTE)
    assert len(s.world.times()) == 3
    eventually(lambda: len(s.notices()) > 1)
    assert s.notices() == ["fatal", "fatal"]
    assert len(eventually(lambda: open_notices(s))) == 1

    end(reporter_of(s.queue.url))
    s.shop.connections.remove("ada", "svc")
    assert open_notices(s) == []


@pytest.mark.req("SYNC-06", "SYNC-11")
def test_a_fault_that_is_in_doubt_again_after_a_restart_is_no_recovery(studio: Studio) -> None:
    s = studio
    s.kinds["svc"] = replace(s.kinds["svc"], rules=rules.lastfm)
    begin(s)
    s.world.ill["svc"] = refused(403, '{"error": 13, "message": "Invalid method signature supplied"}')
    s.connect()
    s.run(HOUR)
    eventually(lambda: open_notices(s))
    for lasts in (MINUTE, HOUR):  # it is seen once, then often enough
        begin(s)
        s.run(lasts)
    end(reporter_of(s.queue.url))
    assert told(s) == [("fatal", "error", "ada")]


def told(studio: Studio) -> list[tuple[str, str, str]]:
    """The notices as people find them, the oldest first: kind, level, and whose they are."""
    rows = studio.queue.store.read(lambda tx: tx.query("notices", {"before": 2**53, "n": 99}))
    return [(row[1], row[2], row[12]) for row in reversed(rows)]


@pytest.mark.req("SYNC-06", "SYNC-10", "SYNC-11")
@pytest.mark.parametrize(("syncing", "status"), [(True, 401), (False, 403)])
def test_revoked_restart_reconnect_is_one_notice_then_silence_then_one_word_of_the_recovery(
    studio: Studio, syncing: bool, status: int
) -> None:
    s = studio
    s.world.ill["svc"] = refused(status)
    s.connect()
    s.run(MINUTE)
    eventually(lambda: open_notices(s))
    for _ in range(3):
        begin(s)
        s.run(MINUTE)
    end(reporter_of(s.queue.url))
    assert told(s) == [("fatal", "error", "ada")]

    s.world.ill.clear()
    if not syncing:
        begin(s)  # whoever syncs next has heard of nothing
    s.connect(password="the right one")
    assert open_notices(s) == []
    assert len(told(s)) == 1  # it is not known yet whether that one is right
    s.run(MINUTE)
    again = [("fatal", "error", "ada"), ("recovered", "success", "ada")]
    eventually(lambda: told(s) == again)
    assert s.notices("ada") == ["fatal", "recovered"]  # as the toasts

    begin(s)
    s.run(10 * MINUTE)
    end(reporter_of(s.queue.url))
    assert told(s) == again


def test_only_trouble_that_a_person_has_ended_waits_for_a_word_of_the_recovery(queue: Queue) -> None:
    def notice(kind: str, operation: str, episode: float) -> NewNotice:
        place = NoticeSubject(subject="target", name="svc", lane="ada", operation=operation)
        return NewNotice(kind=kind, level="error", place=place, episode=episode, title="t", message="m")

    def owed() -> list[str]:
        return queue.store.read(lambda tx: outbox.unanswered_notices(tx, "svc"))

    def write(work: Callable[[Tx], object]) -> Any:
        queue.clock.host.advance(1)  # type: ignore[attr-defined]
        return queue.store.write(work)

    assert write(lambda tx: outbox.raise_notice(tx, notice("fatal", "plays", 1.0)))
    assert owed() == []
    assert write(lambda tx: outbox.record_target_notice(tx, notice("recovered", "plays", 9.0)))
    assert owed() == []

    write(lambda tx: outbox.raise_notice(tx, notice("cap", "", 2.0)))
    write(lambda tx: outbox.acknowledge_recovered(tx, "svc", "ada"))
    assert owed() == ["ada"]
    write(lambda tx: outbox.raise_notice(tx, notice("fatal", "plays", 3.0)))
    assert owed() == []  # it is ill
    assert write(lambda tx: outbox.record_recovery(tx, notice("recovered", "", 9.0))) is None
    write(lambda tx: outbox.acknowledge_recovered(tx, "svc", "ada"))
    told = write(lambda tx: outbox.record_recovery(tx, notice("recovered", "", 9.0)))
    assert told.episode == 3.0
    assert owed() == []


def test_a_pause_in_the_store_is_obeyed_by_a_process_from_its_first_call_on(studio: Studio) -> None:
    s = studio
    s.connect()
    s.run(10)
    assert len(s.world.times()) == 1
    eventually(lambda: s.queue.store.read(lambda tx: tx.query("target", {"name": "svc"})))
    s.queue.target("svc").pause(time.time() + 3600, by="ada")  # what tells the store has the clock on the wall
    begin(s)
    s.run(6 * MINUTE)
    assert len(s.world.times()) == 1
    assert s.state().held == "other"
