"""One child process and its pipes. Calls block; any thread may kill it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any, cast

from tidegate.children import protocol
from tidegate.children.protocol import BadFrame, Frame
from tidegate.clock import SYSTEM

_BOOT = "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from tidegate.children.main import main; main()"
_EXIT_TIMEOUT = 0.5  # seconds that an idle child has to exit
_START_TIMEOUT = 60.0  # seconds for the start and the imports of a handler
_END_TIMEOUT = 10.0  # seconds; a killed process ends immediately unless the system hangs

Reply = Callable[[str], dict[str, Any]]


class ChildCrashed(Exception):
    """The child has ended unexpectedly. The message says how."""


class ChildTimeout(Exception):
    """The child exceeded its elapsed or CPU time, and has ended."""


class Child:
    """A Python process with its own process group, three file descriptors and the parent's `sys.path`."""

    def __init__(self) -> None:
        self.calls = 0
        self.idle_since = 0.0
        self._lock = threading.Lock()
        self._reaped = False
        path = [entry or str(Path.cwd()) for entry in sys.path]
        # -P: the script's folder is not searched; _BOOT sets the parent's path. Its output goes to the parent's stderr.
        self._process = subprocess.Popen(  # noqa: S603 - Python itself, with a program of ours
            [sys.executable, "-P", "-c", _BOOT, json.dumps(path)], stdin=PIPE, stdout=PIPE, process_group=0
        )
        self._pipes = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        self._in, self._out = (pipe.fileno() for pipe in self._pipes)
        for fd in (self._in, self._out):
            os.set_blocking(fd, False)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether an idle child still runs. One that sends unexpected data counts as ended."""
        return not _poll(self._out, select.POLLIN, 0)

    def ask(self, fields: dict[str, Any], body: str, *, within: float | None, max_bytes: int, reply: Reply) -> Frame:
        """Sends a call and returns the response. Raises ChildCrashed or ChildTimeout.

        *reply* serves the requests that the child makes during the call.
        """
        self.calls += 1
        limit, end = _START_TIMEOUT, SYSTEM.monotonic() + _START_TIMEOUT
        try:
            self._send(protocol.pack_frame(fields, body), end)
            while True:
                answer, text = protocol.receive_frame(lambda size: self._read(size, end), max_bytes)  # noqa: B023 - used at once
                if "begun" in answer:
                    limit = math.inf if within is None else within
                    end = SYSTEM.monotonic() + limit
                elif "ask" in answer:
                    self._send(protocol.pack_frame(reply(text)), end)
                else:
                    return answer, text
        except TimeoutError:
            self.kill()
            raise ChildTimeout(f"no response within {limit:g} s") from None
        except BadFrame as error:
            self.kill()
            raise ChildCrashed(f"the child sent an invalid response: {error}") from error
        except (EOFError, OSError):
            raise self._death() from None

    def kill(self) -> None:
        """Kills the child and its process group. Call it from any thread."""
        with self._lock:
            self._kill()

    def hang_up(self) -> None:
        """Closes the pipe, which makes an idle child exit."""
        with contextlib.suppress(OSError):
            self._pipes[0].close()

    def close(self) -> None:
        """Lets an idle child exit, or kills it. Returns when it has ended."""
        self.hang_up()
        _poll(self._out, select.POLLIN, _EXIT_TIMEOUT)
        self._end()
        self._pipes[1].close()

    def _kill(self) -> None:
        # Never after `wait`: another process may have the pid by then.
        if not self._reaped:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _end(self) -> int:
        """Kills the process group and returns the exit status. A child that is already exiting keeps its status."""
        with self._lock:
            self._kill()
            code = self._process.wait(_END_TIMEOUT)
            self._reaped = True
            return code

    def _death(self) -> Exception:
        code = self._end()
        if code == -signal.SIGXCPU:
            return ChildTimeout("it used up its time of the processor")
        if code < 0:
            name = signal.Signals(-code).name
            return ChildCrashed(f"killed by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else ""))
        return ChildCrashed(f"it ended itself with status {code}")

    def _send(self, frame: bytes, end: float) -> None:
        rest = memoryview(frame)
        while rest:
            _ready(self._in, select.POLLOUT, end)
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(self._in, rest) :]

    def _read(self, size: int, end: float) -> bytes:
        while True:
            _ready(self._out, select.POLLIN, end)
            with contextlib.suppress(BlockingIOError):
                return os.read(self._out, size)


def _ready(fd: int, event: int, end: float) -> None:
    if not _poll(fd, event, max(0.0, end - SYSTEM.monotonic())):
        raise TimeoutError


def _poll(fd: int, event: int, timeout: float) -> bool:
    """Whether *fd* becomes ready or is closed within *timeout* seconds."""
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(None if timeout == math.inf else math.ceil(timeout * 1000)))
