from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import psycopg
import pytest

from tests.databases import APSW, EVERY, POSTGRES, SQLITE, Database
from tests.postgres import server_url
from tests.store.jobs import Clock, Jobs, new
from tidegate import Queue
from tidegate.errors import StoreBusy, StoreError, UniqueTaken
from tidegate.store.base import Store, Tx
from tidegate.store.open import core_statements
from tidegate.store.sql import Dialect, compiled
from tidegate.store.sqlite import SqliteStore

EVERYWHERE = pytest.mark.parametrize("db", EVERY, indirect=True)


def statement(store: Store, name: str, sql: str) -> None:
    store.add([compiled(name, sql, store.dialect)])


@EVERYWHERE
@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("insert into tg_store values ('a', '1'), ('a', '2')", UniqueTaken),
        ("insert into tg_store (name) values ('a')", StoreError),
        ("update tg_job set state = 'lost'", StoreError),
        ("insert into tg_no_such_table values (1)", StoreError),
        ("this is no sql", StoreError),
    ],
    ids=["unique", "not null", "check", "no table", "syntax"],
)
@pytest.mark.parametrize("way", ["write", "read"])
def test_errors_of_the_database_become_ours_and_nothing_is_left(
    jobs: Jobs, sql: str, error: type[StoreError], way: str
) -> None:
    jobs.one()
    statement(jobs.store, "bad", sql)
    if way == "read" and error is UniqueTaken and jobs.store.dialect is Dialect.POSTGRES:
        error = StoreError  # it may not even try

    with pytest.raises(StoreError) as raised:
        getattr(jobs.store, way)(lambda tx: [tx.query("store_value", {"name": "x"}), tx.query("bad")])

    assert type(raised.value) is error
    assert raised.value.__cause__ is not None
    assert jobs.sql("select count(*) from tg_store") == [(0,)]
    assert len(jobs.claim()) == 1  # and the store still works


@EVERYWHERE
def test_what_the_work_raises_comes_through_as_it_is_and_undoes_the_work(jobs: Jobs) -> None:
    class Own(Exception):
        pass

    def work(tx: Tx) -> None:
        tx.query("store_put", {"name": "x", "value": "1"})
        raise Own

    with pytest.raises(Own):
        jobs.store.write(work)
    with pytest.raises(Own):
        jobs.store.read(lambda tx: (_ for _ in ()).throw(Own))

    assert jobs.store.read(lambda tx: tx.query("store_value", {"name": "x"})) == []


@EVERYWHERE
@pytest.mark.parametrize("name", ["no such statement", ""])
def test_a_statement_that_is_not_in_the_book_is_named(jobs: Jobs, name: str) -> None:
    with pytest.raises(KeyError, match=re.escape(repr(name))):
        jobs.store.read(lambda tx: tx.query(name))


@EVERYWHERE
def test_a_name_stands_once_in_the_book(jobs: Jobs) -> None:
    with pytest.raises(ValueError, match="is defined twice"):
        statement(jobs.store, "claim", "select 1")


@EVERYWHERE
def test_a_closed_store_says_so(db: Database, clock: Clock) -> None:
    store = db.open(clock)
    store.read(lambda tx: tx.query("clock"))
    store.close()
    store.close()

    for way in (store.write, store.read):
        with pytest.raises(StoreError):
            way(lambda tx: tx.query("clock"))


@pytest.mark.parametrize("db", SQLITE, indirect=True)
def test_closing_waits_for_the_write_that_is_under_way(db: Database, jobs: Jobs) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def work(tx: Tx) -> str:
        inside.set()
        go_on.wait(60)
        tx.query("store_put", {"name": "x", "value": "1"})
        return "written"

    found: list[str] = []
    writer = threading.Thread(target=lambda: found.append(jobs.store.write(work)))
    writer.start()
    inside.wait(60)
    closer = threading.Thread(target=jobs.store.close)
    closer.start()
    go_on.set()
    writer.join(60)
    closer.join(60)

    assert found == ["written"]
    jobs.store = db.open(jobs.clock)
    assert jobs.store.read(lambda tx: tx.query("store_value", {"name": "x"})) == [("1",)]


@pytest.mark.parametrize("db", SQLITE, indirect=True)
def test_a_write_inside_a_write_is_an_error_and_no_deadlock(db: Database, jobs: Jobs) -> None:
    with pytest.raises(RuntimeError, match="write"):
        jobs.store.write(lambda tx: jobs.put(new()))

    assert jobs.put(new())


@pytest.mark.parametrize("db", SQLITE, indirect=True)
def test_a_store_is_not_used_across_a_fork(db: Database, jobs: Jobs) -> None:
    child = os.fork()
    if not child:
        try:
            jobs.one()
        except StoreError:
            os._exit(7)
        os._exit(0)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_queue_that_was_used_is_not_used_across_a_fork(db: Database) -> None:
    with Queue(db.url, driver=db.driver) as q:

        @q.job()
        async def nothing(n: int) -> None: ...

        nothing.enqueue(1)
        child = os.fork()
        if not child:
            try:
                nothing.enqueue(2)
            except StoreError as error:
                os._exit(7 if "before a fork" in str(error) else 8)
            os._exit(0)

        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert nothing.enqueue(3).id == 2  # what the child tried has not touched it


@pytest.mark.parametrize("db", [APSW], indirect=True)
def test_a_file_that_another_process_holds_is_busy(db: Database, jobs: Jobs) -> None:
    other = apsw.Connection(str(db.path))
    other.execute("begin immediate")
    impatient = SqliteStore(str(db.path), core_statements(Dialect.SQLITE), jobs.clock, "apsw", patience=0.02)

    with pytest.raises(StoreBusy):
        Jobs(impatient, jobs.clock).one()
    other.execute("rollback")
    other.close()

    assert Jobs(impatient, jobs.clock).one()
    impatient.close()


@pytest.mark.parametrize("db", SQLITE, indirect=True)
def test_readers_see_the_last_commit_while_a_writer_is_at_work(db: Database, jobs: Jobs) -> None:
    jobs.one()

    def work(tx: Tx) -> int:
        tx.query("store_put", {"name": "x", "value": "1"})
        seen: list[int] = []
        reader = threading.Thread(
            target=lambda: seen.append(len(jobs.store.read(lambda tx: tx.query("store_value", {"name": "x"}))))
        )
        reader.start()
        reader.join(60)
        return seen[0]

    assert jobs.store.write(work) == 0


@pytest.mark.parametrize("db", SQLITE, indirect=True)
def test_threads_that_come_and_go_leave_no_connection_behind(db: Database, jobs: Jobs) -> None:
    def open_files() -> int:
        return len([each for each in Path("/proc/self/fd").iterdir() if each.resolve() == db.path.resolve()])

    jobs.fronts()
    before = open_files()
    for _ in range(50):
        thread = threading.Thread(target=jobs.fronts)
        thread.start()
        thread.join()

    assert open_files() <= before + 1


@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
def test_dead_connections_are_replaced_without_anybody_noticing(db: Database, jobs: Jobs) -> None:
    threads = [threading.Thread(target=lambda: jobs.store.read(lambda tx: tx.query("clock"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended(db)

    assert jobs.one()


def ended(db: Database) -> None:
    """The server ends every connection of ours."""
    with psycopg.connect(server_url(), autocommit=True) as killer:
        name = db.url.rpartition("application_name=")[2]
        killer.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s", (name,))


@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
def test_what_only_reads_is_repeated_when_its_end_is_lost(db: Database, jobs: Jobs) -> None:
    times = 0

    def work(tx: Tx) -> int:
        nonlocal times
        times += 1
        tx.query("clock")
        if times == 1:
            ended(db)
        return times

    assert jobs.store.read(work) == 2


@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
def test_a_queue_opens_although_the_server_goes_away_as_its_tables_are_made(db: Database, tmp_path: Path) -> None:
    """The connection ends within the commit, so that nobody can say what became of it."""
    dies = """
        create sequence times;
        create table fragile_commits (id integer);
        create function dies() returns trigger language plpgsql as $$ begin
            if nextval('times') = 1 then perform pg_terminate_backend(pg_backend_pid()); end if;
            return null;
        end $$;
        create constraint trigger dies after insert on fragile_commits deferrable initially deferred
            for each row execute function dies()
    """
    with psycopg.connect(db.url, autocommit=True) as server:
        server.execute(dies)
    (tmp_path / "0001_first.sql").write_text("insert into fragile_commits values (1);")
    q = Queue(db.url)
    q.db("fragile", statements="", migrations=tmp_path)

    assert q.store is not None  # it was opened, and so the tables were made
    q.close()
    with psycopg.connect(db.url) as server:
        assert server.execute("select id from fragile_commits").fetchall() == [(1,)]


@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
def test_a_connection_that_dies_in_the_middle_is_busy_and_nothing_is_written(db: Database, jobs: Jobs) -> None:
    def work(tx: Tx) -> None:
        tx.query("store_put", {"name": "x", "value": "1"})
        ended(db)
        tx.query("store_value", {"name": "x"})

    with pytest.raises(StoreBusy):
        jobs.store.write(work)

    assert jobs.store.read(lambda tx: tx.query("store_value", {"name": "x"})) == []


@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
def test_two_that_met_crosswise_are_both_done_in_the_end(db: Database, jobs: Jobs, clock: Clock) -> None:
    """Each holds what the other wants; the server ends one of them, and it is tried again."""
    jobs.put(new(), new())
    other = Jobs(db.open(clock), clock)
    statement_sql = "update tg_job set priority = priority + 1 where id = :id"
    for each in (jobs, other):
        statement(each.store, "bump", statement_sql)
    met = threading.Barrier(2)
    tries: list[int] = []

    def work(order: tuple[int, int]) -> Callable[[Tx], None]:
        def inside(tx: Tx) -> None:
            tries.append(order[0])
            tx.query("bump", {"id": order[0]})
            if len(tries) <= 2:
                met.wait(60)
            tx.query("bump", {"id": order[1]})

        return inside

    thread = threading.Thread(target=lambda: other.store.write(work((2, 1))))
    thread.start()
    jobs.store.write(work((1, 2)))
    thread.join(60)
    other.store.close()

    assert len(tries) >= 3  # a busy machine may need one more
    assert jobs.sql("select sum(priority) from tg_job") == [(4,)]
