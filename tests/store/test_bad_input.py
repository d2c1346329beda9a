"""What is wrong is refused in clear words before a row is written, on both databases."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import apsw
import psycopg
import pytest

from tests.databases import APSW, BOTH, STDLIB, Database
from tests.store.jobs import rows
from tidegate import Queue
from tidegate.errors import SchemaTooNew
from tidegate.jobs import JobFunction
from tidegate.store.migrate import core_migrations

TABLES = ("tg_job", "tg_event", "tg_link", "tg_tally", "tg_target", "tg_hold", "tg_gate_event")
Use = Callable[["JobFunction[[Song], None]", Any], object]


@dataclass(frozen=True)
class Song:
    id: int
    more: Any = None


GOOD = Song(1)


@pytest.fixture
def q(db: Database) -> Iterator[Queue]:
    with Queue(db.url, driver=db.driver) as found:
        yield found


@pytest.fixture
def play(q: Queue) -> JobFunction[[Song], None]:
    return declared(q)


def declared(q: Queue, **said: Any) -> JobFunction[[Song], None]:
    @q.job(queue="songs", name="play", **said)
    async def play(song: Song) -> None: ...

    return play


def written(q: Queue) -> dict[str, int]:
    """How many rows each table has."""
    return {name: rows(q.store, f"select count(*) from {name}")[0][0] for name in TABLES}


def itself() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


BAD_ARGUMENTS: list[tuple[Any, type[Exception], str]] = [
    ("not a song", TypeError, r"play\(song: Song\): song\b.*'not a song'"),
    (Song("1"), TypeError, r"song\.id: '1' is not of type int"),  # type: ignore[arg-type]
    (Song(1, object()), TypeError, "song: .*object"),
    (Song(1, open), TypeError, "give plain values"),
    (Song(1, float("nan")), ValueError, "song: "),
    (Song(1, itself()), ValueError, "song: "),
    (Song(1, "x" * 1_000_000), ValueError, " 1000000 "),
]
USES: dict[str, Use] = {
    "enqueue": lambda play, args: play.enqueue(args),
    "aenqueue": lambda play, args: asyncio.run(play.aenqueue(args)),
    "enqueue_many": lambda play, args: play.enqueue_many([(GOOD,), (args,)]),
    "refuse": lambda play, args: play.refuse((args,), "not_found"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(
    ("args", "error", "says"), BAD_ARGUMENTS,
    ids=["another type", "a field of another type", "an object", "a function", "no number", "itself", "too large"],
)  # fmt: skip
def test_arguments_that_json_cannot_hold_are_refused(
    q: Queue, play: JobFunction[[Song], None], args: Any, error: type[Exception], says: str, use: Use
) -> None:
    before = written(q)

    with pytest.raises(error, match=says):
        use(play, args)
    assert written(q) == before
    assert play.enqueue(GOOD).created  # and the queue goes on


def test_how_large_arguments_may_be_is_a_setting(db: Database) -> None:
    with Queue(db.url, driver=db.driver, max_args=100) as q:
        play = declared(q)
        with pytest.raises(ValueError, match=" 100 "):
            play.enqueue(Song(1, "x" * 100))
        play.enqueue(Song(1, "x" * 50))
        assert written(q)["tg_job"] == 1


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"key": lambda song: object()}, "key: "),
        ({"unique": lambda song: object()}, "unique: "),
    ],
    ids=["key", "unique"],
)
def test_a_key_that_is_none_is_refused(q: Queue, said: dict[str, Any], says: str) -> None:
    play = declared(q, **said)
    before = written(q)

    with pytest.raises(TypeError, match=says):
        play.enqueue(GOOD)
    assert written(q) == before


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"priority": 1001}, "priority: 1001 is not allowed"),
        ({"due": "soon"}, "due: 'soon' is not a duration"),
        ({"after": [999]}, "after: .*999"),
    ],
    ids=["priority", "due", "after"],
)
def test_what_cannot_be_asked_of_an_enqueue_is_refused(
    q: Queue, play: JobFunction[[Song], None], options: dict[str, Any], says: str
) -> None:
    before = written(q)

    with pytest.raises(ValueError, match=says):
        play.options(**options).enqueue(GOOD)
    assert written(q) == before


@pytest.mark.parametrize("db", [APSW, STDLIB, "postgres"], indirect=True)
def test_a_connection_of_the_wrong_driver_is_refused(db: Database, q: Queue, play: JobFunction[[Song], None]) -> None:
    others: list[Any] = [object(), db.url]
    if db.name != STDLIB:
        others.append(sqlite3.connect(":memory:"))
    if db.name != APSW:
        others.append(apsw.Connection(":memory:"))
    before = written(q)

    for other in others:
        with pytest.raises(TypeError, match=rf"\b{db.driver or 'psycopg'}\b"):
            play.options(connection=other).enqueue(GOOD)
    for other in others[2:]:
        other.close()
    assert written(q) == before


def test_a_connection_of_psycopg_is_none_of_sqlites(tmp_path: Any) -> None:
    from tests.postgres import schema

    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}", driver="apsw") as q, schema() as url, psycopg.connect(url) as other:
        play = declared(q)
        with pytest.raises(TypeError, match=r"\bapsw\b.*\bpsycopg\b"):
            play.options(connection=other).enqueue(GOOD)
        assert written(q)["tg_job"] == 0


def test_a_schema_that_is_newer_than_the_program_is_left_alone(
    db: Database, q: Queue, play: JobFunction[[Song], None]
) -> None:
    newer = {"app": "tidegate", "number": len(core_migrations()) + 1, "name": "x", "checksum": "x"}
    q.store.write(lambda tx: tx.query("migrated", newer))
    before = written(q)
    try:
        with Queue(db.url, driver=db.driver) as late:
            late_play = declared(late)
            uses: list[Callable[[], object]] = [lambda: late_play.enqueue(GOOD), late.drain, lambda: late.get(1)]
            for use in uses:
                with pytest.raises(SchemaTooNew, match=r"step \d+"):
                    use()
        assert written(q) == before
    finally:
        q.store.write(lambda tx: tx.execute("delete from tg_migration where name = 'x'"))


def test_a_worker_for_a_queue_that_nobody_declared_does_not_begin(q: Queue, play: JobFunction[[Song], None]) -> None:
    before = written(q)

    with pytest.raises(ValueError, match=r"queue: .*'song'.* songs"):
        q.run_worker(queues={"song"})
    with pytest.raises(ValueError, match="'song'"):
        q.drain(queue="song")
    assert written(q) == before


@pytest.mark.parametrize("name", BOTH)
def test_a_url_that_names_no_database_is_refused_before_it_is_opened(name: str) -> None:
    url = {"sqlite-apsw": "sqlite:///", "postgres": "postgras://ada:secret@host/db"}[name]

    with pytest.raises(ValueError, match=r"sqlite:///jobs\.db") as caught:
        Queue(url)
    assert "secret" not in str(caught.value)
