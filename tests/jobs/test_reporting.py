"""A program's own targets in the store: seen by others, never in the way of a call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.databases import BOTH, Database
from tests.jobs.building import end
from tidegate import Target
from tidegate.clock import SYSTEM
from tidegate.errors import StoreError
from tidegate.events import Bus, Event, EventKind
from tidegate.guard import Tuning
from tidegate.jobs.queue import Queue
from tidegate.store.open import open_store
from tidegate.targets import table
from tidegate.targets.reporter import Reporter, reporter_of, this_program
from tidegate.targets.table import TargetRow
from tidegate.validation import key_text

both = pytest.mark.parametrize("db", BOTH, indirect=True)


def fails() -> None:
    raise ConnectionError("x")


def eventually(look: Callable[[], Any], seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
    return found


def row_of(q: Queue, name: str) -> TargetRow | None:
    return q.store.read(lambda tx: table.target(tx, name))


def ill(target: Target, times: int = 3) -> None:
    for _ in range(times):
        with pytest.raises(ConnectionError):
            target.call(fails)


@both
def test_transitions_and_a_summary_come_within_seconds(db: Database) -> None:
    with Queue(db.url, driver=db.driver) as q:
        target = Target("api", "sync", backoff=None, breaker={"consecutive": 3}, store=db.url, tuning=Tuning(bus=Bus()))
        before = time.time()
        ill(target)

        (event,) = eventually(lambda: q.target("api").events() if row_of(q, "api") else None)
        assert (event.kind, event.fields["from"], event.fields["to"]) == ("breaker_state_changed", "closed", "open")
        assert before <= event.at <= time.time()

        def said() -> Any:
            row = row_of(q, "api")
            (about,) = json.loads(row.summary).values() if row and row.summary else ({},)
            return about if about.get("breakers", {}).get("api", {}).get("state") == "open" else None

        about = eventually(said)
        assert (about["dropped"], about["unhealthy"]) == (0, 1)
        assert about["breakers"]["api"]["consecutive_failures"] == 3  # those that opened it
        end(reporter_of(db.url))


@both
def test_what_a_program_reports_does_not_touch_the_breaker_of_jobs(db: Database) -> None:
    with Queue(db.url, driver=db.driver) as q:
        jobs = Target("api", "sync", breaker=True)

        @q.job(target=jobs)
        async def call(n: int) -> None: ...

        target = Target("api", "sync", backoff=None, breaker={"consecutive": 1}, store=db.url, tuning=Tuning(bus=Bus()))
        ill(target, 1)
        eventually(lambda: (row := row_of(q, "api")) and row.summary)
        row = row_of(q, "api")
        assert row is not None
        assert (row.breaker.state, row.breaker.generation) == ("closed", 0)
        end(reporter_of(db.url))


@both
def test_an_event_names_its_key_as_people_read_it_also_one_that_no_database_keeps(db: Database) -> None:
    with Queue(db.url, driver=db.driver) as q:
        target = Target("api", "sync", store=db.url, tuning=Tuning(bus=Bus()))
        target.key("a\0b").disable("1h", by="ada")
        target.key("x" * 300).disable("1h", by="ada")

        told = eventually(lambda: row_of(q, "api") and q.target("api").events())
        assert [each.lane for each in reversed(told)] == ["ab", key_text("x" * 300)]
        end(reporter_of(db.url))


class Moody:
    """A target whose summary fails, once."""

    def __init__(self) -> None:
        self.asked = 0

    def summary(self) -> dict[str, Any]:
        self.asked += 1
        if self.asked == 1:
            raise RuntimeError("a key of the user's has no text")
        return {"unhealthy": 0}


def test_a_summary_that_fails_is_told_when_it_does_not_any_more(q: Queue) -> None:
    reporter, moody = Reporter(q.url, every=0.01), Moody()
    reporter.add("api", moody.summary, Bus())

    row = eventually(lambda: row_of(q, "api"))
    assert json.loads(row.summary)[this_program()]["unhealthy"] == 0
    end(reporter)


class Slow:
    """A target whose summary takes as long as it is told to."""

    def __init__(self) -> None:
        self.inside, self.go_on = threading.Event(), threading.Event()

    def summary(self) -> dict[str, Any]:
        self.inside.set()
        assert self.go_on.wait(60)
        return {"unhealthy": 0}


def test_one_that_was_closed_while_it_told_ends_also_when_another_has_begun_since(q: Queue) -> None:
    reporter, slow = Reporter(q.url, every=0.01), Slow()
    before = reporters()
    reporter.add("api", slow.summary, Bus())
    assert slow.inside.wait(60)
    (first,) = reporters() - before
    reporter.close()
    reporter.add("api", slow.summary, Bus())
    slow.go_on.set()

    eventually(lambda: first not in reporters())
    eventually(lambda: row_of(q, "api"))
    end(reporter)
    eventually(lambda: not reporters() - before)


def reporters() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "tidegate-report"}


def event(n: int) -> Event:
    fields = {"name": "api", "from": "closed", "to": "open", "n": n}
    return Event(kind=EventKind.BREAKER_STATE_CHANGED, at=float(n), target="api", fields=fields)


def test_a_store_that_is_away_is_no_trouble_to_calls_and_what_is_lost_is_counted(tmp_path: Path) -> None:
    folder = tmp_path / "no"
    folder.write_text("not a folder, so nothing can be opened below it")
    url = f"sqlite:///{folder}/jobs.db"
    target = Target(
        "api", "sync", backoff=None, breaker={"consecutive": 3, "timeout": 0.001}, store=url, tuning=Tuning(bus=Bus())
    )

    start = time.perf_counter()
    ill(target)
    assert time.perf_counter() - start < 10
    reporter = reporter_of(url)
    eventually(lambda: reporter.dropped)
    end(reporter)


def test_no_more_wait_to_be_told_than_memory_allows(tmp_path: Path) -> None:
    reporter = Reporter(f"sqlite:///{tmp_path}/jobs.db")
    reporter._targets["api"] = None  # type: ignore[assignment]  # noqa: SLF001 - no thread yet: nothing is told
    reporter._process = os.getpid()  # noqa: SLF001
    for n in range(1500):
        reporter.hear(event(n))

    assert reporter.dropped == 500


def test_events_of_other_targets_and_single_failures_are_not_told(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    bus = Bus()
    mine = Target("mine", "sync", backoff=None, store=url, tuning=Tuning(bus=bus))
    other = Target("other", "sync", backoff=None, breaker={"consecutive": 1}, tuning=Tuning(bus=bus))
    ill(other, 1)
    ill(mine, 1)
    end(reporter_of(url))

    store = open_store(url, now=SYSTEM.now)
    assert store.read(lambda tx: [row.name for row in table.targets(tx)]) == ["mine"]
    assert store.read(lambda tx: table.events(tx, "target", "mine")) == []
    store.close()


PROGRAM = """
import sys
from tidegate import Target
target = Target("api", "sync", backoff=None, breaker={"consecutive": 1}, store=sys.argv[1])
def fails(): raise ConnectionError("x")
try:
    target.call(fails)
except ConnectionError:
    pass
"""


@both
def test_a_program_that_ends_at_once_has_told_it(db: Database) -> None:
    with Queue(db.url, driver=db.driver) as q:
        assert q.store.now() > 0
        for _ in range(2):
            subprocess.run([sys.executable, "-c", PROGRAM, db.url], check=True, timeout=30, env=_environment())

        assert len(q.target("api").events()) == 2
        row = row_of(q, "api")
        assert row is not None
        assert len(json.loads(row.summary or "{}")) == 2  # both processes are shown


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_a_file_that_is_open_with_one_library_is_not_opened_with_the_other(tmp_path: Path) -> None:
    pytest.importorskip("apsw")
    url = f"sqlite:///{tmp_path}/jobs.db"
    first = open_store(url, now=SYSTEM.now, driver="sqlite3")
    with pytest.raises(StoreError, match="sqlite3"):
        open_store(url, now=SYSTEM.now, driver="apsw")
    beside = open_store(url, now=SYSTEM.now)
    assert beside.driver == "sqlite3"  # type: ignore[attr-defined]
    first.close()
    beside.close()
    open_store(url, now=SYSTEM.now, driver="apsw").close()


def test_a_store_must_be_a_url(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="url"):
        Target("api", "sync", store="jobs.db")


@both
def test_one_more_target_need_not_wait_for_the_next_report_to_hear_what_people_ordered(db: Database) -> None:
    reporter, heard = Reporter(db.url, every=3600), list[str]()

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def summary(self) -> dict[str, Any]:
            return {}

        def follow(self, _: object) -> None:
            heard.append(self.name)

    targets = [Named("first"), Named("second")]
    try:
        for each in targets:
            reporter.add(each.name, each.summary, Bus(), follow=each.follow)
            eventually(heard.copy)  # the first report is over when the second one comes
        eventually(lambda: set(heard) == {each.name for each in targets})
    finally:
        end(reporter)
