"""`tidegate db`: the schema, copies that are put back under running workers, and checks that find what is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.databases import POSTGRES, Database
from tests.text import names, numbers
from tests.unit.cli.conftest import Command
from tidegate import Target
from tidegate.cli.exits import Exit
from tidegate.errors import LeaseLost
from tidegate.jobs import claim as job_claim
from tidegate.jobs import settle
from tidegate.jobs.claim import ReadyKey
from tidegate.jobs.context import Context
from tidegate.jobs.job import JobState
from tidegate.jobs.queue import Queue
from tidegate.jobs.restore import JUMP
from tidegate.store.migrate import core_migrations

STEPS = [f"{step.number:04} {step.name}" for step in core_migrations()]


@pytest.fixture
def q(url: str) -> Iterator[Queue]:
    with Queue(url) as queue:
        yield queue


def sending(q: Queue, **options: Any) -> Any:
    @q.job(queue="mail", name="send", target=Target("api", breaker=True), **options)
    async def send(n: int) -> None: ...

    return send


def test_migrate_makes_a_database_and_then_has_nothing_to_do(command: Command, url: str) -> None:
    assert command("db", "migrate", "--db", url).out.splitlines() == [f"applied {step}" for step in STEPS]
    assert command("db", "migrate", "--db", url).out.count("\n") == 1
    assert json.loads(command("db", "migrate", "--db", url, "--json").out) == {"applied": []}


def test_status_says_what_is_there_and_what_is_missing(command: Command, url: str) -> None:
    Path("jobs.db").touch()
    before = command("db", "status", "--db", url, "--json")
    assert before.code == Exit.NEGATIVE
    assert json.loads(before.out)["pending"] == STEPS

    command("db", "migrate", "--db", url)
    with Queue(url) as q:
        sending(q).enqueue(1)
    after = command("db", "status", "--db", url, "--json")
    assert after.code == Exit.OK
    about = json.loads(after.out)
    assert (about["pending"], about["epoch"], about["queues"]["mail"]) == ([], 0, {"ready": 1})
    assert "mail: 1 ready" in command("db", "status", "--db", url).out


def test_status_makes_no_database_where_there_is_none(command: Command, tmp_path: Path) -> None:
    run = command("db", "status", "--db", f"sqlite:///{tmp_path / 'folder' / 'none.db'}")
    assert (run.code, list(tmp_path.iterdir())) == (Exit.NOT_FOUND, [])


def test_asking_writes_nothing_into_a_database_of_somebody_else(command: Command, url: str) -> None:
    with contextlib.closing(sqlite3.connect("jobs.db")) as theirs:
        theirs.execute("create table song (id integer primary key)")
    before = Path("jobs.db").read_bytes()

    assert command("db", "status", "--db", url).code == Exit.NEGATIVE
    assert command("jobs", "list", "--db", url).code == Exit.CONFIGURATION
    with contextlib.closing(sqlite3.connect("jobs.db")) as theirs:
        assert theirs.execute("select name from sqlite_master").fetchall() == [("song",)]
    assert len(Path("jobs.db").read_bytes()) == len(before)


def test_a_schema_that_is_newer_than_the_program_is_refused(command: Command, url: str, q: Queue) -> None:
    row = {"app": "tidegate", "number": len(STEPS) + 1, "name": "later", "checksum": "x"}
    q.store.write(lambda tx: tx.query("migrated", row))

    run = command("db", "status", "--db", url)

    assert (run.code, run.err.count("\n")) == (Exit.CONFIGURATION, 1)
    assert numbers(run.err) == [len(STEPS) + 1]


def test_a_copy_is_made_while_others_write_and_appears_whole(command: Command, url: str, q: Queue) -> None:
    sending(q).enqueue_many([(1,), (2,), (3,)])

    run = command("db", "backup", "copy.db", "--db", url)

    assert run.code == 0
    assert stat.S_IMODE(Path("copy.db").stat().st_mode) == 0o600
    with Queue("sqlite:///copy.db") as copy:
        assert copy.get(3).state is JobState.QUEUED
    assert sorted(path.name for path in Path().iterdir() if path.name.startswith(".")) == []


def test_a_copy_does_not_write_over_a_file(command: Command, url: str, q: Queue) -> None:
    assert q.store.now() > 0
    Path("copy.db").write_text("precious")

    run = command("db", "backup", "copy.db", "--db", url)
    assert (run.code, Path("copy.db").read_text()) == (Exit.REFUSED, "precious")
    assert command("db", "backup", "copy.db", "--replace", "--db", url).code == 0


def claim(q: Queue, worker: str = "old") -> Any:
    """One job under a lease, as a worker has it."""
    (job,) = q.store.write(lambda tx: job_claim.claim(tx, ReadyKey("mail", "api", ""), 1, worker, 30))
    return job


def test_the_database_is_not_its_own_copy(command: Command, url: str, q: Queue) -> None:
    send = sending(q)
    send.enqueue(1)
    Path("alias.db").symlink_to("jobs.db")
    before = Path("jobs.db").stat().st_ino

    for name in ("jobs.db", "alias.db"):
        for made in ("backup", "--replace"), ("restore", "--yes"):
            run = command("db", made[0], name, made[1], "--db", url)
            assert (run.code, run.out, name in run.err) == (Exit.REFUSED, "", True)
    send.enqueue(2)
    assert Path("jobs.db").stat().st_ino == before
    assert json.loads(command("db", "status", "--db", url, "--json").out)["queues"]["mail"] == {"ready": 2}


def test_after_a_restore_leases_from_before_are_refused(command: Command, url: str, q: Queue) -> None:
    send = sending(q)
    job = send.enqueue(1)
    command("db", "backup", "copy.db", "--db", url)
    held = claim(q)  # after the copy was made: the copy has the job ready, with the fence before this one

    run = command("db", "restore", "copy.db", "--yes", "--db", url, "--json")

    assert json.loads(run.out) == {"epoch": 1, "requeued": 0}
    assert q.get(job).state is JobState.QUEUED
    again = claim(q, "new")
    assert again.id == held.id
    assert again.fence == held.fence + JUMP
    assert not q.store.write(lambda tx: job_claim.renew(tx, [held], 30))
    assert not q.store.write(lambda tx: job_claim.save(tx, held.id, held.fence, "{}"))


def test_after_a_restore_no_id_is_given_out_again(command: Command, url: str, q: Queue) -> None:
    send = sending(q)
    send.enqueue(1)
    command("db", "backup", "copy.db", "--db", url)
    lost = send.enqueue(2)

    command("db", "restore", "copy.db", "--yes", "--db", url)

    assert send.enqueue(3).id > lost.id + JUMP / 2


def test_what_ran_when_the_copy_was_made_is_queued_again_and_breakers_are_half_open(
    command: Command, url: str, q: Queue
) -> None:
    send = sending(q)
    job = send.enqueue(1)
    claim(q)
    q.target("api").force("open", "1h")
    command("db", "backup", "copy.db", "--db", url)

    run = command("db", "restore", "copy.db", "--yes", "--db", url)

    assert numbers(run.out) == [1, 1]
    assert (q.get(job).state, q.get(job).attempt) == ("queued", 1)
    assert [event.kind for event in q.events(job)][-1] == "restored"
    assert json.loads(command("targets", "list", "--json", "--db", url).out)[0]["breaker"] == "half-open"
    assert command("db", "check", "--db", url).code == 0
    command("db", "restore", "copy.db", "--yes", "--db", url)
    assert json.loads(command("db", "status", "--db", url, "--json").out)["epoch"] == 1  # the copy's own, and one more


def test_a_worker_that_runs_meanwhile_drops_its_results_and_goes_on(command: Command, url: str) -> None:
    ran: list[tuple[int, int]] = []
    with Queue(url) as q:
        began, put_back, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @q.job(queue="mail", name="send")
        async def send(n: int, job: Context) -> None:
            ran.append((n, job.fence))
            began.set()
            if job.fence > JUMP:
                done.set()
            else:
                await put_back.wait()
                with pytest.raises(LeaseLost):
                    await job.save(done=True)

        job = send.enqueue(1)
        command("db", "backup", "copy.db", "--db", url)

        async def main() -> None:
            stop = asyncio.Event()
            working = asyncio.create_task(q.arun_worker(stop=stop))
            await began.wait()
            restored = await asyncio.to_thread(command, "db", "restore", "copy.db", "--yes", "--db", url)
            assert restored.code == 0, restored
            put_back.set()
            await done.wait()
            stop.set()
            await working

        asyncio.run(asyncio.wait_for(main(), 120))
        assert ran == [(1, 1), (1, JUMP + 1)]
        assert q.get(job).state is JobState.DONE
        assert command("db", "check", "--db", url).code == 0


@pytest.mark.parametrize(("make", "says"), [("none", "cannot be read"), ("text", "SQLite"), ("cut", "damaged")])
def test_what_is_no_copy_is_not_put_back(command: Command, url: str, q: Queue, make: str, says: str) -> None:
    job = sending(q).enqueue(1)
    sending_many = [q.get(job)]
    if make == "text":
        Path("copy.db").write_text("not a database at all")
    if make == "cut":
        command("db", "backup", "whole.db", "--db", url)
        content = bytearray(Path("whole.db").read_bytes())
        content[8192:20480] = b"\x5a" * 12288
        Path("copy.db").write_bytes(content)

    run = command("db", "restore", "copy.db", "--yes", "--db", url)

    assert run.code in (Exit.REFUSED, Exit.CONFIGURATION)
    assert says in run.err or make == "cut"
    assert [q.get(job)] == sending_many


def test_what_a_restore_costs_is_said_before_it_is_done(command: Command, url: str, q: Queue) -> None:
    assert q.store.now() > 0
    asked = command("db", "restore", "copy.db", "--db", url)
    finishing = command("db", "restore", "--db", "postgresql://127.0.0.1:1/jobs")

    for run in asked, finishing:
        assert (run.code, run.out, "--yes" in run.err) == (Exit.REFUSED, "", True)
    assert asked.err != finishing.err


def test_check_finds_numbers_that_are_not_true(command: Command, url: str, q: Queue) -> None:
    sending(q).enqueue_many([(1,), (2,)])
    assert command("db", "check", "--db", url).out == "No problems found.\n"
    q.store.write(lambda tx: settle.count_moves(tx, {("mail", "ready", "done"): 1}))

    run = command("db", "check", "--db", url, "--json")

    assert run.code == Exit.NEGATIVE
    assert [numbers(each) for each in json.loads(run.out)["wrong"]] == [[1, 0], [1, 2]]
    assert all(names(each, "queue mail") for each in json.loads(run.out)["wrong"])


def test_check_finds_damage(command: Command, url: str) -> None:
    with Queue(url) as q:
        sending(q).enqueue_many([(each,) for each in range(200)])
    content = bytearray(Path("jobs.db").read_bytes())
    content[-8192:] = b"\x5a" * 8192
    Path("jobs.db").write_bytes(content)

    assert command("db", "check", "--db", url).code != 0


@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
def test_postgres_is_copied_by_its_own_tools_and_a_restore_is_finished_here(command: Command, db: Database) -> None:
    with Queue(db.url) as q:
        send = sending(q)
        job = send.enqueue(1)
        held = claim(q)

        assert command("db", "backup", "copy.db", "--db", db.url).code == Exit.REFUSED
        assert command("db", "restore", "copy.db", "--yes", "--db", db.url).code == Exit.REFUSED
        run = command("db", "restore", "--yes", "--db", db.url, "--json")

        assert json.loads(run.out) == {"epoch": 1, "requeued": 1}
        assert q.get(job).state is JobState.QUEUED
        assert claim(q, "new").fence == held.fence + JUMP + 1
        assert send.enqueue(2).id > JUMP
        assert command("db", "check", "--db", db.url).out == "No problems found.\n"
        assert json.loads(command("db", "status", "--db", db.url, "--json").out)["database"] == "postgres"


def test_the_password_of_a_url_is_not_shown() -> None:
    from tidegate.cli.database import shown_url

    assert shown_url("postgresql://ada:secret@host/db") == "postgresql://ada:...@host/db"
    asked = "postgresql://host/db?user=ada&password=secret&sslmode=require&sslpassword=secret"
    assert shown_url(asked) == "postgresql://host/db?user=ada&password=...&sslmode=require&sslpassword=..."
    assert shown_url("sqlite:///jobs.db") == "sqlite:///jobs.db"
