"""`tidegate worker` as a process: it finds the queue, works, and ends as it is told."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.text import names
from tests.unit.cli.conftest import Command
from tidegate.cli.exits import Exit
from tidegate.jobs.job import JobState
from tidegate.jobs.queue import Queue

PROGRAM = """
import asyncio
from pathlib import Path
from tidegate.jobs.queue import Queue

q = Queue("sqlite:///jobs.db")

@q.job(queue="mail", name="send")
async def send(n: int) -> None:
    while n and not Path("go").exists():
        await asyncio.sleep(0.02)

@q.job(queue="other", name="other")
def other(n: int) -> None: ...
"""

# A program whose queue notes how its worker is started.
NOTING = PROGRAM.replace('q = Queue("', 'q = Noting("').replace(
    "\n\nq =",
    """

class Noting(Queue):
    def run_worker(self, *args, **numbers):
        Path("grace").write_text(str(numbers.get("grace")))
        return super().run_worker(*args, **numbers)

q =""",
    1,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "empty.py").write_text("q = 1\n")
    (tmp_path / "two.py").write_text(
        "from tidegate.jobs.queue import Queue\na = Queue('sqlite:///a.db')\nb = Queue('sqlite:///b.db')\n"
    )
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "mistaken.py").write_text("raise ValueError('attempts: 0 is too few')\n")
    (tmp_path / "needy.py").write_text("import nobody_has_this\n")
    (tmp_path / "needyjobs.py").write_text("import needyjo\n")
    yield_modules = {"program", "empty", "two", "broken", "mistaken", "needy", "needyjobs"}
    for name in yield_modules:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.fixture
def q(folder: Path) -> Iterator[Queue]:
    with Queue(f"sqlite:///{folder}/jobs.db") as queue:
        yield queue


def start(folder: Path, *args: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    code = "from tidegate.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "worker", *args], cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def enqueued(q: Queue, n: int, queue: str = "mail", name: str = "send") -> int:
    @q.job(queue=queue, name=name)
    async def handler(n: int) -> None: ...

    return handler.enqueue(n).id


def until(what: object) -> None:
    end = time.monotonic() + 60
    while not what():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_works_until_it_is_told_to_stop_and_finishes_what_it_has_begun(
    q: Queue, folder: Path, number: signal.Signals
) -> None:
    quick, slow = enqueued(q, 0), 0
    worker = start(folder, "program:q", "--json")
    until(lambda: q.get(quick).state is JobState.DONE)
    slow = next(iter(q.store.write(lambda tx: [_put(tx)])))
    until(lambda: q.get(slow).state is JobState.RUNNING)
    worker.send_signal(number)
    (folder / "go").touch()
    out, err = worker.communicate(timeout=60)

    assert (worker.returncode, q.get(slow).state) == (0, JobState.DONE)
    assert json.loads(out)["done"] == 2
    assert names(err, "mail, other", 20)


def _put(tx: object) -> int:
    from tidegate.jobs import insert
    from tidegate.jobs.job import NewJob

    return insert.enqueue(tx, [NewJob(queue="mail", kind="send", args='{"n":10}')])[0].id  # type: ignore[arg-type]


def test_it_works_only_on_the_queues_that_it_was_given(q: Queue, folder: Path) -> None:
    mine, theirs = enqueued(q, 0), enqueued(q, 0, "other", "other")
    worker = start(folder, "program", "--queues", "mail", "--concurrency", "2")
    until(lambda: q.get(mine).state is JobState.DONE)
    worker.terminate()
    out, err = worker.communicate(timeout=60)

    assert (worker.returncode, out) == (0, "1 done\n")
    assert re.search(r"\bmail\b.*\b2\b", err)
    assert "other" not in err
    assert q.get(theirs).state is JobState.QUEUED


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("nobody_has_this", ["'nobody_has_this'"]),
        ("needy", ["needy ", "'nobody_has_this'"]),
        ("needyjobs", ["needyjobs ", "'needyjo'"]),
        ("broken", ["broken ", "(ZeroDivisionError: division by zero)"]),
        ("mistaken", ["mistaken ", "(ValueError: attempts: 0 is too few)"]),
        ("program:x", ["program", "'x'", ": q"]),
        ("empty", ["empty"]),
        ("two", ["two", ": a, b"]),
    ],
)
def test_a_queue_that_cannot_be_found_is_one_line(command: Command, folder: Path, source: str, says: list[str]) -> None:
    run = command("worker", source)

    assert (run.code, run.out, run.err.count("\n")) == (Exit.CONFIGURATION, "", 1)
    assert names(run.err, *says)


def test_what_is_no_module_is_a_mistake_of_usage(command: Command, folder: Path) -> None:
    for source in ("", ".program:q", "my-program:q"):
        run = command("worker", source)
        assert (run.code, names(run.err, repr(source), "myapp.jobs:q")) == (Exit.USAGE, True)
    assert command("worker", "program:q", "--concurrency", "0").code == Exit.USAGE
    run = command("worker", "program:q", "--queues", "nope")
    assert (run.code, run.err.count("\n")) == (Exit.USAGE, 2)  # what it works on, and the mistake


def test_options_that_would_do_nothing_are_a_mistake_of_usage(command: Command, folder: Path) -> None:
    run = command("worker", "program:q", "--queues", " , ")
    assert (run.code, "--queues" in run.err, run.err.count("\n")) == (Exit.USAGE, True, 1)
    run = command("worker", "program:q", "--config", "tidegate.toml")
    assert (run.code, "--config" in run.err, run.err.count("\n")) == (Exit.USAGE, True, 1)


@pytest.mark.parametrize("given", ["file", "variable"])
def test_the_grace_of_the_settings_is_that_of_a_worker_of_a_module(
    folder: Path, q: Queue, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    if given == "file":
        (folder / "tidegate.toml").write_text('[worker]\ngrace = "0s"\n')
    else:
        monkeypatch.setenv("TIDEGATE_WORKER_GRACE", "0s")
    (folder / "noting.py").write_text(NOTING)
    job = enqueued(q, 1)
    worker = start(folder, "noting:q", "--json")
    try:
        end = time.monotonic() + 60
        while q.get(job).state is not JobState.RUNNING and time.monotonic() < end:
            time.sleep(0.05)
        worker.send_signal(signal.SIGTERM)
        said, _ = worker.communicate(timeout=60)
    finally:
        worker.kill()

    assert json.loads(said)["given_back"] == 1
    assert (folder / "grace").read_text() == "0.0"  # with the default the job would be given back, too, but later
