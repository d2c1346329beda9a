"""Databases as earlier versions left them: each is brought up to date, and its work goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.databases import BOTH, Database, database
from tests.runtime_jobs.gating import queue_on
from tidegate import Context, Queue, Target
from tidegate.core.job import JobState
from tidegate.runtime.clock import VirtualClock
from tidegate.store import tallies
from tidegate.store.migrate import applied, core_migrations, migrate
from tidegate.store.tx import Tx

EARLIER = sorted((Path(__file__).parents[1] / "store" / "earlier").glob("schema_*.json"))
ENDED = {"done", "failed", "cancelled"}
SERIAL = ("tg_job", "tg_tally", "tg_gate_event", "tg_failure_note")


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with database(request.param, tmp_path, fresh=True) as found:
        yield found


def left_behind(db: Database, path: Path, clock: VirtualClock) -> dict[str, list[dict[str, Any]]]:
    """Makes the database of that version: its steps, then its rows, as they were read out of it by plain SQL."""
    rows: dict[str, list[dict[str, Any]]] = json.loads(path.read_text())
    steps = rows.pop("tg_migration")
    store = db.open(clock.now)
    migrate(store, core_migrations()[: len(steps)])
    assert [each.checksum for each in applied(store)] == [each["checksum"] for each in steps], "a step was changed"
    store.write(partial(fill, rows, db))
    store.close()
    return rows


def fill(rows: dict[str, list[dict[str, Any]]], db: Database, tx: Tx) -> None:
    tx.plain("delete from tg_store")
    own_ids = "" if db.sqlite else "overriding system value"
    for table, found in rows.items():
        for row in found:
            values = ", ".join(map(literal, row.values()))
            tx.plain(f"insert into {table} ({', '.join(row)}) {own_ids} values ({values})")
    for table in [] if db.sqlite else [each for each in SERIAL if each in rows]:
        tx.plain(f"select setval(pg_get_serial_sequence('{table}', 'id'), (select max(id) from {table}))")


def literal(value: str | float | None) -> str:
    if value is None:
        return "null"
    return repr(value) if not isinstance(value, str) else "'" + value.replace("'", "''") + "'"


def declared(q: Queue) -> list[int]:
    """The kinds that these databases have jobs of; the ids of those that ran."""
    ran: list[int] = []

    @q.job(queue="mail", name="send", attempts=3, target=Target("post"), unique=lambda to: to)
    def send(to: str, job: Context) -> str:
        ran.append(job.id)
        return f"sent to {to}"

    for queue, kind in (("reports", "report"), ("later", "later"), ("once", "once")):

        @q.job(queue=queue, name=kind)
        def count(n: int, job: Context) -> int:
            ran.append(job.id)
            return n

    return ran


@pytest.mark.parametrize("path", EARLIER, ids=lambda path: path.stem)
def test_what_an_earlier_version_left_is_kept_and_goes_on(db: Database, path: Path) -> None:
    clock = VirtualClock()
    rows = left_behind(db, path, clock)
    was = {each["id"]: each for each in rows["tg_job"]}
    clock.advance(max(each["created_at"] for each in was.values()) - clock.now() + 1)

    with queue_on(db, clock) as q:
        ran = declared(q)
        assert [each.number for each in applied(q.store)] == [each.number for each in core_migrations()]
        assert {id_: (q.get(id_).state.value, q.get(id_).attempt) for id_ in was} == {
            id_: (shown(each["state"]), each["attempt"]) for id_, each in was.items()
        }
        assert {why.reason for why in q.explain(11)} >= {"paused"}
        q.resume("later", by="ada")
        q.target("post").resume(by="ada")

        for _ in range(3):  # what waits for a lease, for its next try, for a day
            q.drain()
            clock.advance("1d")
        ended = {id_: q.get(id_).state for id_ in was}
        counts = {key: n for key, n in q.store.read(tallies.read).items() if n and key[1] in ENDED}

    final = {id_ for id_, each in was.items() if each["finished_at"]}
    (lost,) = (id_ for id_, each in was.items() if each["state"] == "running")  # and its only attempt with it
    went_on = was.keys() - final - {lost}
    assert {id_: ended[id_].value for id_ in final} == {id_: was[id_]["state"] for id_ in final}
    assert {ended[id_] for id_ in went_on} == {JobState.DONE}
    assert ended[lost] is JobState.FAILED
    assert sorted(ran) == sorted(went_on)
    assert counts == Counter((each["queue"], ended[id_].value) for id_, each in was.items())


def test_numbers_that_an_earlier_version_gave_and_forgot_are_not_given_again(db: Database) -> None:
    clock = VirtualClock()
    store = db.open(clock.now)
    migrate(store, core_migrations()[:9])
    columns = "queue, kind, state, created_at, due_at, args, most_attempts"
    for _ in range(3):
        store.write(lambda tx: tx.plain(f"insert into tg_job ({columns}) values ('q', 'k', 'ready', 1, 1, '1', 1)"))
    store.write(lambda tx: tx.plain("delete from tg_job where id > 1"))
    store.close()

    with queue_on(db, clock) as q:

        @q.job(queue="later", name="later")
        def later(n: int) -> None: ...

        assert later.enqueue(1).id == 4
        assert [each.id for each in later.enqueue_many([(1,), (2,)])] == [5, 6]


def shown(state: str) -> str:
    return "queued" if state in ("ready", "waiting", "blocked") else state
