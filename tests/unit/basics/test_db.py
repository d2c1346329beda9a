"""What an application's SQL may do, told when it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate.db import Db, parameters_of, writes
from tidegate.store.base import Store


def unopened() -> Store:
    raise AssertionError("nobody needs the database for that")


@pytest.mark.parametrize(
    "app", ["", "a", "Convert", "tg", "tg_x", "tidegate", "pg_x", "sqlite_x", "1a", "a-b", "a" * 31, 7]
)
def test_the_name_of_an_application_begins_its_tables(app: Any) -> None:
    with pytest.raises(ValueError, match=r"app: .*2.*30"):
        Db(unopened, app)


@pytest.mark.parametrize(
    "sql",
    [
        "insert into tg_job (id) values (1)",
        "INSERT INTO other (id) values (1)",
        "insert or replace into other values (1)",
        "update tg_job set fence = 0",
        "with x as (select 1) update\n  other set a = 1",
        "delete from tg_event",
        "create table files (id integer)",
        "create unique index if not exists by_name on convert_file (name)",
        "drop table if exists tg_job",
        'alter table "tg_job" add column x text',
        "replace into other values (1)",
    ],
)
def test_an_application_changes_its_own_tables_only(sql: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="convert_"):
        Db(unopened, "convert", statements=f"-- name: it\n{sql};")
    (tmp_path / "0001_it.sql").write_text(f"{sql};")
    with pytest.raises(ValueError, match=r"migration 0001_it: .*\bconvert"):
        Db(unopened, "convert", migrations=tmp_path)


@pytest.mark.parametrize(
    "sql",
    [
        "select state from tg_job where id = :id",
        "select id from convert_file for update skip locked",
        "select 'update other set a', id from convert_file -- delete from other",
        "insert into convert_file (id) values (:id) on conflict (id) do update set id = excluded.id",
        "update convert_file set a = 1",
        "create index convert_file_name on convert_file (name)",
    ],
)
def test_it_may_read_what_it_likes(sql: str) -> None:
    Db(unopened, "convert", statements=f"-- name: it\n{sql};")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select 1;", "name"),
        ("-- name: a\nselect 1;\n-- name: a\nselect 2;", "statement 'a' is defined twice"),
        ("-- name: a\nselect {nothing};", "fragment"),
    ],
)
def test_a_file_with_a_mistake_is_refused_when_it_is_loaded(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Db(unopened, "convert", statements=text)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="folder"):
        Db(unopened, "convert", migrations=tmp_path / "nothing")
    with pytest.raises(ModuleNotFoundError):
        Db(unopened, "convert", "no_such_package")


def test_a_package_that_keeps_nothing_of_its_own_needs_no_migrations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "only_reads"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "statements.sql").write_text("-- name: a\nselect 1;")
    monkeypatch.syspath_prepend(tmp_path)

    Db(unopened, "convert", "only_reads").bind("a")


def test_a_package_brings_its_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "an_app"
    (package / "migrations").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "statements.sql").write_text("-- name: a\nselect :x;")
    (package / "migrations" / "0001_a.sql").write_text("create table an_app_a (id integer);")
    monkeypatch.syspath_prepend(tmp_path)

    assert Db(unopened, "an_app", "an_app").bind("a", x=1).name == "an_app.a"


def test_the_parameters_of_a_statement_are_read_off_its_text() -> None:
    assert parameters_of("select :a, ':b', x::text, {now} from t where c > :now -- :d") == {"a"}
    assert parameters_of("insert into t select a, :c from {rows a text, b bigint}") == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("select 'delete'", False),
        ("select updated_at from t", False),
        ("with x as (select 1) insert into t select * from x", True),
        ("select id from t {for_update}", True),
        ("create table t (id integer)", True),
    ],
)
def test_a_statement_that_writes_is_told_from_one_that_reads(body: str, expected: bool) -> None:
    assert writes(body) is expected


def test_what_is_looked_for_is_found_as_it_is_written() -> None:
    assert Db.containing("50 %_of! it") == "%50 !%!_of!! it%"
