"""The queue as users hold it: it is opened, and works; everything wrong is said at once, in words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tests.unit.jobs.queueing import ARTIST, handler, rows
from tidegate import Again, Backoff, Fail, Queue, Target
from tidegate.errors import SchemaTooNew, StoreError
from tidegate.jobs import Drained
from tidegate.store.migrate import core_migrations

# -- opening ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("jobs.db", r"url: 'jobs\.db'.* sqlite:///jobs\.db"),
        ("mysql://host/db", "url: 'mysql' is not allowed"),
        ("sqlite://", r"sqlite:///jobs\.db"),
        ("sqlite:///", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///folder/", "names no file"),
        ("", "is not allowed"),
    ],
)
def test_a_bad_url_is_refused_at_once_with_what_is_allowed(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Queue(url)


@pytest.mark.parametrize("url", [None, 7, Path("jobs.db"), b"sqlite:///jobs.db"])
def test_a_url_is_a_text(url: Any) -> None:
    with pytest.raises(TypeError, match=r"sqlite:///jobs\.db"):
        Queue(url)


def test_a_password_is_not_repeated_in_an_error() -> None:
    with pytest.raises(ValueError, match="url") as caught:
        Queue("postgras://ada:secret@host/db")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"driver": "mysql"}, r"driver: .*'mysql'.*'apsw'.*'sqlite3'"),
        ({"max_args": 0}, "max_args: 0 is not allowed"),
        ({"max_args": "1MB"}, "max_args: '1MB' is not allowed"),
        ({"retention": {"mail": {"running": "7d"}}}, "'running'"),
        ({"retention": {"mail": {"done": "soon"}}}, "'soon' is not a duration"),
        ({"retention": {"": {"done": 1}}}, "retention: '' is not allowed"),
    ],
)
def test_bad_settings_of_a_queue_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        Queue(f"sqlite:///{tmp_path / 'jobs.db'}", **options)


def test_a_driver_of_sqlite_is_no_use_to_postgresql() -> None:
    with pytest.raises(ValueError, match="SQLite"):
        Queue("postgresql://host/db", driver="apsw")


def test_declaring_opens_nothing(tmp_path: Path) -> None:
    q = Queue(f"sqlite:///{tmp_path / 'folder' / 'jobs.db'}")
    q.job()(handler)

    assert list(tmp_path.iterdir()) == []
    q.close()
    with pytest.raises(StoreError, match="closed"):
        q.get(1)


def test_a_database_of_a_newer_version_is_refused_and_left_alone(q: Queue, tmp_path: Path) -> None:
    newer = {"app": "tidegate", "number": len(core_migrations()) + 1, "name": "x", "checksum": "x"}
    q.store.write(lambda tx: tx.query("migrated", newer))

    job = Queue(f"sqlite:///{tmp_path / 'jobs.db'}").job()(handler)
    with pytest.raises(SchemaTooNew, match=r"step \d+"):
        job.enqueue(ARTIST)
    assert rows(q) == 0


# -- working ---------------------------------------------------------------------------------------------------------


def test_a_cycle_says_what_it_did(q: Queue) -> None:
    gate = Target("gate")

    @q.job(backoff=Backoff("1h", cap="1h"), attempts=5)
    async def one(what: str) -> None:
        if what == "again":
            raise Again("5m")
        if what == "fail":
            raise Fail("not_found")
        if what == "held":
            raise tidegate.Held("gate", None, "paused", 0.0, None, 60.0)

    @q.job(target=gate)
    async def two(a: int) -> None: ...

    one.enqueue_many([("done",), ("again",), ("fail",), ("held",), ("done",)])
    one.options(due="1h").enqueue("done")

    assert q.drain("default") == Drained(done=2, again=1, failed=1, held=1, remaining=3)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda q: q.drain("nothing"), r"queue: .*'nothing'"),
        (lambda q: q.run_worker(queues={"nothing"}), "'nothing'"),
        (lambda q: q.drain(concurrency=0), "concurrency: 0 is not allowed"),
        (lambda q: q.run_worker(lease=1), "lease: 1 s"),
    ],
)
def test_bad_wishes_of_a_worker_are_refused(ask: Callable[[Queue], object], message: str, q: Queue) -> None:
    q.job()(handler)
    with pytest.raises(ValueError, match=message):
        ask(q)


def test_a_loop_is_not_blocked(q: Queue) -> None:
    q.job()(handler)

    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"`await q\.adrain\(\.\.\.\)`"):
            q.drain()
        with pytest.raises(RuntimeError, match=r"`await q\.arun_worker\(\.\.\.\)`"):
            q.run_worker()

    asyncio.run(main())


def test_a_queue_without_jobs_has_nothing_to_work_on(q: Queue) -> None:
    with pytest.raises(ValueError, match="declared"):
        q.drain()
