"""What a child process is asked to do in tests; a module of its own, because the child imports it."""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from tidegate import children
from tidegate.children.pool import Children
from tidegate.errors import Held
from tidegate.faults.codes import CORE
from tidegate.jobs.context import Context
from tidegate.jobs.outcome import Again, Done, Fail
from tidegate.store.base import BoundStatement


@dataclass(frozen=True)
class Page:
    name: str
    day: date = date(2024, 2, 29)
    words: dict[str, int] = field(default_factory=dict)


def counted(page: Page) -> Page:
    return Page(page.name.upper(), page.day, {word: page.name.count(word) for word in page.name.split()})


async def counted_later(page: Page) -> Page:
    return counted(page)


def unless_sent(sent: bool) -> Done[int]:
    return Done(7, unsent=not sent)


def with_a_word_after(n: int) -> Done[int]:
    return Done(n, after=lambda: None)


def pid(_: None) -> int:
    return os.getpid()


def group(_: None) -> bool:
    return os.getpgid(0) == os.getpid()


def open_files(_: None) -> list[str]:
    """What the file descriptors of the child are, less its standard error."""
    found = []
    for fd in range(256):
        try:
            mode = os.fstat(fd).st_mode
        except OSError:
            continue
        kind = "pipe" if stat.S_ISFIFO(mode) else "device" if stat.S_ISCHR(mode) else "file"
        found += [kind] if fd > 2 else []
    return sorted(found)


def listening(_: None) -> str:
    """Does everything that could disturb the pipes to the parent."""
    print("printed")  # noqa: T201 - what users do
    sys.stdout.flush()
    os.write(1, b"written")
    return sys.stdin.read()


def babble(_: None) -> None:
    """Writes rubbish into everything that is open."""
    for fd in range(3, 256):
        try:
            os.write(fd, b"\xff" * 64)
        except OSError:
            continue
    time.sleep(60)


def leave(status: int) -> None:
    os._exit(status)


def crash(_: None) -> None:
    ctypes.string_at(0)


def killed(_: None) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hoard(_: None) -> int:
    kept = []
    while True:
        kept.append(bytearray(1 << 20))


def hoard_at_once(_: None) -> int:
    return len(bytearray(1 << 29))


def burn(cpu_seconds: float) -> int:
    end = time.process_time() + cpu_seconds
    while time.process_time() < end:
        pass
    return os.getpid()


def spin(_: None) -> None:
    while True:
        pass


def hang(file: str) -> None:
    """Starts a process of its own, says which, and sleeps."""
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(file).write_text(f"{os.getpid()} {other.pid}")
    time.sleep(600)


def much(size: int) -> str:
    return "x" * size


def unsaid(_: None) -> object:
    return object()


def fails(what: str) -> None:
    full = CORE["overloaded"].fault("risky", status=503, detail="so it said")
    errors: dict[str, BaseException] = {
        "network": ConnectionRefusedError("nobody listens"),
        "bug": KeyError("name"),
        "exit": SystemExit(4),
        "interrupt": KeyboardInterrupt(),
        "recursion": RecursionError(),
        "again": Again("5m", keep_attempt=True, fault=full),
        "fail": Fail("NOT_PDF", "This is no PDF.", status=415, fault=full),
        "held": Held("gateway", None, "breaker", 0.0, None, 12.0),
    }
    raise errors[what]


def asks_for_its_context() -> int:
    return Context.current().id


def nested(_: None) -> int:
    return children.run_now(pid, None)


def more_children(_: None) -> int:
    Children(1)
    return nested(None)


def done(words: list[str]) -> Done[int]:
    return Done(len(words), writes=[BoundStatement("notes.add", {"text": words[0]})])


def known(_: int, job: Context) -> list[object]:
    return [job.id, job.attempt, job.fence, job.idempotency_key, dict(job.saved), dict(job.parent_results)]


def save_and_die(n: int, job: Context) -> int:
    if job.saved:
        return int(job.saved["n"])
    job.save_now(n=n)
    os._exit(1)


async def save_later(n: int, job: Context) -> int:
    if not job.saved:
        await job.save(n=n)
        raise Again
    return int(job.saved["n"])
