"""PgBouncer in transaction mode: each transaction gets another server connection, and none of them may hold state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from tests import pgbouncer, postgres
from tests.pgbouncer import PgBouncer
from tests.store.jobs import Clock, Jobs
from tidegate import Queue
from tidegate.errors import StoreBusy, StoreError
from tidegate.store.base import Tx
from tidegate.store.open import check_listen_url, core_statements, open_read_only, open_store, watcher
from tidegate.store.postgres import PostgresStore
from tidegate.store.postgres_url import PostgresAddress
from tidegate.store.sql import Dialect, Statement

BACKEND = Statement("backend", "select pg_backend_pid()")
SETTINGS = Statement(
    "settings",
    "select current_setting('search_path'), current_setting('statement_timeout'), current_setting('lock_timeout'),"
    " current_setting('idle_in_transaction_session_timeout'), current_setting('application_name')",
)
PREPARED = "select count(*) from pg_prepared_statements"


@pytest.fixture
def direct() -> Iterator[str]:
    with postgres.schema() as url:
        yield url


@pytest.fixture
def pooler() -> PgBouncer:
    pgbouncer.require()
    return pgbouncer.shared()


def schema_of(url: str) -> str:
    return url.rpartition("=")[2]


def until(found: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not found():
        assert time.monotonic() < end
        time.sleep(0.02)


def opened(url: str, clock: Clock, **more: Any) -> PostgresStore:
    store = PostgresStore(url, core_statements(Dialect.POSTGRES), clock, **more)
    store.add([BACKEND, SETTINGS])
    return store


@pytest.mark.parametrize("pipelined", [False, True])
def test_settings_hold_in_each_transaction_whatever_connection_it_gets(
    direct: str, pooler: PgBouncer, clock: Clock, pipelined: bool
) -> None:
    with closing(opened(pooler.url(direct), clock, pipelined=pipelined)) as store:
        seen = {store.write(lambda tx: tx.query("settings")[0]) for _ in range(20)}
        seen |= {store.read(lambda tx: tx.query("settings")[0]) for _ in range(20)}
        schema = schema_of(direct)
        assert seen == {(schema, "10s", "5s", "30s", schema)}


@pytest.mark.parametrize("pipelined", [False, True])
def test_transactions_leave_no_setting_and_no_prepared_statement_behind(
    direct: str, clock: Clock, pipelined: bool
) -> None:
    with pgbouncer.running(postgres.server_url(), pool_size=1) as one:
        with closing(opened(one.url(direct), clock, pipelined=pipelined)) as store:
            jobs = Jobs(store, clock)
            jobs.migrate()
            for _ in range(20):
                jobs.one()
        plain = f"postgresql://postgres@127.0.0.1:{one.port}/postgres"
        with psycopg.connect(plain, autocommit=True, prepare_threshold=None) as connection:
            assert connection.execute(PREPARED).fetchone() == (0,)
            assert connection.execute("show search_path").fetchone() == ('"$user", public',)
            assert connection.execute("show statement_timeout").fetchone() == ("0",)


def test_more_clients_than_server_connections_take_turns(direct: str, clock: Clock) -> None:
    with pgbouncer.running(postgres.server_url(), pool_size=2) as pooler:
        stores = [opened(pooler.url(direct), clock) for _ in range(4)]
        try:
            Jobs(stores[0], clock).migrate()
            threads = [
                threading.Thread(target=lambda each=each: [Jobs(each, clock).one() for _ in range(25)])
                for each in stores
                for _ in range(2)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            with psycopg.connect(direct) as connection:
                assert connection.execute("select count(*) from tg_job").fetchone() == (200,)
            assert pgbouncer.backends(direct, schema_of(direct)) <= 3  # two, and the one that asks
        finally:
            for store in stores:
                store.close()


@pytest.mark.parametrize(
    "settings", ["", "ignore_startup_parameters = options"], ids=["refuses options", "drops options"]
)
def test_a_pooler_without_the_setting_is_named_and_so_is_the_setting(direct: str, clock: Clock, settings: str) -> None:
    with pgbouncer.running(postgres.server_url(), settings) as pooler:
        url = pooler.without_setting(direct)
        with pytest.raises(StoreError, match=r"PgBouncer.*pooled=true") as raised:
            open_store(url, now=clock)
        assert not isinstance(raised.value, StoreBusy)
        with pytest.raises(StoreError, match=r"PgBouncer.*pooled=true") as raised, open_read_only(url, clock):
            pass
        assert not isinstance(raised.value, StoreBusy)


def test_a_prepared_statement_that_another_client_made_points_to_the_setting(direct: str, clock: Clock) -> None:
    with closing(opened(direct, clock, connections=1)) as store:
        store.add([Statement("prepare", "prepare _pg3_0 as select 1", returns=False)])
        store.write(lambda tx: tx.query("prepare"))

        def repeat() -> None:
            for _ in range(10):  # psycopg prepares what it has seen five times
                store.write(lambda tx: tx.query("backend"))

        with pytest.raises(StoreError, match=r"pooled=true"):
            repeat()


def test_a_database_that_is_not_behind_the_pooler_is_said_at_once(pooler: PgBouncer, clock: Clock) -> None:
    with pytest.raises(StoreError, match="does not exist") as raised:
        open_store(f"postgresql://postgres@127.0.0.1:{pooler.port}/no_such?pooled=true", now=clock)
    assert not isinstance(raised.value, StoreBusy)


@pytest.mark.parametrize("pipelined", [False, True])
def test_a_server_connection_that_died_is_replaced_without_an_error(
    direct: str, pooler: PgBouncer, clock: Clock, pipelined: bool
) -> None:
    with (
        closing(opened(pooler.url(direct), clock, pipelined=pipelined)) as store,
        psycopg.connect(postgres.server_url(), autocommit=True) as admin,
    ):
        for _ in range(10):
            before = store.write(lambda tx: tx.query("backend"))[0][0]
            admin.execute("select pg_terminate_backend(%s)", (before,))
            assert store.write(lambda tx: tx.query("backend"))[0][0] != before


def test_a_pooler_that_was_killed_and_came_back_is_used_again(direct: str, clock: Clock) -> None:
    with (
        pgbouncer.running(postgres.server_url()) as pooler,
        closing(opened(pooler.url(direct), clock, connections=2)) as store,
    ):
        store.write(lambda tx: tx.query("backend"))
        pooler.kill()
        pooler.start()
        assert store.write(lambda tx: tx.query("backend"))


def test_what_is_checked_on_a_new_connection_is_checked_once_on_each_connection_to_the_server(
    direct: str, pooler: PgBouncer, clock: Clock
) -> None:
    with closing(opened(pooler.url(direct), clock)) as store:
        checked, used = list[int](), set[int]()

        def check(tx: Tx) -> None:
            checked.append(tx.query("backend")[0][0])

        store.checks.add(check)
        for _ in range(3):
            with psycopg.connect(postgres.server_url(), autocommit=True) as admin:
                used |= {store.write(lambda tx: tx.query("backend"))[0][0] for _ in range(10)}
                for pid in used:  # the server is replaced, and the connections to the pooler stay
                    admin.execute("select pg_terminate_backend(%s)", (pid,))
                store.read(lambda tx: tx.query("backend"))
        assert sorted(checked) == sorted(used)
        assert len(used) >= 3


def test_a_look_at_a_database_behind_a_pooler_sees_the_schema_of_the_url(
    direct: str, pooler: PgBouncer, clock: Clock
) -> None:
    with closing(opened(direct, clock)) as store:
        Jobs(store, clock).migrate()
        with open_read_only(pooler.url(direct), clock) as found:
            assert len(found.applied) > 0
            assert found.refuses == ""


def test_a_job_is_put_in_on_the_users_own_connection_through_the_pooler(direct: str, pooler: PgBouncer) -> None:
    with Queue(pooler.url(direct)) as q:

        @q.job()
        def one(n: int) -> None: ...

        assert q.store.now() > 0
        plain = f"postgresql://postgres@127.0.0.1:{pooler.port}/postgres"
        with psycopg.connect(plain, prepare_threshold=None) as mine:
            mine.execute(f"set local search_path = {schema_of(direct)}")
            job = one.options(connection=mine).enqueue(1)
        assert job.state() == "queued"
        with psycopg.connect(plain, prepare_threshold=None) as mine, pytest.raises(ValueError, match="schema"):
            one.options(connection=mine).enqueue(2)


def test_workers_poll_behind_a_pooler_and_listen_where_a_direct_url_is_given(
    direct: str, pooler: PgBouncer, clock: Clock
) -> None:
    with closing(opened(pooler.url(direct), clock)) as polls:
        assert watcher(polls) is None
    with closing(opened(pooler.url(direct), clock, listen_url=direct)) as listens:
        watch = watcher(listens)
        assert watch is not None
        Jobs(listens, clock).migrate()
        woken, stop = threading.Semaphore(0), threading.Event()
        thread = threading.Thread(target=watch, args=(woken.release, stop))
        thread.start()
        try:
            assert woken.acquire(timeout=60)  # it listens now
            listens.announce()  # through the pooler
            assert woken.acquire(timeout=60)
        finally:
            stop.set()
            thread.join(60)


def test_a_listen_url_that_is_a_pooler_is_logged_and_work_goes_on(
    direct: str, pooler: PgBouncer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(opened(pooler.url(direct), clock, listen_url=pooler.without_setting(direct))) as store:
        watch = watcher(store)
        assert watch is not None
        stop = threading.Event()
        thread = threading.Thread(target=watch, args=(lambda: None, stop))
        thread.start()
        until(lambda: [each for each in caplog.records if each.message.startswith("listen_refused")])
        stop.set()
        thread.join(60)
        assert store.read(lambda tx: tx.query("settings"))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://u@h/x?pooled=yes", "pooled .*'yes'"),
        ("postgresql://u@h/x?pooled=true&options=-d%205", "options .*-c name=value"),
    ],
)
def test_a_pooled_url_that_is_not_valid_says_why(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"url: .*{why}"):
        PostgresAddress.of(url)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("-c search_path=a,b", {"search_path": "a,b"}),
        ("-csearch_path=a --work-mem=8MB", {"search_path": "a", "work_mem": "8MB"}),
        ("-c search_path=a\\ b\\\\c -c lock_timeout=1s", {"search_path": "a b\\c", "lock_timeout": "1s"}),
    ],
)
def test_options_of_the_url_become_settings_of_each_transaction(options: str, expected: dict[str, str]) -> None:
    found = PostgresAddress.of(f"postgresql://u@h/x?options={quote(options)}&pooled=true")

    assert {name: found.settings[name] for name in expected} == expected
    assert "options" not in found.conninfo


@pytest.mark.parametrize(
    ("listen_url", "url"),
    [
        ("sqlite:///jobs.db", "postgresql://u@h/x?pooled=true"),
        ("postgresql://u@h/x?pooled=true", "postgresql://u@h/x?pooled=true"),
        ("postgresql://u@h/x", "sqlite:///jobs.db"),
    ],
)
def test_a_listen_url_is_a_direct_connection_to_postgresql(listen_url: str, url: str) -> None:
    with pytest.raises(ValueError, match="listen_url: "):
        check_listen_url(listen_url, url)
    with pytest.raises(ValueError, match="listen_url: "):
        Queue(url, listen_url=listen_url)
