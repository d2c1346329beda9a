"""What a program that guards its calls by itself tells people: a row first, adopted by the next process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.databases import Database
from tests.jobs.building import end
from tidegate import Backoff, Cooldown, Target
from tidegate.clock import SYSTEM
from tidegate.events import Bus, Event, EventKind, Notice, NoticeKind
from tidegate.guard import Tuning
from tidegate.guard.network_guard import NetworkGuardPolicy
from tidegate.notices import inbox
from tidegate.notices.inbox import NoticeLine
from tidegate.store.base import Store
from tidegate.store.migrate import core_migrations, migrate
from tidegate.store.open import open_store
from tidegate.targets.reporter import Reporter, reporter_of

# What a program does in one life: the calls that are named, then it tells what its people heard.
PROGRAM = """
import json, os, sys, threading, time
from email.message import Message
from urllib.error import HTTPError
from tidegate import Target, subscribe
from tidegate.errors import Held
from tidegate.targets.reporter import reporter_of
from tidegate.targets import table as gate_rows
from tidegate.store.open import open_store

url, answers, early = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3] == "early"
made = []

def ask(user, status):
    made.append(status)
    if status != 200:
        raise HTTPError("http://svc.example/", status, "no", Message(), None)

with subscribe() as events:
    target = Target("svc", "sync", store=url)
    if not early:  # the store has been looked at before the first call
        store = open_store(url, now=time.time)
        while not ((row := store.read(lambda tx: gate_rows.target(tx, "svc"))) and f"-{os.getpid()}" in row.summary):
            time.sleep(0.02)
        store.close()
    began = time.monotonic()
    for user, operation, status in answers:
        guarded = target.guard(key="user", operation=operation)(ask)
        try:
            guarded(user, status)
        except (HTTPError, Held):
            pass
    took = time.monotonic() - began
    reporter_of(url).close()
    for thread in threading.enumerate():  # it may take longer than a program waits at its end
        if thread.name == "tidegate-report":
            thread.join()
    heard = [event.notice.kind for event in events.drain() if event.notice is not None]
print(json.dumps({"made": made, "heard": heard, "quick": took < 20}))
"""


@pytest.fixture
def store(db: Database) -> Iterator[Store]:
    found = open_store(db.url, now=SYSTEM.now, driver=db.driver)
    migrate(found, core_migrations())
    yield found
    found.close()


def life(db: Database, *answers: tuple[int, str, int], when: str) -> dict[str, Any]:
    """One process from its start to its end: (user, operation, status) of each call."""
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", PROGRAM, db.url, json.dumps(answers), when]
    done = subprocess.run(command, check=True, timeout=120, env=paths, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["quick"]
    return found


def rows(store: Store) -> list[tuple[str, str, str, bool]]:
    """The oldest first."""
    lines = store.read(inbox.list_notices).items[::-1]
    return [(line.kind, line.key, line.operation, line.open) for line in lines]


@pytest.mark.req("SYNC-06")
@pytest.mark.parametrize("when", ["early", "late"])
def test_a_restart_forgets_fatal_and_backoff_but_adopts_the_open_notice_and_tells_nobody_twice(
    db: Database, store: Store, when: str
) -> None:
    refused, limited, well = (7, "recent", 401), (8, "recent", 503), (7, "recent", 200)

    first = life(db, refused, refused, limited, limited, when=when)
    assert first["made"] == [401, 503]  # the second calls were held
    assert first["heard"] == ["fatal"]
    assert rows(store) == [("fatal", "7", "", True)]

    second = life(db, refused, refused, limited, when=when)
    assert second["made"] == [401, 503]  # each first call was made at once
    assert second["heard"] == []
    assert rows(store) == [("fatal", "7", "", True)]

    third = life(db, well, when="late")
    assert third == {"made": [200], "heard": ["recovered"], "quick": True}
    assert rows(store) == [("fatal", "7", "", False), ("recovered", "7", "", False)]

    fourth = life(db, well, refused, when=when)
    assert fourth["heard"] == ["fatal"]  # another episode
    assert [row[0] for row in rows(store)] == ["fatal", "recovered", "fatal"]


def test_a_notice_of_one_operation_is_ended_by_that_operation_in_the_next_process(db: Database, store: Store) -> None:
    life(db, (7, "likes", 403), when="early")
    assert rows(store) == [("fatal", "7", "likes", True)]

    assert life(db, (7, "recent", 200), (7, "likes", 403), when="late")["heard"] == []
    assert life(db, (7, "likes", 200), when="late")["heard"] == ["recovered"]
    assert rows(store) == [("fatal", "7", "likes", False), ("recovered", "7", "likes", False)]


def test_another_reason_after_a_restart_is_news(db: Database, store: Store) -> None:
    life(db, (7, "recent", 401), when="early")

    assert life(db, (7, "recent", 402), when="late")["heard"] == ["fatal"]
    assert [(line.code, line.open) for line in store.read(inbox.list_notices).items] == [
        ("quota_exhausted", True), ("unauthorized", False),
    ]  # fmt: skip


# -- in one process ------------------------------------------------------------------------------------------------


def eventually(look: Callable[[], Any], seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
    return found


def refuses(status: int) -> Callable[[], None]:
    def call() -> None:
        if status != 200:
            raise HTTPError("http://svc.example/", status, "no", None, None)  # type: ignore[arg-type]

    return call


def answered(target: Any, status: int) -> None:
    if status == 200:
        target.call(refuses(200))
        return
    with pytest.raises(HTTPError):
        target.call(refuses(status))


class Hearing:
    """The notices of a bus."""

    def __init__(self) -> None:
        self.bus, self.heard = Bus(), list[Notice]()
        self.bus.attach(self._hear)

    def _hear(self, event: Event) -> None:
        if event.kind is EventKind.NOTICE and event.notice is not None:
            self.heard.append(event.notice)

    def kinds(self) -> list[str]:
        return [str(notice.kind) for notice in self.heard]


def lines(store: Store) -> list[NoticeLine]:
    return store.read(inbox.list_notices).items[::-1]


def test_a_notice_is_heard_when_it_is_a_row_with_the_words_of_the_code_book(db: Database, store: Store) -> None:
    hearing = Hearing()
    target = Target("svc", "sync", store=db.url, user=lambda key: f"user-{key}", tuning=Tuning(bus=hearing.bus))

    answered(target.key(7), 401)

    eventually(hearing.kinds)
    (line,), (notice,) = lines(store), hearing.heard
    assert (line.title, f"{line.message} {line.advice}") == (notice.title, notice.message)
    assert (line.level, line.subject, line.name, line.key, line.user) == ("error", "target", "svc", "7", "user-7")
    assert line.episode == notice.episode
    end(reporter_of(db.url))


def test_who_clears_a_key_has_dealt_with_it_and_a_rest_ends_with_it(db: Database, store: Store) -> None:
    hearing = Hearing()
    target = Target(
        "svc",
        "sync",
        backoff=None,
        cooldown=Cooldown({"gone": (1, "1h")}),
        store=db.url,
        tuning=Tuning(bus=hearing.bus),
    )
    answered(target.key(7), 401)
    answered(target.key(8), 410)
    answered(target.key(9), 410)
    eventually(lambda: len(rows(store)) == 3)
    assert {row[:2] for row in rows(store)} == {("fatal", "7"), ("disabled", "8"), ("disabled", "9")}

    target.key(7).clear()
    target.key(8).enable()
    eventually(lambda: [row[1] for row in rows(store) if row[3]] == ["9"])
    answered(target.key(7), 401)
    eventually(lambda: hearing.kinds() == ["fatal", "fatal"])
    end(reporter_of(db.url))


def test_our_own_network_is_a_notice_of_this_machine_and_ends_when_it_is_back(db: Database, store: Store) -> None:
    hearing = Hearing()
    target = Target(
        "svc",
        "sync",
        backoff=None,
        store=db.url,
        self_guard=NetworkGuardPolicy(hosts=3, share=1),
        tuning=Tuning(bus=hearing.bus),
    )

    def fetch(host: str) -> None:
        error = ConnectionRefusedError("x")
        error.request = type("Request", (), {"url": f"https://{host}/feed"})()  # type: ignore[attr-defined]
        raise error

    for n in range(4):
        with pytest.raises(ConnectionRefusedError):
            target.key(n).call(fetch, f"host-{n}.test")
    eventually(lambda: hearing.kinds() == ["own_link"])
    (line,) = lines(store)
    assert (line.subject, line.name, line.key, line.open) == ("server", socket.gethostname(), "", True)

    hearing.bus.publish(Event(kind=EventKind.OWN_LINK_BACK, at=1.0, target="svc"))
    eventually(lambda: not lines(store)[0].open)
    end(reporter_of(db.url))


def test_while_the_store_is_away_people_hear_at_once_and_the_row_comes_later(tmp_path: Path) -> None:
    folder = tmp_path / "away"
    folder.write_text("not a folder yet, so nothing can be opened below it")
    url = f"sqlite:///{folder}/jobs.db"
    hearing = Hearing()
    target = Target("svc", "sync", store=url, tuning=Tuning(bus=hearing.bus))

    answered(target.key(7), 401)
    eventually(hearing.kinds)
    folder.unlink()
    folder.mkdir()
    reporter = reporter_of(url)
    target.key(7).clear()  # something new to tell: it is tried again
    eventually(lambda: (folder / "jobs.db").exists() and not reporter._late)  # noqa: SLF001 - nothing else says so
    end(reporter)

    store = open_store(url, now=SYSTEM.now)
    assert rows(store) == [("fatal", "7", "", False)]
    store.close()
    assert hearing.kinds() == ["fatal"]


def test_notices_that_nobody_can_keep_are_heard_all_the_same(tmp_path: Path) -> None:
    hearing = Hearing()
    reporter = Reporter(f"sqlite:///{tmp_path}/jobs.db")
    reporter._process = os.getpid()  # noqa: SLF001 - no thread: nothing is taken away
    tell = reporter.notices_for(hearing.bus)
    for n in range(1200):
        notice = Notice(kind=NoticeKind.FATAL, target="svc", key=n, episode=1.0, title="T", message="M.")
        tell(Event(kind=EventKind.NOTICE, at=1.0, target="svc", key=n, notice=notice))

    assert len(hearing.heard) == 200
    assert reporter.dropped == 200


@pytest.mark.parametrize(("status", "operation"), [(401, ""), (403, "fetch")])
def test_a_fatal_fault_without_a_key_is_resolved_by_the_next_success_and_not_told_again(
    db: Database, store: Store, status: int, operation: str
) -> None:
    hearing = Hearing()
    target = Target("svc", store=db.url, self_guard=False, tuning=Tuning(bus=hearing.bus))

    @target.guard(operation="fetch")
    def fetch(status: int) -> None:
        if status != 200:
            raise HTTPError("http://svc.example/", status, "no", Message(), None)

    def fetch_refused() -> None:
        with pytest.raises(HTTPError):
            fetch(status)

    fetch_refused()
    eventually(lambda: rows(store) == [("fatal", "", operation, True)])
    fetch(200)
    eventually(lambda: rows(store) == [("fatal", "", operation, False)])
    assert target._pipeline.keys.is_healthy  # noqa: SLF001 - the hot path asks this
    fetch_refused()
    fetch(200)
    end(reporter_of(db.url))
    assert rows(store) == [("fatal", "", operation, False)]
    assert hearing.kinds() == ["fatal"]


def test_a_key_that_is_well_costs_nothing_after_its_notice_has_ended(db: Database, store: Store) -> None:
    hearing = Hearing()
    answered(Target("svc", "sync", backoff=Backoff(30), store=db.url, tuning=Tuning(bus=hearing.bus)).key(7), 401)
    eventually(hearing.kinds)
    end(reporter_of(db.url))

    again = Target("svc", "sync", backoff=Backoff(30), store=db.url, tuning=Tuning(bus=hearing.bus))
    eventually(lambda: not again._pipeline.keys.is_idle)  # noqa: SLF001 - the hot path asks this
    answered(again.key(7), 200)
    assert again._pipeline.keys.is_idle  # noqa: SLF001
    assert again.unhealthy() == []
    eventually(lambda: hearing.kinds() == ["fatal", "recovered"])
    end(reporter_of(db.url))
