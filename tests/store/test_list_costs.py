"""No filter of a list makes a database read all jobs, neither for a page nor for a count."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import apsw
import psycopg
import pytest

from bench.filling import NOW, THREE, Size
from tests.databases import APSW, POSTGRES, Database, database
from tests.filled import filled
from tidegate.admin.overview import overview
from tidegate.jobs import listing
from tidegate.jobs.listing import Filter
from tidegate.store.base import StatementRegistry, Tx
from tidegate.store.open import core_statements
from tidegate.store.postgres import PostgresTx
from tidegate.store.sql import Dialect
from tidegate.store.sqlite import SqliteTx

SIZE = Size(ended=200_000, queued=4000, targets=50)
# Steps of SQLite, rows that PostgreSQL fetches: a look at every job would take many times as much.
MOST = {APSW: 800_000, POSTGRES: 40_000}

CHOICES: dict[str, list[Any]] = {
    "queue": ["main", "rare"],
    "state": ["queued", "ready", "running", "blocked", "done", "failed"],
    "kind": ["sync", "rare"],
    "target": ["target0", THREE],
    "code": ["upstream_failure", "rare_code"],
    "older": [60.0, 100_000.0],
    "younger": [60.0, 100_000.0],
}


def filters() -> Iterator[Filter]:
    for name, values in CHOICES.items():
        for value in values:
            yield Filter(**{name: value})
    for one, two in itertools.combinations(CHOICES, 2):
        for first, second in itertools.product(CHOICES[one], CHOICES[two]):
            yield Filter(**{one: first, two: second})


@pytest.fixture(scope="module", params=[APSW, POSTGRES])
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with database(request.param, tmp_path_factory.mktemp("costs"), fresh=True) as db:
        filled(db, SIZE)
        yield db


@contextlib.contextmanager
def counting(db: Database) -> Iterator[Callable[[Callable[[Tx], Any]], int]]:
    """Runs work in a transaction and says what it cost."""
    if not db.sqlite:
        book = StatementRegistry(core_statements(Dialect.POSTGRES))
        with psycopg.connect(db.url) as server:
            server.prepare_threshold = 0
            server.execute("set plan_cache_mode = force_generic_plan")  # as it is for a statement that is used often

            def numbers() -> tuple[int, int]:
                row = server.execute(
                    "select coalesce(sum(seq_scan), 0), coalesce(sum(idx_tup_fetch), 0) from pg_stat_xact_user_tables"
                    " where relid = 'tg_job'::regclass"
                ).fetchone()
                assert row is not None
                return int(row[0]), int(row[1])

            def fetched(work: Callable[[Tx], Any]) -> int:
                before = numbers()
                work(PostgresTx(server, book, NOW))
                after = numbers()
                assert after[0] == before[0], "it reads the whole table"
                return after[1] - before[1]

            yield fetched
        return
    connection = apsw.Connection(str(db.path))
    book = StatementRegistry(core_statements(Dialect.SQLITE))
    count = 0

    def step() -> bool:
        nonlocal count
        count += 100
        return False

    def stepped(work: Callable[[Tx], Any]) -> int:
        nonlocal count
        count = 0
        work(SqliteTx(lambda sql, params: connection.execute(sql, params).fetchall(), book, NOW))
        return count

    connection.set_progress_handler(step, 100)
    yield stepped
    connection.close()


def test_no_filter_reads_all_jobs(large: Database) -> None:
    with counting(large) as cost:
        for wanted in filters():
            for what, work in {
                "first page": lambda tx, w=wanted: listing.jobs(tx, w),
                "later page": lambda tx, w=wanted: listing.jobs(tx, w, cursor=f"j{SIZE.ended // 2:x}"),
                "count": lambda tx, w=wanted: listing.count(tx, w),
            }.items():
                found = cost(work)
                assert found <= MOST[large.name], (what, wanted, found)


def test_the_overview_reads_few_jobs(large: Database) -> None:
    with counting(large) as cost:
        assert cost(overview) <= MOST[large.name] // 4


def test_a_look_at_every_job_would_be_noticed(large: Database) -> None:
    with counting(large) as cost:
        if large.sqlite:
            assert cost(lambda tx: tx.query("counted_jobs")) > 1.5 * MOST[large.name]
        else:
            with pytest.raises(AssertionError, match="it reads the whole table"):
                cost(lambda tx: tx.query("counted_jobs"))
