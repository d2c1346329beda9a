"""Events in order from any one on, without a gap: also when they are committed in another order than they were made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.databases import POSTGRES, Database
from tests.store.jobs import Clock, Jobs
from tidegate.targets import table
from tidegate.targets.table import TargetEvent

on_postgres = pytest.mark.parametrize("db", [POSTGRES], indirect=True)


def happen(jobs: Jobs, name: str = "api", subject: str = "target", **fields: Any) -> None:
    jobs.store.write(lambda tx: table.append_event(tx, subject, name, "target_paused", "ada", fields=fields))


def since(jobs: Jobs, after: int = 0, **wanted: Any) -> list[TargetEvent]:
    return jobs.store.read(lambda tx: table.since(tx, after, **wanted))


def ids(jobs: Jobs, after: int = 0, **wanted: Any) -> list[int]:
    return [event.id for event in since(jobs, after, **wanted)]


def test_what_came_after_an_event_comes_in_order_and_no_more_than_was_asked(jobs: Jobs) -> None:
    assert ids(jobs) == []
    for n in range(5):
        happen(jobs, n=n)

    assert ids(jobs) == [1, 2, 3, 4, 5]
    assert ids(jobs, 3) == [4, 5]
    assert ids(jobs, 1, limit=2) == [2, 3]
    assert ids(jobs, 5) == ids(jobs, 99) == []
    assert [event.as_json()["id"] for event in since(jobs, 4)] == [5]
    assert jobs.store.read(table.newest) == 5


def test_one_may_follow_only_queues_or_only_one_of_them(jobs: Jobs) -> None:
    for subject, name in (("target", "a"), ("queue", "a"), ("queue", "b"), ("target", "b"), ("queue", "a")):
        happen(jobs, name, subject)

    assert ids(jobs, subject="queue") == [2, 3, 5]
    assert ids(jobs, subject="queue", name="a") == [2, 5]
    assert ids(jobs, 2, subject="queue", name="a") == [5]
    with pytest.raises(ValueError, match=r"^subject: "):
        ids(jobs, name="a")


def test_what_is_gone_from_the_beginning_holds_nobody_up(jobs: Jobs) -> None:
    for _ in range(4):
        happen(jobs)
    jobs.clock.advance(100)
    happen(jobs)

    assert jobs.store.write(lambda tx: table.prune_events(tx, jobs.clock.now - 50, 3)) == 3
    assert ids(jobs) == [4, 5]
    assert jobs.store.write(lambda tx: table.prune_events(tx, jobs.clock.now - 50, 3)) == 1
    assert jobs.store.write(lambda tx: table.prune_events(tx, jobs.clock.now - 50, 3)) == 0
    assert ids(jobs) == [5]


def write(connection: psycopg.Connection[Any], clock: Clock) -> None:
    connection.execute(
        "insert into tg_gate_event (at, subject, name, kind, actor, written_at)"
        " values (%s, 'target', 'api', 'x', 'a', %s)",
        (clock.now, clock.now),
    )


@on_postgres
def test_what_was_written_first_and_committed_last_is_not_missed(db: Database, jobs: Jobs) -> None:
    with psycopg.connect(db.url) as slow, psycopg.connect(db.url) as quick:
        write(slow, jobs.clock)  # 1
        write(quick, jobs.clock)  # 2
        quick.commit()
        assert ids(jobs) == []
        assert ids(jobs, subject="target", name="api") == []
        slow.commit()

    assert ids(jobs) == [1, 2]


@on_postgres
def test_a_transaction_that_is_older_and_commits_first_hides_nothing(db: Database, jobs: Jobs) -> None:
    """The age of a transaction does not tell the order of its ids: it may have written something else first."""
    with psycopg.connect(db.url) as older, psycopg.connect(db.url) as younger:
        older.execute("insert into tg_queue (name) values ('q')")
        younger.execute("insert into tg_queue (name) values ('r')")
        write(younger, jobs.clock)  # 1
        write(older, jobs.clock)  # 2
        older.commit()
        assert ids(jobs) == []
        younger.commit()

    assert ids(jobs) == [1, 2]


@on_postgres
def test_what_comes_before_the_gap_is_told_at_once(db: Database, jobs: Jobs) -> None:
    happen(jobs)  # 1
    with psycopg.connect(db.url) as slow:
        write(slow, jobs.clock)  # 2
        happen(jobs)  # 3
        assert ids(jobs) == [1]
        assert jobs.store.read(table.newest) == 1
        slow.rollback()

    assert ids(jobs, 1) == [3]


@on_postgres
def test_an_open_transaction_after_the_last_event_holds_nothing_up(db: Database, jobs: Jobs) -> None:
    happen(jobs)
    happen(jobs)
    with psycopg.connect(db.url) as slow:
        write(slow, jobs.clock)
        assert ids(jobs) == [1, 2]


@on_postgres
def test_one_that_never_ends_holds_the_others_up_for_a_minute_only(db: Database, jobs: Jobs) -> None:
    with psycopg.connect(db.url) as stuck:
        write(stuck, jobs.clock)
        happen(jobs)
        jobs.clock.advance(60)
        assert ids(jobs) == []
        jobs.clock.advance(1)
        assert ids(jobs) == [2]


def test_a_follower_misses_nothing_while_many_write(db: Database, jobs: Jobs) -> None:
    stores = [Jobs(db.open(jobs.clock), jobs.clock) for _ in range(4)]

    def busy(mine: Jobs) -> None:
        for n in range(60):
            happen(mine, n=n)

    seen = list[int]()
    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(busy, each) for each in stores]
        while not all(each.done() for each in writing):
            seen += ids(jobs, seen[-1] if seen else 0)
    seen += ids(jobs, seen[-1] if seen else 0, limit=1000)
    for each in stores:
        each.store.close()

    assert seen == [row[0] for row in jobs.sql("select id from tg_gate_event order by id")]
    assert len(seen) == 240
