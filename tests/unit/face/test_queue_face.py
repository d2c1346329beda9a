"""The queue as users hold it: everything wrong is said at once, in words, and before anything is written."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

import tidegate
from tidegate import Again, Backoff, Context, Done, Drained, Enqueued, Fail, JobState, Queue, Target, rules
from tidegate.errors import NotThere, Refused, SchemaTooNew, StoreError
from tidegate.runtime.clock import VirtualClock
from tidegate.store import gate_rows
from tidegate.store.migrate import core_migrations

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]


@dataclass(frozen=True)
class Submission:
    kind: str
    id: int
    user: str = "ada"


ARTIST = Submission("artist", 1)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def q(tmp_path: Path, clock: VirtualClock) -> Iterator[Queue]:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock, inline=True) as found:
        yield found


def rows(q: Queue) -> int:
    """How many jobs there are, of all states."""
    found = 0
    for id_ in range(1, 50):
        with contextlib.suppress(NotThere):
            found += bool(q.get(id_))
    return found


# -- opening ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("jobs.db", "url: 'jobs.db' is not allowed; give sqlite:///jobs.db or postgresql://"),
        ("mysql://host/db", "url: 'mysql' is not allowed"),
        ("sqlite://", "names no file; give sqlite:///jobs.db"),
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
    with pytest.raises(TypeError, match=r"is no text; give sqlite:///jobs\.db"):
        Queue(url)


def test_a_password_is_not_repeated_in_an_error() -> None:
    with pytest.raises(ValueError, match="url") as caught:
        Queue("postgras://ada:secret@host/db")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"driver": "mysql"}, "driver: 'mysql' is not allowed; give 'apsw' or 'sqlite3'"),
        ({"most_args": 0}, "most_args: 0 is not allowed"),
        ({"most_args": "1MB"}, "most_args: '1MB' is not allowed"),
        ({"retention": {"mail": {"running": "7d"}}}, "'running' is no state that a job ends in; give some of: done"),
        ({"retention": {"mail": {"done": "soon"}}}, "'soon' is no duration"),
        ({"retention": {"": {"done": 1}}}, "retention: '' is not allowed"),
    ],
)
def test_bad_settings_of_a_queue_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        Queue(f"sqlite:///{tmp_path / 'jobs.db'}", **options)


def test_a_driver_of_sqlite_is_no_use_to_postgresql() -> None:
    with pytest.raises(ValueError, match="is for SQLite only"):
        Queue("postgresql://host/db", driver="apsw")


def test_declaring_opens_nothing(tmp_path: Path) -> None:
    q = Queue(f"sqlite:///{tmp_path / 'folder' / 'jobs.db'}")
    q.job()(handler)

    assert list(tmp_path.iterdir()) == []
    q.close()
    with pytest.raises(StoreError, match="the queue is closed"):
        q.get(1)


def test_a_database_of_a_newer_version_is_refused_and_left_alone(q: Queue, tmp_path: Path) -> None:
    newer = {"app": "tidegate", "number": len(core_migrations()) + 1, "name": "x", "checksum": "x"}
    q.store.write(lambda tx: tx.all("migrated", newer))

    job = Queue(f"sqlite:///{tmp_path / 'jobs.db'}").job()(handler)
    with pytest.raises(SchemaTooNew, match="which this version does not know; update it"):
        job.enqueue(ARTIST)
    assert rows(q) == 0


# -- declaring -------------------------------------------------------------------------------------------------------


async def handler(a: Submission, job: Context) -> int:
    return a.id


TARGET = Target("lidarr")

WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"queue": ""}, ValueError, "queue: '' is not allowed; give 1 to 200 printable characters"),
    ({"queue": 7}, TypeError, "queue: 7 is no text"),
    ({"name": "a\nb"}, ValueError, "name: .* is not allowed"),
    ({"target": "lidarr"}, TypeError, "target: 'lidarr' is no Target"),
    ({"key": "user"}, TypeError, "key: 'user' is no function"),
    ({"unique": "id"}, TypeError, "unique: 'id' is no function"),
    ({"verify": 1}, TypeError, "verify: 1 is no function"),
    ({"while_": {"queued"}}, ValueError, "while_: it says how long a unique is held; give unique, too"),
    (
        {"unique": str, "while_": {"waiting"}},
        ValueError,
        "'waiting'.* is not allowed; give some of: queued, running, done",
    ),
    ({"unique": str, "while_": set()}, ValueError, "'queued' and 'running' must be among them"),
    ({"unique": str, "while_": "queued"}, TypeError, "while_: 'queued' is a text; give a set of states"),
    ({"attempts": 0}, ValueError, "attempts: 0 is not allowed; give a whole number from 1 to 1000"),
    ({"attempts": 1.5}, ValueError, "attempts: 1.5 is not allowed"),
    ({"attempts": True}, ValueError, "attempts: True is not allowed"),
    ({"per_code": {"timeout": 0}}, ValueError, r"per_code\['timeout'\]: 0 is not allowed"),
    ({"per_code": {"": 1}}, ValueError, "per_code: '' is no code; give 2 to 64 letters"),
    ({"per_code": {404: 1}}, ValueError, "per_code: 404 is no code"),
    ({"backoff": 30}, TypeError, "backoff: 30 is no Backoff"),
    ({"process": "yes"}, TypeError, r"process: 'yes' is not allowed; give True, False or Limits"),
    ({"cancellable": None}, TypeError, "cancellable: None is not allowed; give True or False"),
    ({"expires": "soon"}, ValueError, "expires: 'soon' is no duration"),
    ({"expires": 0}, ValueError, "expires: 0 is not allowed"),
]


@pytest.mark.parametrize(("said", "error", "message"), WRONG)
def test_what_is_wrong_about_a_kind_is_said_when_it_is_declared(
    said: dict[str, Any], error: type[Exception], message: str, q: Queue
) -> None:
    with pytest.raises(error, match=message):
        q.job(**said)(handler)
    q.job()(handler)  # and nothing of it stays


def test_an_unknown_setting_of_a_kind_is_a_type_error(q: Queue) -> None:
    with pytest.raises(TypeError, match="retries"):
        q.job(retries=3)  # type: ignore[call-arg]


def no_arguments() -> None: ...
def three(a: int, b: int, c: int) -> None: ...
def by_name(a: int, *, job: Context) -> None: ...
def any_number(*args: int) -> None: ...
def of_an_unknown_type(a: Unknown) -> None: ...
def of_a_stranger(a: Exception) -> None: ...
def yields(a: int) -> Iterator[int]:
    yield a


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (no_arguments, "no_arguments.* a handler takes its arguments, and a Context if it wants one"),
        (three, "a handler takes its arguments"),
        (by_name, "a handler takes its arguments"),
        (any_number, "a handler takes its arguments"),
        (of_an_unknown_type, "'Unknown' is not defined; the type of 'a' must be known when the program runs"),
        (of_a_stranger, "of_a_stranger: Exception cannot be stored; give plain values"),
        (yields, "yields yields, so nothing would run it to its end"),
        (7, "7 is no function"),
        (Submission, "is no function; declare a `def` or an `async def`"),
    ],
)
def test_what_cannot_be_a_handler_is_refused(fn: Any, message: str, q: Queue) -> None:
    with pytest.raises(TypeError, match=message):
        q.job()(fn)


def test_a_handler_may_have_more_parameters_with_defaults(q: Queue) -> None:
    @q.job()
    def plain(a: int, job: Context, factor: int = 2, **more: Any) -> int:
        return a * factor

    job = plain.enqueue(21)
    q.drain()
    assert job.result() == 42


def test_a_name_stands_for_one_kind(q: Queue) -> None:
    q.job(queue="a")(handler)
    q.job(queue="b")(handler)
    q.job(queue="a", name="other")(handler)
    with pytest.raises(ValueError, match=r"there is a kind 'a.handler' already; give this one another name"):
        q.job(queue="a")(handler)


def test_a_target_is_one_object(q: Queue) -> None:
    q.job(target=TARGET)(handler)
    q.job(target=TARGET, name="same")(handler)
    with pytest.raises(ValueError, match="there is another Target 'lidarr' on this queue; share one"):
        q.job(target=Target("lidarr"), name="twin")(handler)


def test_a_declared_job_is_still_the_function(q: Queue) -> None:
    @q.job()
    async def plain(a: int) -> int:
        """Doubles."""
        return 2 * a

    assert asyncio.run(plain(21)) == 42
    assert (vars(plain)["__name__"], plain.__doc__) == ("plain", "Doubles.")
    assert repr(plain) == "<job default.plain>"


def test_types_that_are_declared_inside_a_function_are_found(q: Queue) -> None:
    @dataclass
    class Inner:
        n: int

    @dataclass
    class Outer:
        inner: Inner

    seen = []

    @q.job()
    async def keep(a: Outer) -> None:
        seen.append(a)

    keep.enqueue(Outer(Inner(1)))
    q.drain()
    assert seen == [Outer(Inner(1))]


# -- putting in ------------------------------------------------------------------------------------------------------


BAD_ARGS: list[tuple[Any, type[Exception], str]] = [
    ("artist", TypeError, "arguments: 'artist' is no Submission"),
    ({"kind": "artist", "id": 1}, TypeError, "is no Submission"),
    (None, TypeError, "None is no Submission"),
    (Submission("artist", "1"), TypeError, "arguments.id: '1' is no int"),  # type: ignore[arg-type]
    (Submission("x" * 1_000_000, 1), ValueError, "bytes of JSON are more than the 1000000 allowed; store it elsewhere"),
]


@pytest.mark.parametrize(("args", "error", "message"), BAD_ARGS)
def test_arguments_that_do_not_fit_are_refused_before_anything_is_written(
    args: Any, error: type[Exception], message: str, q: Queue
) -> None:
    job = q.job()(handler)
    uses: list[Callable[[], object]] = [
        lambda: job.enqueue(args),
        lambda: asyncio.run(job.aenqueue(args)),
        lambda: job.enqueue_many([ARTIST, args]),
        lambda: job.refuse(args, "not_found"),
    ]
    for use in uses:
        with pytest.raises(error, match=message):
            use()
    assert rows(q) == 0


OPTIONS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"priority": 1001}, ValueError, "priority: 1001 is not allowed; give a whole number from -1000 to 1000"),
    ({"priority": "high"}, ValueError, "priority: 'high' is not allowed"),
    ({"due": "soon"}, ValueError, "due: 'soon' is no duration"),
    ({"due": -1}, ValueError, "due: -1 is not allowed"),
    ({"due": float("nan")}, ValueError, "due: nan is not allowed"),
    ({"due": [1]}, TypeError, "due: .* is no duration"),
    ({"after": ["artist"]}, TypeError, "after: 'artist' is no job; give what enqueue returned, or its number"),
    ({"after": [True]}, TypeError, "after: True is no job"),
    ({"after": [999]}, ValueError, "after: there is no job 999"),
    ({"connection": object()}, TypeError, "connection: "),
]


@pytest.mark.parametrize(("options", "error", "message"), OPTIONS)
def test_bad_options_of_an_enqueue_are_refused_before_anything_is_written(
    options: dict[str, Any], error: type[Exception], message: str, q: Queue
) -> None:
    job = q.job()(handler)

    with pytest.raises(error, match=message):
        job.enqueue(ARTIST, **options)
    assert rows(q) == 0


def test_a_connection_of_another_library_is_refused(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}", driver="apsw") as q:
        job = q.job()(handler)
        other = sqlite3.connect(":memory:")
        with pytest.raises(TypeError, match="it is of sqlite3, the queue uses apsw"):
            job.enqueue(ARTIST, connection=other)
        other.close()


def test_when_a_job_is_due_can_be_said_in_every_usual_way(q: Queue, clock: VirtualClock) -> None:
    job = q.job()(handler)
    now = clock.now()
    at = datetime.fromtimestamp(now + 60, UTC)
    for due in (60, 60.0, "1m", timedelta(minutes=1), at):
        assert job.enqueue(ARTIST, due=due).get().due_at == pytest.approx(now + 60)
    assert job.enqueue(ARTIST).get().due_at == pytest.approx(now)


def test_a_unique_job_is_there_once_and_the_twin_is_returned(q: Queue) -> None:
    job = q.job(unique=lambda a: (a.kind, a.id))(handler)
    first, twin, other = (
        job.enqueue(ARTIST),
        job.enqueue(Submission("artist", 1, "eve")),
        job.enqueue(Submission("x", 1)),
    )

    assert (first.created, twin.created, other.created) == (True, False, True)
    assert first.id == twin.id != other.id
    assert first == Enqueued(first.id, True, cast("Any", None), cast("Any", None))


def test_a_unique_of_none_is_no_unique(q: Queue) -> None:
    job = q.job(unique=lambda a: None)(handler)

    assert job.enqueue(ARTIST).id != job.enqueue(ARTIST).id


def test_long_and_strange_keys_are_told_apart(q: Queue) -> None:
    job = q.job(unique=lambda a: a.user, key=lambda a: a.user, target=TARGET)(handler)
    users = ["x" * 10_000, "x" * 9_999, "\ud800", "a\x00b", "", "naïve", "1"]
    found = [job.enqueue(Submission("artist", 1, user)) for user in users]

    assert all(each.created for each in found)
    assert len({each.get().lane for each in found}) == len(users)
    assert not any(job.enqueue(Submission("artist", 1, user)).created for user in users)


def test_a_unique_that_json_cannot_hold_is_refused(q: Queue) -> None:
    job = q.job(unique=lambda a: object())(handler)

    with pytest.raises(TypeError, match=r"unique: .* cannot be stored"):
        job.enqueue(ARTIST)


def test_a_job_can_be_refused_with_a_code_of_the_book_or_of_ones_own(q: Queue) -> None:
    job = q.job(target=Target("spotify", rules=rules.spotify))(handler)
    known, own = job.refuse(ARTIST, "scope_missing"), job.refuse(ARTIST, "NOT_PDF", "This is no PDF.")

    assert (known.get().error_code, known.get().error_message) == (
        "scope_missing",
        "Spotify wants your permission for this.",
    )
    assert (own.state(), own.get().error_message) == (JobState.FAILED, "This is no PDF.")
    with pytest.raises(ValueError, match="code: '' is no code"):
        job.refuse(ARTIST, "")


# -- what has become of it -------------------------------------------------------------------------------------------


def test_a_handle_tells_what_has_become_of_its_job(q: Queue) -> None:
    job = q.job()(handler).enqueue(ARTIST)
    assert (job.state(), job.result()) == (JobState.QUEUED, None)

    assert q.drain() == Drained(done=1, again=0, failed=0, held=0, remaining=0)
    found = q.get(job)
    assert (found.state, found.result, found.args) == (JobState.DONE, 1, {"kind": "artist", "id": 1, "user": "ada"})
    assert (job.state(), job.result(), job.get()) == (JobState.DONE, 1, found)
    assert [event.kind for event in q.events(job)] == ["queued", "processing", "done"]


def test_a_result_comes_back_with_the_type_that_was_announced(q: Queue) -> None:
    @q.job()
    async def same(a: Submission) -> Submission:
        return a

    @q.job()
    async def inside(a: Submission) -> Done[Submission] | None:
        return Done(a)

    @q.job()
    async def other_than_announced(a: int) -> int:
        return cast("int", "text")

    jobs: list[Enqueued[Any]] = [same.enqueue(ARTIST), inside.enqueue(ARTIST)]
    odd = other_than_announced.enqueue(1)
    q.drain()

    assert [job.result() for job in jobs] == [ARTIST, ARTIST]
    assert (odd.state(), odd.get().result) == (JobState.DONE, "text")


def test_waiting_ends_with_the_job(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def slow(a: int) -> int:
        await asyncio.sleep(100)
        return a

    async def main() -> None:
        job = slow.enqueue(7)
        stop = asyncio.Event()
        worker = asyncio.create_task(q.arun_worker(stop=stop))
        with pytest.raises(TimeoutError, match=r"job 1 is still running after 10s"):
            await job.wait("10s")
        assert (await job.wait()).state is JobState.DONE
        assert (await job.wait(0)).result == 7
        stop.set()
        await worker

    clock.run(main())


def test_a_job_that_nobody_knows_is_a_key_error(q: Queue) -> None:
    for ask in (q.get, q.cancel):
        with pytest.raises(NotThere, match="there is no job 7"):
            ask(7)
    with pytest.raises(TypeError, match="job: 'seven' is no job"):
        q.get("seven")  # type: ignore[arg-type]
    assert q.events(7) == []
    assert (q.retry(7), q.forget(7)) == (False, False)


def test_people_act_on_jobs(q: Queue) -> None:
    @q.job(cancellable=False)
    async def stubborn(a: int) -> None: ...

    @q.job(attempts=1)
    async def fails(a: int) -> None:
        raise Fail("not_found")

    waiting = q.job()(handler).enqueue(ARTIST, due="1h")
    failed, kept = fails.enqueue(1), stubborn.enqueue(1, due="1h")
    q.drain()

    assert q.cancel(waiting) == "cancelled"
    assert waiting.state() is JobState.CANCELLED
    with pytest.raises(Refused, match=r"'default\.stubborn', whose jobs cannot be cancelled"):
        q.cancel(kept)
    assert q.retry(failed)
    assert failed.state() is JobState.QUEUED
    assert not q.retry(failed)
    assert not q.forget(kept)
    assert q.forget(waiting, by="ada")
    with pytest.raises(NotThere):
        q.get(waiting)
    assert not q.forget(waiting)
    (event,) = q.store.read(lambda tx: gate_rows.events(tx, "queue", "default", 10))
    assert (event.kind, event.actor, event.fields["job"]) == ("job_forgotten", "ada", waiting.id)


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

    one.enqueue_many(["done", "again", "fail", "held", "done"])
    one.enqueue("done", due="1h")

    assert q.drain("default") == Drained(done=2, again=1, failed=1, held=1, remaining=3)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda q: q.drain("nothing"), "queue: there is no job declared for 'nothing'; known: default"),
        (lambda q: q.run_worker(queues={"nothing"}), "there is no job declared for 'nothing'"),
        (lambda q: q.drain(concurrency=0), "concurrency: 0 is not allowed"),
        (lambda q: q.run_worker(lease=1), "lease: 1 s end before a renewal"),
    ],
)
def test_bad_wishes_of_a_worker_are_refused(ask: Callable[[Queue], object], message: str, q: Queue) -> None:
    q.job()(handler)
    with pytest.raises(ValueError, match=message):
        ask(q)


def test_a_loop_is_not_blocked(q: Queue) -> None:
    q.job()(handler)

    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"`await q\.adrain\(\.\.\.\)` does not"):
            q.drain()
        with pytest.raises(RuntimeError, match=r"`await q\.arun_worker\(\.\.\.\)` does not"):
            q.run_worker()

    asyncio.run(main())


def test_a_queue_without_jobs_has_nothing_to_work_on(q: Queue) -> None:
    with pytest.raises(ValueError, match="there is no job declared on this queue"):
        q.drain()
