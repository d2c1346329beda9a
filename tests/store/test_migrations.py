from __future__ import annotations

import multiprocessing
import random
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from tests.databases import BOTH, EVERY, POSTGRES, Database, database
from tests.postgres import schema
from tests.store import migrating
from tests.store.jobs import Clock, Jobs
from tidegate.errors import SchemaTooNew, StoreError
from tidegate.store.base import Row, Store, Tx
from tidegate.store.migrate import CORE, Migration, applied, compare, core_migrations, migrate, migrations_in
from tidegate.store.sql import Dialect

EVERYWHERE = pytest.mark.parametrize("db", EVERY, indirect=True)


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database without a table."""
    with database(request.param, tmp_path, fresh=True) as found:
        yield found


@pytest.fixture
def store(db: Database, clock: Clock) -> Iterator[Store]:
    found = db.open(clock)
    yield found
    found.close()


def step(number: int, text: str, app: str = "app") -> Migration:
    return Migration(app, number, f"step_{number}", text)


STEPS = [
    step(1, "create table app_song (id {serial}, name text not null);\ncreate index app_by_name on app_song (name);"),
    step(
        2,
        "-- Ratings.\nalter table app_song add column stars integer default 3;\n\n"
        "insert into app_song (name) values ('a;b');",
    ),
    step(3, "create table app_list (name text primary key) {clustered};"),
]  # fmt: skip


def shape(db: Database) -> list[Row]:
    """Everything that the database knows of its tables, in an order of its own."""
    if db.sqlite:
        connection = apsw.Connection(str(db.path))
        found = connection.execute(
            'select m.type, m.name, m.tbl_name, m.sql, (select group_concat(name || type || "notnull" || '
            "coalesce(dflt_value, '') || pk) from pragma_table_info(m.name)) from sqlite_schema as m order by 1, 2"
        ).fetchall()
        connection.close()
        return found
    with psycopg.connect(db.direct) as server:
        return [
            *server.execute(
                "select table_name, column_name, data_type, is_nullable, column_default, ordinal_position::text"
                " from information_schema.columns where table_schema = current_schema() order by 1, 2"
            ),
            *server.execute(
                "select replace(indexdef, current_schema(), '') from pg_indexes"
                " where schemaname = current_schema() order by 1"
            ),
            *server.execute(
                "select conrelid::regclass::text, pg_get_constraintdef(oid) from pg_constraint"
                " where connamespace = current_schema()::regnamespace order by 1, 2"
            ),
        ]


@EVERYWHERE
def test_what_is_missing_is_applied_in_order_and_once(store: Store, clock: Clock) -> None:
    assert [each.number for each in migrate(store, STEPS[:1])] == [1]
    clock.advance(5)
    assert [each.number for each in migrate(store, STEPS)] == [2, 3]
    assert migrate(store, STEPS) == []

    assert [(each.app, each.number, each.name, each.applied_at) for each in applied(store)] == [
        ("app", 1, "step_1", clock.now - 5), ("app", 2, "step_2", clock.now), ("app", 3, "step_3", clock.now),
    ]  # fmt: skip
    assert Jobs(store, clock).sql("select name, stars from app_song") == [("a;b", 3)]


@EVERYWHERE
def test_each_application_has_steps_of_its_own_beside_the_core(store: Store) -> None:
    migrate(store, core_migrations())
    migrate(store, STEPS)
    migrate(store, [step(1, "create table other_thing (n integer);", "other")])

    assert [(each.app, each.number) for each in applied(store)] == [
        ("app", 1), ("app", 2), ("app", 3), ("other", 1), *((CORE, each.number) for each in core_migrations()),
    ]  # fmt: skip
    assert compare(applied(store), core_migrations()) == []


@EVERYWHERE
def test_a_step_that_was_changed_after_it_was_applied_is_found(store: Store) -> None:
    migrate(store, STEPS)
    changed = [STEPS[0], step(2, STEPS[1].text + " "), STEPS[2]]

    with pytest.raises(StoreError, match="step 2 of app"):
        migrate(store, changed)


@EVERYWHERE
def test_a_database_of_a_newer_version_is_left_alone(store: Store, db: Database) -> None:
    migrate(store, STEPS)
    before = shape(db)

    with pytest.raises(SchemaTooNew, match="step 3 of app"):
        migrate(store, [*STEPS[:2]])
    with pytest.raises(SchemaTooNew, match="step 3 of app"):
        migrate(store, [*STEPS[:2], step(1, "create table other_thing (n integer);", "other")])

    assert shape(db) == before


def test_a_hole_in_what_was_applied_is_found(store: Store, clock: Clock) -> None:
    migrate(store, STEPS)
    store.write(lambda tx: tx.execute("delete from tg_migration where number = 2"))

    with pytest.raises(StoreError, match="step 3 of app"):
        migrate(store, STEPS)


@EVERYWHERE
@pytest.mark.parametrize("bad", ["this is no sql", "insert into app_song (name) values (null)"])
def test_a_step_that_fails_leaves_nothing_of_itself_and_all_before_it(store: Store, db: Database, bad: str) -> None:
    migrate(store, STEPS[:1])
    before = shape(db)
    broken = step(2, f"create table app_half (n integer);\n{bad};\ncreate table app_more (n integer);")

    with pytest.raises(StoreError):
        migrate(store, [STEPS[0], broken])

    assert shape(db) == before
    assert [each.number for each in applied(store)] == [1]
    assert [each.number for each in migrate(store, STEPS)] == [2, 3]


def test_two_migrators_at_once_apply_each_step_once(db: Database, clock: Clock) -> None:
    n = 6
    stores = [db.open(clock) for _ in range(n)]
    together = threading.Barrier(n)

    def work(mine: Store) -> list[int]:
        together.wait()
        return [each.number for each in migrate(mine, [*core_migrations(), *STEPS])]

    with ThreadPoolExecutor(n) as pool:
        results = list(pool.map(work, stores))

    every = sorted(each.number for each in [*core_migrations(), *STEPS])
    assert sorted(number for each in results for number in each) == every
    assert len(applied(stores[0])) == len(every)
    for each in stores:
        each.close()


def test_a_fresh_database_equals_one_that_went_step_by_step(db: Database, clock: Clock, tmp_path: Path) -> None:
    every = [*core_migrations(), *STEPS]
    store = db.open(clock)
    for n in range(1, len(every) + 1):
        migrate(store, every[:n])
    store.close()

    with database(db.name, tmp_path / "other", fresh=True) as fresh:
        other = fresh.open(clock)
        migrate(other, every)
        other.close()
        assert shape(fresh) == shape(db)
        assert len(shape(db)) > 20


def test_files_are_read_by_their_numbers(tmp_path: Path) -> None:
    for name in ("0002_more.sql", "0001_first.sql", "notes.txt", "0010_x.py"):
        (tmp_path / name).write_text(f"-- {name}")

    found = migrations_in(tmp_path, "app")

    assert [(each.number, each.name, each.text) for each in found] == [
        (1, "first", "-- 0001_first.sql"), (2, "more", "-- 0002_more.sql"),
    ]  # fmt: skip


@pytest.mark.parametrize("names", [["0002_x.sql"], ["0001_x.sql", "0003_y.sql"], ["0001_x.sql", "0001_y.sql"]])
def test_a_gap_between_files_is_found(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_text("select 1;")

    with pytest.raises(ValueError, match="have a gap"):
        migrations_in(tmp_path, "app")


@pytest.mark.parametrize("name", ["first.sql", "0001.sql", "0001_.sql", "one_x.sql"])
def test_a_file_whose_name_has_no_number_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("select 1;")

    with pytest.raises(ValueError, match="0001_"):
        migrations_in(tmp_path, "app")


def test_the_cores_own_migrations_can_be_read() -> None:
    found = core_migrations()

    assert [each.number for each in found] == list(range(1, len(found) + 1))
    assert len({each.checksum for each in found}) == len(found)
    assert (files("tidegate.store") / "migrations" / "0001_baseline.sql").is_file()


def kill_often(db: Database, clock: Clock, kills: int, seed: int) -> None:
    """Kills a migrator at random moments until that many kills have met it at work.

    How long the work takes is the machine's: the moments come sooner after a kill that came too late.
    """
    makes = multiprocessing.get_context("forkserver")
    makes.set_forkserver_preload(["tests.store.migrating"])
    dice, at_work, span = random.Random(seed), 0, 0.12
    for _ in range(20 * kills):
        here, there = makes.Pipe()
        child = makes.Process(target=migrating.main, args=(db.url, there))
        child.start()
        assert here.recv() == "go"
        child.join(dice.uniform(0.0, span))
        child.kill()
        child.join()
        met = child.exitcode == -signal.SIGKILL
        at_work, span = at_work + met, min(span * (1.1 if met else 0.8), 0.5)
        store = db.open(clock)
        steps = [each.number for each in applied(store) if each.app == "app"]
        store.close()
        assert steps == list(range(1, len(steps) + 1))
        assert tables(db) == {f"app_{n}_{k}" for n in steps for k in range(migrating.TABLES)}
        if len(steps) == len(migrating.STEPS):
            clean_up(db, clock)
        if at_work == kills:
            return
    pytest.fail(f"only {at_work} of {20 * kills} kills met the migrator at work")


def tables(db: Database) -> set[str]:
    """Those of the steps; each must have its index."""
    if db.sqlite:
        connection = apsw.Connection(str(db.path))
        rows: list[Any] = connection.execute(
            "select name, (select count(*) from sqlite_schema as i where i.tbl_name = t.name and i.type = 'index')"
            " from sqlite_schema as t where type = 'table' and name like 'app%'"
        ).fetchall()
        connection.close()
    else:
        with psycopg.connect(db.url) as found:
            rows = found.execute(
                "select tablename, (select count(*) from pg_indexes as i where i.tablename = t.tablename and"
                " i.schemaname = t.schemaname) from pg_tables as t where schemaname = current_schema()"
                " and tablename like 'app%'"
            ).fetchall()
    assert all(indexes == 1 for _, indexes in rows)
    return {name for name, _ in rows}


def _drop(name: str, tx: Tx) -> None:
    tx.execute(f"drop table {name}")


def clean_up(db: Database, clock: Clock) -> None:
    store = db.open(clock)
    for name in tables(db):
        store.write(partial(_drop, name))
    store.write(lambda tx: tx.execute("delete from tg_migration"))
    store.close()


def test_a_migration_that_is_killed_is_never_half_applied(db: Database, clock: Clock) -> None:
    kill_often(db, clock, kills=10, seed=1)


@pytest.mark.long
def test_a_migration_that_is_killed_a_hundred_times_is_never_half_applied(db: Database, clock: Clock) -> None:
    kill_often(db, clock, kills=100, seed=2)


def test_the_kills_would_find_a_step_that_is_not_one_transaction(db: Database, clock: Clock) -> None:
    """The check sees tables without their step: that is what a migrator that commits each statement leaves behind."""
    store = db.open(clock)
    migrate(store, [])
    store.write(lambda tx: tx.execute("create table app_1_0 (a integer, b text)"))
    store.close()

    with pytest.raises(AssertionError):
        kill_often(db, clock, kills=1, seed=1)


def test_long_steps_are_not_cut_off_by_the_timeouts_of_daily_work(clock: Clock) -> None:
    with schema(fresh=True) as url:
        store = Database(POSTGRES, f"{url}".replace("search_path", "statement_timeout%3D50%20-c%20search_path")).open(
            clock
        )
        assert store.dialect is Dialect.POSTGRES
        migrate(store, [step(1, "select pg_sleep(0.2);")])
        assert [each.number for each in applied(store)] == [1]
        store.close()
