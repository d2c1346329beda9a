"""How statements find their rows: by an index, whatever the size of the table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from tests.databases import APSW, POSTGRES, Database, database
from tests.filled import tidied
from tests.store.jobs import LEASE, Clock, Jobs
from tidegate.jobs import claim
from tidegate.store import sqlite_driver
from tidegate.store.open import core_statements
from tidegate.store.sql import Dialect, Statement

SMALL, LARGE = 10_000, 200_000
LANES = 40

# Small tables, and those that are read as a whole because that is what they are for.
WHOLE = {
    "tallies": "tg_tally", "tally_take": "tg_tally", "targets": "tg_target", "workers": "tg_worker",
    "workers_forget": "tg_worker", "workers_at_work": "tg_worker",
    "leads_forget": "tg_leader", "migrations": "tg_migration",
    "gate_events_prune": "tg_gate_event",
    # The check and the restoring of a database, and what goes back from the newest job so far and no further.
    "counted_jobs": "tg_job", "loose_links": "tg_job", "restored_fences": "tg_job", "list_newest_kinds": "tg_job",
}  # fmt: skip

# What must find its rows by which index.
BY_INDEX = {
    "pick": "tg_job_ready", "only_lane": "tg_job_ready", "fronts": "tg_job_ready", "lanes": "tg_job_ready",
    "pick_in_cycle": "tg_job_ready", "pick_trials": "tg_job_ready", "ready_after": "tg_job_ready",
    "front_jobs": "tg_job_ready",
    "promote": "tg_job_waiting", "next_due": "tg_job_waiting", "lost_leases": "tg_job_running",
    "mine": "tg_job_running",
    "stop_asked": "tg_job_running", "too_old": "tg_job_expiring", "old_jobs": "tg_job_final", "twins": "tg_job_unique",
    "revive_children": "tg_link",
    "list_places": "tg_job_ended", "list_ended": "tg_job_ended", "list_ended_floors": "tg_job_ended",
    "list_ended_counts": "tg_job_ended", "list_of_target": "tg_job_ended_of", "list_of_target_floor": "tg_job_ended_of",
    "list_of_target_all": "tg_job_ended_of", "list_of_target_count": "tg_job_ended_of",
    "targets_tried": "tg_job_ended_of",
    "list_of_last_code": "tg_job_code", "list_of_last_code_floor": "tg_job_code",
    "list_of_last_code_all": "tg_job_code", "list_of_last_code_count": "tg_job_code",
    "list_of_failure": "tg_job_failure", "list_of_failure_floor": "tg_job_failure",
    "list_of_failure_all": "tg_job_failure", "list_of_failure_count": "tg_job_failure",
    "list_codes": "tg_job_code", "unclassified_jobs": "tg_job_code",
    "list_ready": "tg_job_ready", "list_ready_count": "tg_job_ready", "ready_oldest": "tg_job_ready",
    "list_waiting": "tg_job_waiting", "list_waiting_count": "tg_job_waiting",
    "list_running": "tg_job_running", "list_running_count": "tg_job_running", "running_by_target": "tg_job_running",
    "list_blocked": "tg_job_blocked", "list_blocked_count": "tg_job_blocked", "lately_done": "tg_job_final",
}  # fmt: skip


EVENTS = "insert into tg_event (job, fence, seq, kind, at, attempt) select id, 1, 0, 'done', 1, 1 from tg_job"


def fill(db: Database, n: int) -> None:
    """Jobs in every stage, most of them ready, in a few dozen lanes."""
    series = f"generate_series(1, {n}) as s(i)" if not db.sqlite else (
        f"(with recursive s(i) as (select 1 union all select i + 1 from s where i < {n}) select i from s) as s"
    )  # fmt: skip
    sql = f"""
        insert into tg_job (queue, kind, target, lane, state, priority, created_at, due_at, expires_at, args,
            most_attempts, attempt, lease_by, lease_until, claimed_at, error_code, error_message, finished_at,
            unique_key, unique_while)
        select 'q' || (i % 3), 'k', 't' || (i % 2), 'lane' || (i % {LANES}), stage, i % 5, i, i,
            case when i % 4 = 0 then 1e9 + i end, '{{}}', 5, case when stage in ('running', 'done') then 1 else 0 end,
            case when stage = 'running' then 'w' || (i % 9) end, case when stage = 'running' then 1e9 end,
            case when stage = 'running' then 1 end, case when stage = 'failed' then 'x' end,
            case when stage = 'failed' then 'x' end, case when stage in ('done', 'failed') then i end,
            case when i % 2 = 0 then 'u' || i end, case when i % 2 = 0 then 3 else 0 end
        from (select i, case when i % 100 < 60 then 'ready' when i % 100 < 70 then 'waiting'
            when i % 1000 < 705 then 'running' when i % 100 < 95 then 'done' else 'failed' end as stage
            from {series}) as made"""
    if db.sqlite:
        connection = apsw.Connection(str(db.path))
        connection.execute(sql)
        connection.execute("insert into tg_link select id, id + 1 from tg_job where id % 2 = 0")
        connection.execute(EVENTS)
        connection.execute("analyze")
        connection.close()
    else:
        with psycopg.connect(db.url, autocommit=True) as server:
            server.execute(sql)
            server.execute("insert into tg_link select id, id + 1 from tg_job where id % 2 = 0")
            server.execute(EVENTS)
            tidied(server, "tg_job, tg_link, tg_event")


def plan(db: Database, statement: Statement) -> str:
    """How a statement will find its rows, whatever its parameters are."""
    if db.sqlite:
        connection = sqlite_driver.connect(str(db.path), "apsw")  # one that plans as those of the store do
        anything = dict.fromkeys(re.findall(r":(\w+)", statement.sql))
        rows = connection.execute(f"explain query plan {statement.sql}", anything)
        connection.close()
        return "\n".join(str(row[3]) for row in rows)
    with psycopg.connect(db.url) as server:
        found = server.execute(f"explain (generic_plan) {statement.sql}").fetchall()
        return "\n".join(row[0] for row in found)


@pytest.fixture(scope="module", params=[APSW, POSTGRES])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with database(request.param, tmp_path_factory.mktemp("plans"), fresh=True) as db:
        store = db.open(Clock())
        Jobs(store, Clock()).migrate()
        store.close()
        fill(db, SMALL)
        yield db


def book(db: Database) -> dict[str, Statement]:
    return {each.name: each for each in core_statements(Dialect.SQLITE if db.sqlite else Dialect.POSTGRES)}


@pytest.mark.parametrize("name", BY_INDEX)
def test_what_is_asked_often_is_found_by_its_index(filled: Database, name: str) -> None:
    found = plan(filled, book(filled)[name])

    assert BY_INDEX[name] in found, found


@pytest.mark.parametrize("name", ["claim", "promote", "settle", "renew", "still_mine", "take_back", "save"])
def test_rows_that_are_named_are_found_by_their_ids_though_the_statistics_are_of_quieter_times(
    tmp_path: Path, name: str
) -> None:
    """The plan that PostgreSQL keeps: with "nobody was running" it reads all who run, once for each that is named."""
    with database(POSTGRES, tmp_path, fresh=True) as db:
        store = db.open(Clock())
        Jobs(store, Clock()).migrate()
        store.close()
        with psycopg.connect(db.url, autocommit=True) as server:
            server.execute(
                "insert into tg_job (queue, kind, state, created_at, due_at, args, most_attempts, attempt, finished_at)"
                " select 'q', 'k', 'done', i, i, '{}', 5, 1, i from generate_series(1, 5000) as s(i)"
            )
            tidied(server, "tg_job")
        found = plan(db, book(db)[name])

    assert "using tg_job_pkey on tg_job" in found, found
    assert found.count("tg_job_running") == 0, found
    assert len(re.findall("tg_job_ready|tg_job_waiting", found)) == (name == "promote"), found


def test_no_statement_reads_the_whole_table_of_jobs(filled: Database) -> None:
    """Neither on SQLite, nor with a plan that PostgreSQL keeps for all parameters."""
    wrong = {}
    for name, statement in book(filled).items():
        if name == "notify" or name.endswith("_postgres" if filled.sqlite else "_sqlite"):
            continue  # of the other database, or of none
        found = plan(filled, statement)
        scans = (
            re.findall(r"^SCAN (\w+)(?! USING)(?!.*INDEX)", found, re.MULTILINE)
            if filled.sqlite
            else re.findall(r"Seq Scan on (\w+)", found)
        )
        scanned = {each for each in scans if each in _tables(statement.sql)} - {WHOLE.get(name)}
        if scanned & {"tg_job", "tg_event", "tg_link"}:
            wrong[name] = found
    assert wrong == {}


def _tables(sql: str) -> dict[str, str]:
    """Tables and their other names in a statement."""
    found = {table: table for table in re.findall(r"\btg_\w+", sql)}
    found |= {alias: table for table, alias in re.findall(r"\b(tg_\w+) as (\w+)", sql)}
    return found


@pytest.mark.parametrize(
    "name", ["pick", "pick_in_cycle", "only_lane", "fronts", "lanes", "promote", "too_old", "old_jobs"]
)
def test_what_goes_by_an_index_needs_no_sorting(filled: Database, name: str) -> None:
    found = plan(filled, book(filled)[name])

    assert "USE TEMP B-TREE FOR ORDER BY" not in found.replace("USE TEMP B-TREE FOR LAST", "") or name in (
        "fronts",
        "lanes",
    )
    assert "Sort Key: tg_job" not in found


class Cost:
    """What a statement costs: pages that PostgreSQL looks at, steps that SQLite takes."""

    def __init__(self, db: Database) -> None:
        self.db, self.book = db, book(db)

    def of(self, name: str, **params: Any) -> int:
        sql, names = self.book[name].sql, self.book[name].numbered
        if not self.db.sqlite:
            with psycopg.connect(self.db.url, cursor_factory=psycopg.RawCursor) as server:
                server.execute("set plan_cache_mode = force_generic_plan")
                explain = f"explain (analyze, buffers, format json) {sql}"
                row = server.execute(explain, [params[each] for each in names], prepare=True).fetchone()
                server.rollback()
                assert row is not None
                top = row[0] if isinstance(row[0], list) else json.loads(row[0])
                return int(top[0]["Plan"]["Shared Hit Blocks"] + top[0]["Plan"]["Shared Read Blocks"])
        connection = apsw.Connection(str(self.db.path))
        steps = 0

        def count() -> bool:
            nonlocal steps
            steps += 1
            return False

        for handler in (None, count):  # the first time it is also compiled
            connection.execute("begin")
            connection.set_progress_handler(handler, 1)
            connection.execute(sql, params).fetchall()
            connection.set_progress_handler(None)
            connection.execute("rollback")
        connection.close()
        return steps


def costs(db: Database) -> dict[str, int]:
    cost = Cost(db)
    lane = {"queue": "q1", "target": "t1", "lane": "lane7"}
    store = db.open(Clock(0.0))
    ((first,),) = store.write(lambda tx: tx.query("pick", {**lane, "n": 1}))
    store.close()
    return {
        "pick": cost.of("pick", now=0.0, **lane, n=50),
        "pick_in_cycle": cost.of("pick_in_cycle", now=0.0, **lane, n=50, newest=2**62, began=0.0),
        "pick_trials": cost.of("pick_trials", now=0.0, **lane, n=3, newest=None, began=None, among=20),
        "claim": cost.of("claim", now=0.0, id=first if db.sqlite else [first], worker="w", lease=LEASE),
        "only_lane": cost.of("only_lane", queue="q1", target="t1"),
        "lanes": cost.of("lanes", now=0.0, queue="q1", target="t1", fresh=1, after="", most=20),
        "fronts": cost.of("fronts", now=0.0, queues="\nq0\nq1\nq2\n", sep="\n", most=100),
        "promote": cost.of("promote", now=0.0, n=500),
        "next_due": cost.of("next_due", now=0.0),
        "too_old": cost.of("too_old", now=0.0, n=500),
    }


def test_the_cost_of_a_claim_does_not_grow_with_the_table(filled: Database, tmp_path: Path) -> None:
    small = costs(filled)
    with database(filled.name, tmp_path, fresh=True) as db:
        store = db.open(Clock())
        Jobs(store, Clock()).migrate()
        store.close()
        fill(db, LARGE)
        large = costs(db)

    for name in small:
        assert large[name] <= max(small[name] * 1.5, small[name] + 12), (name, small, large)


def test_the_cost_of_a_claim_is_a_few_pages_for_each_job(filled: Database) -> None:
    found = costs(filled)

    most = {
        "pick": 2000,
        "pick_in_cycle": 2500,
        "pick_trials": 2000,
        "claim": 500,
        "only_lane": 120,
        "lanes": 3000,
        "fronts": 1500,
        "promote": 100,
        "next_due": 100,
        "too_old": 100,
    }
    if not filled.sqlite:
        most = {
            "pick": 220,
            "pick_in_cycle": 220,
            "pick_trials": 220,
            "claim": 60,
            "only_lane": 20,
            "lanes": 150,
            "fronts": 60,
            "promote": 10,
            "next_due": 10,
            "too_old": 10,
        }
    assert {name: cost for name, cost in found.items() if cost > most[name]} == {}


@pytest.mark.parametrize("name", ["promote", "too_old"])
def test_what_is_not_due_is_not_looked_at(filled: Database, name: str) -> None:
    """By the server's own clock, too: an index can only be searched for a moment that is known beforehand."""
    cost = Cost(filled)
    now: dict[str, Any] = {"now": 0.0} if filled.sqlite else {"now": None}
    if not filled.sqlite:
        with psycopg.connect(filled.url, autocommit=True) as server:
            server.execute("update tg_job set due_at = 1e10 where state = 'waiting'")
            server.execute("update tg_job set expires_at = 1e10 where expires_at is not null")
            tidied(server, "tg_job")

    assert cost.of(name, n=500, **now) < 100


def test_the_lane_that_was_claimed_is_the_one_that_was_asked_for(filled: Database) -> None:
    store = filled.open(Clock(0.0))
    taken = store.write(lambda tx: claim.claim(tx, claim.ReadyKey("q1", "t1", "lane7"), 50, "w", LEASE))
    store.close()

    assert len(taken) == 50
    assert {(job.queue, job.target, job.lane) for job in taken} == {("q1", "t1", "lane7")}
    assert [(-job.priority, job.id) for job in taken] == sorted((-job.priority, job.id) for job in taken)
