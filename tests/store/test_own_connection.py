from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from psycopg.rows import dict_row

from tests.databases import APSW, POSTGRES, SQLITE, STDLIB, Database
from tests.postgres import schema
from tests.store.jobs import Jobs, new
from tidegate.jobs import insert
from tidegate.jobs.insert import InsertResult

EVERYWHERE = pytest.mark.parametrize("db", [APSW, STDLIB, POSTGRES], indirect=True)


def connect(db: Database) -> Any:
    """A connection as a user has it: of the queue's library, with a transaction to begin and end."""
    if db.name == POSTGRES:
        return psycopg.connect(db.url, autocommit=True)
    return apsw.Connection(str(db.path)) if db.name == APSW else sqlite3.connect(db.path, isolation_level=None)


def put(jobs: Jobs, connection: Any, *wanted: Any) -> list[InsertResult]:
    return insert.enqueue(jobs.store.join_transaction(connection), wanted)


@EVERYWHERE
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_job_is_there_if_and_only_if_the_users_own_transaction_is(db: Database, jobs: Jobs, end: str) -> None:
    mine = connect(db)
    mine.execute("create table song (name text)")
    mine.execute("begin")
    mine.execute("insert into song values ('x')")
    (taken,) = put(jobs, mine, new("k"))
    assert jobs.fronts() == []  # nobody else sees it yet

    mine.execute(end)

    assert jobs.sql("select count(*) from song") == [(int(end == "commit"),)]
    assert [job.id for job in jobs.claim()] == ([taken.id] if end == "commit" else [])
    mine.execute("drop table song")
    mine.close()


@EVERYWHERE
def test_twins_and_parents_work_on_the_users_own_connection(db: Database, jobs: Jobs) -> None:
    parent, old = jobs.one(), jobs.one("x")
    mine = connect(db)
    mine.execute("begin")

    twin, child, fresh, again = put(jobs, mine, new("x"), new(parents=(parent,)), new("y"), new("y"))

    mine.execute("commit")
    mine.close()
    assert (twin.id, twin.created, fresh.created) == (old, False, True)
    assert (again.id, again.created) == (fresh.id, False)
    assert jobs.stage(child.id) == "blocked"


@EVERYWHERE
def test_refusing_works_on_the_users_own_connection(db: Database, jobs: Jobs) -> None:
    mine = connect(db)
    mine.execute("begin")
    id_ = insert.refuse(jobs.store.join_transaction(mine), new(), "not_pdf", "No PDF.")
    mine.execute("commit")
    mine.close()

    assert jobs.get(id_).error_code == "not_pdf"


@pytest.mark.parametrize("db", SQLITE, indirect=True)
def test_a_connection_of_the_other_library_is_refused_before_anything_is_written(db: Database, jobs: Jobs) -> None:
    other = sqlite3.connect(":memory:") if db.name == APSW else apsw.Connection(":memory:")

    with pytest.raises(TypeError, match="librar"):
        jobs.store.join_transaction(other)
    other.close()


@pytest.mark.parametrize("db", SQLITE, indirect=True)
def test_a_connection_to_another_file_is_refused(db: Database, jobs: Jobs, tmp_path: Path) -> None:
    for name in (str(tmp_path / "other.db"), ":memory:"):
        other = connect(Database(db.name, f"sqlite:///{name}", db.driver))
        with pytest.raises(ValueError, match="another file"):
            jobs.store.join_transaction(other)
        other.close()


@pytest.mark.parametrize("db", SQLITE, indirect=True)
def test_the_same_file_by_another_name_is_the_same_file(db: Database, jobs: Jobs, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    mine = connect(Database(db.name, f"sqlite:///{tmp_path}/link/jobs.db", db.driver))
    mine.execute("begin")
    put(jobs, mine, new())
    mine.execute("commit")
    mine.close()

    assert len(jobs.claim()) == 1


@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
@pytest.mark.parametrize(
    "other", [sqlite3.connect(":memory:"), object(), "a URL", 7], ids=lambda each: type(each).__name__
)
def test_only_connections_of_psycopg_are_taken(db: Database, jobs: Jobs, other: object) -> None:
    with pytest.raises(TypeError, match="psycopg"):
        jobs.store.join_transaction(other)


@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
def test_a_connection_to_another_schema_is_refused_and_its_transaction_lives_on(db: Database, jobs: Jobs) -> None:
    with schema(fresh=True) as elsewhere, psycopg.connect(elsewhere) as other:
        other.execute("select 1")
        with pytest.raises(ValueError, match="schema"):
            jobs.store.join_transaction(other)
        assert other.execute("select 2").fetchone() == (2,)
        other.rollback()


@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
def test_a_connection_is_looked_at_once(db: Database, jobs: Jobs) -> None:
    with psycopg.connect(db.url) as mine:
        jobs.store.join_transaction(mine)
        mine.rollback()
        mine.execute("set search_path = pg_catalog")  # a second look would now complain
        jobs.store.join_transaction(mine)
        mine.rollback()


@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
def test_a_users_own_connection_may_make_other_rows_and_other_cursors(db: Database, jobs: Jobs) -> None:
    with psycopg.connect(db.url, row_factory=dict_row, cursor_factory=psycopg.ClientCursor) as mine:
        (taken,) = put(jobs, mine, new("k"))
    assert taken.created
    assert jobs.get(taken.id).unique_key == "k"
