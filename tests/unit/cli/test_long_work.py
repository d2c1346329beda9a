"""Long work: a bar for who looks at it, silence for everybody else, and an end by Ctrl-C that says what was done."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.text import numbers
from tests.unit.cli.conftest import Command
from tidegate.cli.database import CliError
from tidegate.cli.exits import Exit
from tidegate.cli.output import InterruptibleWork, long_work
from tidegate.jobs import restore
from tidegate.jobs.bulk import service
from tidegate.jobs.listing import Filter
from tidegate.jobs.outcome import Fail
from tidegate.jobs.queue import Queue
from tidegate.store.base import Progress
from tidegate.store.migrate import Migration, applied, migrate
from tidegate.store.open import open_store

JOBS = 250


@pytest.fixture
def q(url: str) -> Iterator[Queue]:
    """So many jobs that have failed."""
    with Queue(url) as queue:

        @queue.job(queue="mail", name="send")
        async def send(n: int) -> None:
            raise Fail("gone")

        send.enqueue_many([(each,) for each in range(JOBS)])
        asyncio.run(queue.adrain())
        yield queue


@pytest.fixture(autouse=True)
def heard_as_usual() -> Iterator[None]:
    """Whoever started the tests in the background has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def so_far(work: InterruptibleWork) -> str:
    return f"{work.done} of {work.total}"


def test_ctrl_c_ends_many_between_two_slices_and_says_how_many_were_done(q: Queue) -> None:
    with pytest.raises(CliError) as stopped, long_work(so_far, as_json=False) as work:  # noqa: PT012 - one thing after the other
        hear = work("Retrying")

        def heard(done: int, total: int) -> None:
            if done == 100:
                ctrl_c()
            hear(done, total)

        service.run(q.store, "retry", Filter(queue="mail"), "ada", expected=JOBS, progress=heard)

    assert (stopped.value.message, stopped.value.exit_code) == (f"stopped: 100 of {JOBS}", Exit.INTERRUPTED)
    assert q.store.read(lambda tx: service.preview(tx, "retry", Filter(queue="mail"))).n == JOBS - 100
    (kept,) = q.store.read(service.list_operations).items
    assert (kept.state, kept.done, kept.ended_by) == ("cancelled", 100, "ada")


def test_ctrl_c_at_the_last_step_changes_nothing_of_the_result(q: Queue) -> None:
    before = signal.getsignal(signal.SIGINT)
    with long_work(so_far, as_json=False) as work:
        hear = work("Working")
        ctrl_c()
        hear(3, 3)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_ends_it_at_once() -> None:
    with pytest.raises(CliError), long_work(so_far, as_json=False) as work:  # noqa: PT012
        work("Working")
        ctrl_c()
        ctrl_c()
        pytest.fail("it went on")


def test_a_copy_that_was_stopped_is_not_there(q: Queue, tmp_path: Path) -> None:
    watched = long_work(lambda _: "no copy", as_json=False)
    with pytest.raises(CliError, match="no copy"), watched as work:  # noqa: PT012
        ctrl_c()
        restore.backup(q.store, tmp_path / "copy.db", stages=work)
    assert sorted(path.name for path in tmp_path.iterdir() if "copy" in path.name) == []


def test_a_restore_that_was_stopped_changes_nothing(q: Queue, tmp_path: Path) -> None:
    restore.backup(q.store, tmp_path / "copy.db")
    q.retry(1)
    last = ""

    with pytest.raises(CliError), long_work(so_far, as_json=False) as work:  # noqa: PT012

        def stages(name: str) -> Progress:
            nonlocal last
            last = name
            if name == "Putting it back":
                ctrl_c()
            return work(name)

        restore.restore(tmp_path / "jobs.db", tmp_path / "copy.db", q.store.now, stages=stages)

    assert last == "Putting it back"
    assert q.get(1).state == "queued"


def test_a_migration_that_was_stopped_goes_on_later(url: str) -> None:
    store = open_store(url, now=lambda: 1.0)
    first, second = (Migration("app", n, f"step_{n}", f"create table app_{n} (n integer);") for n in (1, 2))
    with pytest.raises(CliError) as stopped, long_work(so_far, as_json=False) as work:  # noqa: PT012
        hear = work("Migrating")

        def heard(done: int, total: int) -> None:
            if done == 1:
                ctrl_c()
            hear(done, total)

        migrate(store, [first, second], heard)

    assert stopped.value.message == "stopped: 1 of 2"
    assert [each.name for each in applied(store)] == ["step_1"]
    assert migrate(store, [first, second]) == [second]
    store.close()


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["lines", "json"])
def test_nobody_who_is_no_terminal_sees_a_bar(command: Command, q: Queue, url: str, options: tuple[str, ...]) -> None:
    assert command("jobs", "retry", "--queue", "mail", "--expect", str(JOBS), "--db", url, *options).err == ""
    assert command("db", "backup", "copy.db", "--db", url, *options).err == ""
    assert command("db", "restore", "copy.db", "--yes", "--db", url, *options).err == ""
    assert command("db", "migrate", "--db", url, *options).err == ""


@pytest.mark.parametrize(("options", "bar"), [((), True), (("--json",), False)], ids=["lines", "json"])
def test_a_terminal_shows_a_bar_beside_clean_output(q: Queue, url: str, options: tuple[str, ...], bar: bool) -> None:
    out, shown = at_a_terminal("jobs", "retry", "--queue", "mail", "--expect", str(JOBS), "--db", url, *options)

    assert ("Retrying" in shown and f"of {JOBS}" in shown) is bar
    assert (numbers(out) == [JOBS, 1]) is bar


def at_a_terminal(*args: str) -> tuple[str, str]:
    """What a command prints, and what a terminal gets as its standard error."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    code = [sys.executable, "-c", "import sys; from tidegate.cli import main; sys.exit(main())", *args]
    with subprocess.Popen(code, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                some = os.read(ours, 65536)
            except OSError:  # how a terminal on Linux ends
                break
            if not some:
                break
            shown += some
        assert process.stdout is not None
        out = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0, shown
    return out, shown.decode()
