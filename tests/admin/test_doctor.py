"""What the doctor finds in a database, on both of them, and that it changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import socket
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.databases import APSW, BOTH, POSTGRES, STDLIB, Database, database
from tests.jobs.gating import Refusal
from tests.text import names, numbers
from tidegate import Target
from tidegate.admin import doctor
from tidegate.admin.doctor import CheckStatus, Finding, reachable
from tidegate.jobs.queue import Queue
from tidegate.store.base import Store, Tx
from tidegate.store.migrate import Migration, core_migrations
from tidegate.store.open import open_read_only

HOUR = 3600.0


@pytest.fixture(params=[APSW, STDLIB, POSTGRES])
def any_db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with database(request.param, tmp_path) as found:
        yield found


@pytest.fixture(params=BOTH)
def q(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Queue]:
    with database(request.param, tmp_path) as found, Queue(found.url, driver=found.driver) as queue:
        yield queue


def found_in(url: str, driver: str | None = None, *, more: tuple[Migration, ...] = ()) -> dict[str, list[Finding]]:
    """What is found in a database, by id."""
    findings = doctor.database(
        url, time.time, driver=driver, steps=[*core_migrations(), *more],
        checks=(doctor.workers, doctor.targets),
    )  # fmt: skip
    found: dict[str, list[Finding]] = {}
    for each in findings:
        assert each.fact.endswith(".")
        assert (each.status is CheckStatus.OK) is (each.fix == "")
        found.setdefault(each.id, []).append(each)
    return found


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def sql(store: Store, text: str) -> None:
    store.write(lambda tx: tx.execute(text))


def seen(store: Store, queues: list[str]) -> None:
    about = {
        "id": "w",
        "host": "attic",
        "pid": 77,
        "queues": json.dumps(queues),
        "stopping": 0,
        "outdated": 0,
        "beat": 1,
    }

    def write(tx: Tx) -> None:
        tx.query("worker_seen", about)

    store.write(write)


def job(q: Queue, **options: Any) -> Any:
    @q.job(queue="mail", name="send", **options)
    async def send(n: int) -> None:
        if n < 0:
            raise Refusal(401)

    return send


# -- the database ------------------------------------------------------------------------------------------------------


def test_a_database_that_is_well_is_said_to_be(any_db: Database) -> None:
    with Queue(any_db.url, driver=any_db.driver) as queue:
        queue.store.now()

    found = found_in(any_db.url, any_db.driver)

    expected = {"store.reachable", "store.schema", "store.writable", "workers.there", "targets.well"}
    expected |= {"store.library", "store.damage", "store.disk"} if any_db.sqlite else {"store.clock"}
    assert set(found) == expected
    unwell = {id_ for id_, each in found.items() if only(each).status is not CheckStatus.OK}
    assert unwell == ({"store.library"} if any_db.name == STDLIB else set())


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    finding = only(found_in(f"sqlite:///{tmp_path}/none.db")["store.reachable"])

    assert (finding.status, "no database" in finding.fact) == (CheckStatus.WARN, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"no database at all" * 99, b"SQLite format 3\0" + bytes(4096)])
def test_a_file_that_is_no_database_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.db").write_bytes(content)

    assert found_in(f"sqlite:///{tmp_path}/odd.db")["store.reachable"][-1].status is CheckStatus.ERROR
    assert (tmp_path / "odd.db").read_bytes() == content


def test_a_server_that_does_not_answer_is_an_error_without_its_password() -> None:
    finding = only(found_in("postgresql://ada:geheim@127.0.0.1:1/none?connect_timeout=1")["store.reachable"])

    assert (finding.status, "cannot be reached" in finding.fact) == (CheckStatus.ERROR, True)
    assert "geheim" not in finding.fact


@pytest.mark.parametrize("name", BOTH)
def test_an_empty_database_lacks_its_schema_and_is_asked_nothing_more(name: str, tmp_path: Path) -> None:
    with database(name, tmp_path, fresh=True) as db:
        if db.sqlite:
            db.path.touch()
        found = found_in(db.url, db.driver)

    schema = only(found["store.schema"])
    assert (schema.status, schema.fix) == (CheckStatus.ERROR, "tidegate db migrate")
    assert "0001 baseline" in schema.fact
    assert not {"workers.there", "targets.well"} & set(found)


@pytest.mark.parametrize("name", BOTH)
def test_a_schema_of_a_newer_version_and_a_changed_one_are_errors(name: str, tmp_path: Path) -> None:
    steps = core_migrations()
    with database(name, tmp_path, fresh=True) as db, Queue(db.url) as q:
        sql(q.store, f"insert into tg_migration values ('tidegate', {len(steps) + 1}, 'x', 'y', 0)")
        newer = only(found_in(q.url)["store.schema"])
        sql(q.store, "update tg_migration set checksum = 'x' where number = 1")
        changed = only(found_in(q.url)["store.schema"])

    assert (changed.status, "was changed" in changed.fact) == (CheckStatus.ERROR, True)
    assert (newer.status, "does not know" in newer.fact) == (CheckStatus.ERROR, True)


def test_missing_tables_of_an_application_come_with_the_next_start(q: Queue) -> None:
    q.store.now()

    found = found_in(q.url, more=(Migration("weather", 1, "start", "create table weather_x (n integer)"),))

    assert (only(found["store.schema"]).status, "weather" in only(found["store.schema"]).fact) == (
        CheckStatus.WARN,
        True,
    )
    assert "workers.there" in found


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_an_error(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path}/jobs.db") as queue:
        queue.store.now()
    tmp_path.chmod(0o500)
    try:
        finding = only(found_in(f"sqlite:///{tmp_path}/jobs.db")["store.writable"])
    finally:
        tmp_path.chmod(0o700)
    assert finding.status is CheckStatus.ERROR


@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
def test_a_server_that_only_lets_us_read_is_an_error(db: Database) -> None:
    with Queue(db.url) as queue:
        queue.store.now()

    with open_read_only(db.url + ("&" if "?" in db.url else "?") + "options=-c%20default_transaction_read_only%3Don",
                 time.time) as look:  # fmt: skip
        assert look.refuses


@pytest.mark.parametrize(
    ("shift", "status"),
    [(0.0, CheckStatus.OK), (10.0, CheckStatus.WARN), (-10.0, CheckStatus.WARN), (3600.0, CheckStatus.ERROR)],
)
@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
def test_a_clock_that_is_off_is_said(db: Database, shift: float, status: CheckStatus) -> None:
    with Queue(db.url) as queue:
        queue.store.now()

    findings = doctor.database(
        db.url, lambda: time.time() + shift, driver=None, steps=core_migrations(), checks=()
    )  # fmt: skip

    clock = next(each for each in findings if each.id == "store.clock")
    assert clock.status is status
    assert ("behind" in clock.fact) is (shift > 0) or not shift


@pytest.mark.parametrize("name", [APSW, STDLIB])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a writer"])
def test_a_look_changes_nothing(name: str, beside: bool, tmp_path: Path) -> None:
    with database(name, tmp_path) as db:
        queue = Queue(db.url, driver=db.driver)
        job(queue).enqueue_many([(1,), (2,), (3,)])
        if not beside:
            queue.close()
        before = hashes(tmp_path)

        found_in(db.url, db.driver)

        assert hashes(tmp_path) == before
        queue.close()


def hashes(folder: Path) -> dict[str, str]:
    """What is in each file; of the index of a WAL, which readers mark, only that it is there."""
    return {
        each.name: "" if each.name.endswith("-shm") else hashlib.sha256(each.read_bytes()).hexdigest()
        for each in folder.iterdir()
    }


def test_a_look_sees_what_is_still_in_the_journal(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path}/jobs.db") as queue:
        job(queue).enqueue_many([(1,), (2,), (3,)])

        assert "3 jobs of mail" in only(found_in(queue.url)["workers.there"]).fact


def test_a_look_waits_for_nobody_in_vain(tmp_path: Path) -> None:
    """Without a WAL a writer keeps readers out: what it is about to change is not read."""
    with Queue(f"sqlite:///{tmp_path}/jobs.db", driver="sqlite3") as queue:
        queue.store.now()
    writer = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
    writer.execute("begin exclusive")
    try:
        finding = only(found_in(queue.url, "sqlite3")["store.reachable"])
    finally:
        writer.close()

    assert (finding.status, "locked" in finding.fact) == (CheckStatus.ERROR, True)


# -- work --------------------------------------------------------------------------------------------------------------


def test_jobs_that_wait_for_a_worker_in_vain_are_an_error(q: Queue) -> None:
    job(q).enqueue_many([(1,), (2,)])
    alone = only(found_in(q.url)["workers.there"])
    seen(q.store, ["other"])
    elsewhere = only(found_in(q.url)["workers.there"])
    seen(q.store, ["mail"])
    at_work = only(found_in(q.url)["workers.there"])

    assert alone.status is elsewhere.status is CheckStatus.ERROR
    assert numbers(alone.fact)[0] == 2
    assert "mail" in alone.fact
    assert (at_work.status, numbers(at_work.fact)) == (CheckStatus.OK, [1])


def test_a_worker_that_was_not_heard_of_is_a_warning(q: Queue) -> None:
    seen(q.store, ["mail"])
    sql(q.store, "update tg_worker set seen_at = seen_at - 120")

    finding = only(found_in(q.url)["workers.heard"])

    assert finding.status is CheckStatus.WARN
    assert names(finding.fact, 77, "attic", "2 min")


def test_a_lease_that_has_ended_long_ago_is_a_warning(q: Queue) -> None:
    job(q).enqueue(1)
    lease = "update tg_job set state = 'running', attempt = 1, lease_by = 'w', claimed_at = created_at, lease_until = "
    sql(q.store, f"{lease} created_at + 30")
    assert "workers.leases" not in found_in(q.url)
    sql(q.store, f"{lease} created_at - 600")

    assert numbers(only(found_in(q.url)["workers.leases"]).fact) == [1, 10]


def test_a_target_that_refused_us_is_an_error(q: Queue) -> None:
    send = job(q, target=Target("api"), key=lambda n: n)
    send.enqueue(-7)
    q.drain()

    finding = only(found_in(q.url)["targets.fatal"])

    assert finding.status is CheckStatus.ERROR
    assert names(finding.fact, "api", "-7")
    assert "tidegate targets show api" in finding.fix


@pytest.mark.parametrize(("hours", "warned"), [(0.9, False), (1.1, True)])
def test_a_breaker_that_is_open_for_long_is_a_warning(q: Queue, hours: float, warned: bool) -> None:
    job(q, target=Target("api", breaker=True)).enqueue(1)
    q.drain()
    since = q.store.now() - hours * HOUR
    sql(q.store, f"update tg_target set breaker = 'open', breaker_since = {since}, breaker_until = {since + 9e9}")

    found = found_in(q.url)

    assert ("targets.open" in found) is warned
    if warned:
        assert names(only(found["targets.open"]).fact, "api", "1 h")


@pytest.mark.parametrize(("hours", "warned"), [(23, False), (49, True)])
def test_what_somebody_paused_and_forgot_is_a_warning(q: Queue, hours: float, warned: bool) -> None:
    job(q, target=Target("my api")).enqueue(1)
    q.drain()
    at = q.store.now() - hours * HOUR
    sql(q.store, f"update tg_target set paused_at = {at}, paused_until = {at + 9e6}, paused_by = 'ada'")
    sql(q.store, f"insert into tg_queue values ('mail', {at}, {at + 9e6}, 'bob')")

    found = found_in(q.url).get("targets.paused", [])

    commands = [["tidegate", "targets", "resume", "my api"], ["tidegate", "jobs", "resume", "mail"]]
    assert [shlex.split(each.fix) for each in found] == (commands if warned else [])
    for each, tokens in zip(found, [("my api", "2 days", "ada"), ("mail", "2 days", "bob")], strict=False):
        assert names(each.fact, *tokens)


def test_of_many_only_some_are_named_and_the_rest_is_counted(q: Queue) -> None:
    at = q.store.now() - 48 * HOUR
    for n in range(25):
        sql(q.store, f"insert into tg_queue values ('q{n:02}', {at}, {at + 9e6}, 'bob')")

    found = found_in(q.url)["targets.paused"]

    assert len(found) == 11
    assert numbers(found[-1].fact) == [15]


# -- files and network -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "status"), [(0o600, "ok"), (0o640, "ok"), (0o644, "warn"), (0o666, "warn")])
def test_a_file_that_everybody_can_read_is_a_warning(tmp_path: Path, mode: int, status: str) -> None:
    file = tmp_path / "my jobs.db"
    file.touch()
    file.chmod(mode)

    finding = only(list(doctor.private({file: "the database", tmp_path / "none": "nothing"})))

    assert finding.status == status
    assert finding.fix == ("" if status == "ok" else f"chmod 600 '{file}'")


def test_a_service_is_reached_by_name_and_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_server(("127.0.0.1", 0)) as other:
            shut = other.getsockname()[1]
        found = list(reachable({
            "a.url": f"http://127.0.0.1:{port}/x", "b.url": f"https://127.0.0.1:{shut}", "c.url": "https://no.invalid/",
            "d.url": "http://127.0.0.1:99999",
        }))  # fmt: skip

    assert [each.status for each in found] == [CheckStatus.OK, CheckStatus.ERROR, CheckStatus.ERROR, CheckStatus.ERROR]
    assert [each.fact.partition(":")[0] for each in found[:3]] == ["a.url", "b.url", "c.url"]
    assert "no.invalid" in found[2].fact
    assert only(list(reachable({}))).status is CheckStatus.OK
