"""Notices as rows: once per episode, whoever tells, and ended by what ends the trouble."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from tests.databases import Database
from tests.store.jobs import Clock, Jobs
from tidegate import outbox
from tidegate.events import NoticeKind
from tidegate.outbox import NewNotice, NoticeSubject

HERE = NoticeSubject(subject="target", name="spotify", lane="7")


def notice(kind: str = "fatal", episode: float = 1.0, place: NoticeSubject = HERE, **fields: Any) -> NewNotice:
    given = {"level": "error", "title": "It fails", "message": "It failed.", "code": "unauthorized", **fields}
    return NewNotice(kind=kind, episode=episode, place=place, **given)


def told(jobs: Jobs, new: NewNotice) -> NewNotice | None:
    return jobs.store.write(lambda tx: outbox.record_target_notice(tx, new))


def recovered(jobs: Jobs, place: NoticeSubject = HERE) -> NewNotice | None:
    return told(jobs, notice("recovered", 99.0, place, level="success", code="", over=True))


def rows(jobs: Jobs) -> list[tuple[Any, ...]]:
    return jobs.sql("select kind, lane, episode, code, created_at, ended_at from tg_notice order by id")


def test_an_episode_has_one_row_however_often_it_is_told(jobs: Jobs) -> None:
    assert told(jobs, notice()) == notice()
    assert told(jobs, notice()) is None
    recovered(jobs)

    assert told(jobs, notice()) is None
    assert [row[0] for row in rows(jobs)] == ["fatal", "recovered"]


def test_the_same_trouble_that_is_still_open_is_not_told_by_another_process(jobs: Jobs, clock: Clock) -> None:
    told(jobs, notice(episode=1.0))
    clock.advance(60)

    assert told(jobs, notice(episode=2.0)) is None
    assert [(row[0], row[2]) for row in rows(jobs)] == [("fatal", 1.0)]


def test_a_new_reason_ends_the_old_notice_and_is_told(jobs: Jobs, clock: Clock) -> None:
    told(jobs, notice(episode=1.0))
    clock.advance(60)

    assert told(jobs, notice(episode=2.0, code="quota_exhausted")) is not None
    first, second = rows(jobs)
    assert (first[3], first[5]) == ("unauthorized", clock.now)
    assert (second[3], second[5]) == ("quota_exhausted", None)


def test_a_recovery_ends_all_trouble_of_its_place_and_has_its_first_episode(jobs: Jobs, clock: Clock) -> None:
    elsewhere = replace(HERE, lane="8")
    told(jobs, notice("cap", 1.0, level="warning"))
    told(jobs, notice("fatal", 2.0))
    told(jobs, notice("fatal", 3.0, elsewhere))
    clock.advance(60)

    found = recovered(jobs)

    assert found is not None
    assert found.episode == 1.0
    assert {(row[0], row[1], row[5]) for row in rows(jobs)} == {
        ("cap", "7", clock.now), ("fatal", "7", clock.now), ("fatal", "8", None), ("recovered", "7", clock.now),
    }  # fmt: skip


def test_nobody_hears_of_the_end_of_what_nobody_was_told_of(jobs: Jobs) -> None:
    assert recovered(jobs) is None
    told(jobs, notice())
    assert recovered(jobs) is not None
    assert recovered(jobs) is None

    assert [row[0] for row in rows(jobs)] == ["fatal", "recovered"]


def test_after_a_recovery_the_next_episode_is_told_anew(jobs: Jobs) -> None:
    told(jobs, notice(episode=1.0))
    recovered(jobs)

    assert told(jobs, notice(episode=2.0)) is not None
    assert recovered(jobs) is not None
    assert [row[0] for row in rows(jobs)] == ["fatal", "recovered"] * 2


def test_who_clears_a_key_ends_all_of_it_and_nothing_else(jobs: Jobs) -> None:
    for place, kind in product((HERE, replace(HERE, operation="likes"), replace(HERE, lane="")), ("fatal", "disabled")):
        told(jobs, notice(kind, place=place))

    assert jobs.store.write(lambda tx: outbox.acknowledge_recovered(tx, "spotify", "7")) == 4
    left = jobs.store.read(lambda tx: outbox.open_of(tx, "spotify"))
    assert [(each.kind, each.lane) for each in left] == [("disabled", ""), ("fatal", "")]


def test_of_many_processes_that_tell_the_same_one_is_heard(db: Database, jobs: Jobs, clock: Clock) -> None:
    stores = [Jobs(db.open(clock), clock) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        heard = list(pool.map(lambda each: told(each[1], notice(episode=each[0])), enumerate(stores)))
    for each in stores:
        each.store.close()

    assert sum(each is not None for each in heard) == 1
    assert len(rows(jobs)) == 1


def test_a_clock_that_steps_back_keeps_nobody_from_ending_a_notice(jobs: Jobs, clock: Clock) -> None:
    told(jobs, notice())
    made = clock.now
    clock.advance(-3600)

    assert recovered(jobs) is not None
    assert rows(jobs)[0][4:] == (made, made)


def test_what_a_target_says_is_kept_as_every_database_takes_it(jobs: Jobs) -> None:
    told(jobs, notice(title="a\0b", message="\ud800" + "x" * 5000, advice="\0"))

    ((title, message),) = jobs.sql("select title, message from tg_notice")
    assert title == "ab"
    assert len(message) == 2000


def test_old_notices_go_in_slices_after_they_have_ended(jobs: Jobs, clock: Clock) -> None:
    for n in range(5):
        told(jobs, notice(place=replace(HERE, lane=str(n))))
        if n != 2:
            recovered(jobs, replace(HERE, lane=str(n)))
    clock.advance(100)

    def pruned(before: float) -> list[int]:
        return [jobs.store.write(lambda tx: outbox.prune(tx, before, 3)) for _ in range(4)]

    assert pruned(clock.now - 100) == [0, 0, 0, 0]
    assert pruned(clock.now - 99) == [3, 3, 2, 0]
    assert [(row[0], row[1]) for row in rows(jobs)] == [("fatal", "2")]


def test_every_trouble_that_a_target_tells_of_can_be_ended() -> None:
    others = (NoticeKind.RECOVERED, NoticeKind.OWN_LINK, NoticeKind.CLOCK)
    told_of = {kind for kind in NoticeKind if kind not in others}

    assert set(outbox.TROUBLES) == told_of


@pytest.fixture(autouse=True)
def _sound(jobs: Jobs) -> Iterator[None]:
    """Of one kind only one is open at one place, and one row is of one episode, whatever was done."""
    yield
    twice = "having count(*) > 1"
    assert (
        jobs.sql(
            f"select 1 from tg_notice where ended_at is null group by subject, name, lane, operation, kind {twice}"
        )
        == []
    )
    assert jobs.sql(f"select 1 from tg_notice group by subject, name, lane, operation, kind, episode {twice}") == []
