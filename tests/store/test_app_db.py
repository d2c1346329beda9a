"""An application's own tables and statements, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.databases import BOTH, Database
from tidegate.db import Db, DbTx
from tidegate.errors import SchemaTooNew, StoreError, UniqueTaken
from tidegate.events import Notice, NoticeKind
from tidegate.jobs.context import Context
from tidegate.jobs.outcome import Done
from tidegate.jobs.queue import Queue

pytestmark = pytest.mark.parametrize("db", BOTH, indirect=True)

FIRST = """
-- Files that were uploaded.
create table convert_file (
    id {serial},
    name text not null unique,
    size integer not null,
    job bigint,
    seen double precision not null
);
create index convert_file_job on convert_file (job);
"""
SECOND = "alter table convert_file add column result text;"
STATEMENTS = """
-- name: add
-- A file; its number.
insert into convert_file (name, size, seen) values (:name, :size, {now}) returning id;

-- name: add_many
insert into convert_file (name, size, seen) select name, size, {now} from {rows name text, size integer} where true
on conflict (name) do update set size = excluded.size returning id;

-- name: files
select id, name, size, job from convert_file where size >= :least and name <> 'update :nothing -- here' order by id;

-- name: file
select name, result from convert_file where id = :id {for_update};

-- name: set_job
update convert_file set job = :job where id = :id;

-- name: set_result
update convert_file set result = :result where id = :id;
"""


class FileRow(NamedTuple):
    id: int
    name: str
    size: int
    job: int | None


class NewFile(NamedTuple):
    id: int


@dataclass(frozen=True, slots=True)
class FileResult:
    name: str
    result: str | None


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_files.sql").write_text(FIRST)
    (folder / "0002_result.sql").write_text(SECOND)
    (folder / "README.md").write_text("not a migration")
    return folder


@pytest.fixture
def q(db: Database) -> Iterator[Queue]:
    with Queue(db.url, driver=db.driver) as found:
        yield found


@pytest.fixture
def app(q: Queue, migrations: Path) -> Db:
    return q.db("convert", statements=STATEMENTS, migrations=migrations)


def test_statements_run_by_their_short_names(app: Db) -> None:
    assert app.all("add", name="a.pdf", size=3) == [(1,)]
    assert app.one("add", name="b.pdf", size=5) == (2,)
    assert app.all("files", least=4) == [(2, "b.pdf", 5, None)]
    assert app.one("files", least=10) is None


def test_a_transaction_is_all_or_nothing(app: Db) -> None:
    def twice(tx: DbTx) -> None:
        tx.all("add", name="a.pdf", size=1)
        tx.all("add", name="a.pdf", size=2)

    with pytest.raises(UniqueTaken):
        app.write(twice)
    assert app.all("files", least=0) == []


def test_many_rows_are_one_statement(app: Db) -> None:
    rows = [{"name": f"{n}.pdf", "size": n} for n in range(5)]

    assert len(app.write(lambda tx: tx.many("add_many", rows))) == 5
    assert app.read(lambda tx: len(tx.all("files", least=0))) == 5


def test_rows_are_values_of_a_named_tuple_or_a_dataclass(app: Db) -> None:
    made = app.write(lambda tx: tx.many_as(NewFile, "add_many", [{"name": "a", "size": 1}, {"name": "b", "size": 2}]))

    assert [row.id for row in made] == [1, 2]
    assert [row.name for row in app.query_as(FileRow, "files", least=0)] == ["a", "b"]
    assert app.first(FileResult, "file", id=2) == FileResult("b", None)
    assert app.first(FileResult, "file", id=3) is None
    assert app.read(lambda tx: tx.first(FileRow, "files", least=2)) == FileRow(2, "b", 2, None)


def test_a_row_class_with_other_fields_than_columns_is_refused(app: Db) -> None:
    app.all("add", name="a", size=1)

    with pytest.raises(TypeError, match=r"files: .* 4 columns, .*NewFile"):
        app.query_as(NewFile, "files", least=0)


def test_a_scalar_is_converted_and_may_be_missing(app: Db) -> None:
    app.write(lambda tx: tx.many("add_many", [{"name": "a", "size": 1}, {"name": "b", "size": 2}]))

    assert app.scalar(str, "files", least=2) == "2"
    assert app.scalars(float, "files", least=0) == [1.0, 2.0]
    assert app.scalar_or_none(str, "file", id=1) == "a"
    assert app.scalar_or_none(int, "files", least=9) is None
    with pytest.raises(IndexError):
        app.scalar(int, "files", least=9)


async def test_the_loop_is_not_blocked(app: Db) -> None:
    await app.awrite(lambda tx: tx.all("add", name="a.pdf", size=1))

    assert len(await app.aall("files", least=0)) == 1
    assert await app.aquery_as(FileRow, "files", least=0) == [FileRow(1, "a.pdf", 1, None)]
    assert await app.afirst(FileRow, "files", least=2) is None


def test_a_job_is_put_in_with_the_rows_it_is_about(q: Queue, app: Db) -> None:
    @q.job(queue="convert")
    async def convert(file: int, job: Context) -> Done[str]:
        row = await asyncio.to_thread(app.one, "file", id=file)
        assert row is not None
        return Done(row[0], writes=[app.bind("set_result", id=file, result=f"{row[0]}.xml")])

    def upload(tx: DbTx, name: str) -> int:
        row = tx.one("add", name=name, size=1)
        assert row is not None
        job = convert.options(connection=tx).enqueue(row[0])
        tx.all("set_job", id=row[0], job=job.id)
        return int(row[0])

    file = app.write(lambda tx: upload(tx, "a.pdf"))
    with pytest.raises(UniqueTaken):
        app.write(lambda tx: upload(tx, "a.pdf"))

    assert q.drain().done == 1
    assert app.one("file", id=file) == ("a.pdf", "a.pdf.xml")
    job = app.all("files", least=0)[0][3]
    assert q.get(job).state == "done"
    assert q.drain().remaining == 0  # the second upload left no job behind


def test_migrations_are_applied_once_and_the_new_ones_later(db: Database, migrations: Path) -> None:
    (migrations / "0002_result.sql").unlink()
    for step in ("", "", SECOND, SECOND):
        if step:
            (migrations / "0002_result.sql").write_text(step)
        with Queue(db.url, driver=db.driver) as q:
            assert q.db("convert", statements=STATEMENTS, migrations=migrations).all("files", least=0) == []


def test_a_database_of_a_newer_application_is_refused(db: Database, migrations: Path) -> None:
    with Queue(db.url, driver=db.driver) as q:
        q.db("convert", statements=STATEMENTS, migrations=migrations).all("files", least=0)
    (migrations / "0002_result.sql").unlink()

    with Queue(db.url, driver=db.driver) as q, pytest.raises(SchemaTooNew, match="step 2 of convert"):
        q.db("convert", statements=STATEMENTS, migrations=migrations).all("files", least=0)


def test_a_migration_that_was_changed_afterwards_is_refused(db: Database, migrations: Path) -> None:
    with Queue(db.url, driver=db.driver) as q:
        q.db("convert", statements=STATEMENTS, migrations=migrations).all("files", least=0)
    (migrations / "0001_files.sql").write_text(FIRST.replace("size", "length"))

    with Queue(db.url, driver=db.driver) as q, pytest.raises(StoreError, match="convert"):
        q.db("convert", statements=STATEMENTS, migrations=migrations).all("files", least=0)


def test_two_applications_use_the_same_short_names(q: Queue, app: Db, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "0001_feeds.sql").write_text("create table feeds_source (id {serial}, url text not null);")
    other = q.db("feeds", statements="-- name: files\nselect url from feeds_source;", migrations=folder)

    assert (other.all("files"), app.all("files", least=0)) == ([], [])
    assert q.db("feeds") is other


def test_nothing_is_opened_before_it_is_needed(db: Database, migrations: Path) -> None:
    q = Queue(db.url, driver=db.driver)
    app = q.db("convert", statements=STATEMENTS, migrations=migrations)
    bound = app.bind("set_job", id=1, job=2)

    assert (bound.name, bound.params) == ("convert.set_job", {"id": 1, "job": 2})
    assert not db.sqlite or not db.path.exists()
    q.close()


@pytest.mark.parametrize(
    ("name", "params", "error", "message"),
    [
        ("nothing", {}, KeyError, "'nothing'.* add, add_many, file"),
        ("files", {}, TypeError, "'least'"),
        ("files", {"least": 1, "most": 2}, TypeError, "'most'.* least"),
        ("files", {"least": True}, TypeError, "least=True"),
        ("add", {"name": Path("a"), "size": 1}, TypeError, "name="),
    ],
)
def test_what_is_wrong_is_said_before_it_is_written(
    app: Db, name: str, params: dict[str, Any], error: type[Exception], message: str
) -> None:
    for use in (app.all, app.bind):
        with pytest.raises(error, match=message):
            use(name, **params)
    assert app.all("files", least=0) == []


def test_a_notice_is_written_with_the_change_that_it_tells_of_or_not_at_all(app: Db) -> None:
    trouble = Notice(kind=NoticeKind.DISABLED, target="convert", key=7, episode=5.0, title="It rests", message="No.")
    over = replace(trouble, kind=NoticeKind.RECOVERED, title="It works again")

    def broken(tx: DbTx) -> None:
        tx.tell(trouble)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        app.write(broken)
    assert app.write(lambda tx: tx.tell(over)) is False  # nobody was told of any trouble
    assert [app.write(lambda tx: tx.tell(trouble)) for _ in range(2)] == [True, False]
    assert app.write(lambda tx: tx.tell(over)) is True
    assert app.write(lambda tx: tx.tell(replace(trouble, episode=9.0))) is True
    app.write(lambda tx: tx.settled("convert", 7))
    assert app.write(lambda tx: tx.tell(over)) is False
