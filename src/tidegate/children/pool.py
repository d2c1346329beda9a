"""A pool of limited, reused child processes, so that hostile input stops neither the worker nor its heartbeats."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate.children import protocol
from tidegate.children.process import Child, ChildCrashed, ChildTimeout
from tidegate.children.protocol import Frame
from tidegate.clock import SYSTEM
from tidegate.durations import Duration, seconds
from tidegate.errors import TidegateError
from tidegate.faults.codes import CORE
from tidegate.faults.fault import Fault, Level, Reach, Reason
from tidegate.threads import DaemonPool
from tidegate.validation import whole

_MB = 1 << 20
_FIELDS = _MB  # bytes for the fields of a response, in addition to its body


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The resource limits of one call in a child process; None means unlimited.

    Limits(memory_mb=256, cpu="5s", time="30s")
    """

    memory_mb: int | None = 512  # address space, including that of Python and its libraries
    cpu: Duration | None = 60  # CPU time, in whole seconds
    time: Duration | None = 300  # elapsed time
    answer_mb: int = 16  # size of the response as JSON

    def __post_init__(self) -> None:
        if self.memory_mb is not None:
            whole(self.memory_mb, field="memory_mb", minimum=128, maximum=1_000_000)
        whole(self.answer_mb, field="answer_mb", maximum=1024)
        for name in ("cpu", "time"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, seconds(getattr(self, name), field=name, minimum=0.001))


DEFAULT = Limits()


class ChildError(TidegateError):
    """A call in a child process failed, or the child did. `fault` has the classification."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = self.__tidegate_fault__ = fault

    @property
    def code(self) -> str:
        return self.fault.code

    def __str__(self) -> str:
        return f"{self.fault.code}: {self.fault.detail or self.fault.message}"


@dataclass(slots=True)
class ChildCall:
    """One call: the function, its arguments and limits."""

    place: str
    body: str
    limits: Limits = DEFAULT
    context: dict[str, Any] | None = None
    save: Callable[[str], bool] | None = None
    _child: Child | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    stopped: bool = field(default=False, init=False)

    def begin(self, child: Child) -> bool:
        """Assigns the child. Returns False when the call was already stopped."""
        with self._lock:
            self._child = child
            return not self.stopped

    def stop(self) -> None:
        """Kills the child that runs the call, or prevents its start. Call it from any thread."""
        with self._lock:
            self.stopped = True
            if self._child is not None:
                self._child.kill()

    def over(self) -> None:
        with self._lock:
            self._child = None


class Children:
    """Up to *limit* child processes, started on demand and reused.

    A child is replaced after *calls_each* calls or after a failure. An unused child ends after *idle*.
    """

    def __init__(self, limit: int, *, calls_each: int = 100, idle: Duration = 60) -> None:
        if os.name != "posix":
            raise OSError("child processes need a POSIX system, such as Linux or macOS")
        self._calls_each = whole(calls_each, field="calls_each")
        self._idle = seconds(idle, field="idle")
        self._threads = DaemonPool(whole(limit, field="limit", maximum=1000), "tidegate-child")
        self._lock = threading.Lock()
        self._free: list[Child] = []
        self._busy: set[Child] = set()
        self._reaper: threading.Timer | None = None
        self._closed = False

    async def run(self, call: ChildCall) -> Frame:
        """Runs the call and returns its outcome. Raises ChildError if the child dies. Cancelling kills the child."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise ChildError(CORE["cancelled"].fault("child"))
        try:
            return await loop.run_in_executor(self._threads, self.run_now, call)
        except asyncio.CancelledError:
            call.stop()
            raise

    def run_now(self, call: ChildCall) -> Frame:
        """As `run`, blocking."""
        limits = call.limits
        fields = {
            "call": call.place,
            "context": call.context,
            "cpu": limits.cpu,
            "most": limits.answer_mb * _MB,
            "memory": None if limits.memory_mb is None else limits.memory_mb * _MB,
        }
        child, well = self._take(), False
        try:
            if self._closed or not call.begin(child):
                well = True
                raise ChildError(CORE["cancelled"].fault("child"))
            answer = child.ask(
                fields,
                call.body,
                within=limits.time,  # type: ignore[arg-type]
                max_bytes=limits.answer_mb * _MB + _FIELDS,
                reply=lambda saved: {"saved": call.save is not None and call.save(saved)},
            )
            well = answer[0].get("end") != "memory"
            return answer
        except ChildCrashed as death:
            raise ChildError(CORE["child_died"].fault("child", detail=f"{call.place}: {death}")) from None
        except ChildTimeout as death:
            raise ChildError(CORE["child_time"].fault("child", detail=f"{call.place}: {death}")) from None
        finally:
            call.over()
            self._put_back(child, well=well)

    def close(self) -> None:
        """Ends all children. Running calls raise ChildError."""
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
            if self._reaper is not None:
                self._reaper.cancel()
            for child in self._busy:
                child.kill()
        for child in free:
            child.hang_up()  # first all of them, so that they end in parallel
        for child in free:
            child.close()
        self._threads.shutdown()

    @property
    def pids(self) -> frozenset[int]:
        """The process IDs of all children."""
        with self._lock:
            return frozenset(child.pid for child in (*self._free, *self._busy))

    def _take(self) -> Child:
        gone: list[Child] = []
        try:
            with self._lock:
                if self._closed:
                    raise ChildError(CORE["cancelled"].fault("child"))
                while self._free:
                    child = self._free.pop()  # the most recently used one, so that the others become idle
                    if child.alive:
                        self._busy.add(child)
                        return child
                    gone.append(child)
        finally:
            for child in gone:
                child.close()
        child = start()
        with self._lock:
            self._busy.add(child)
        return child

    def _put_back(self, child: Child, *, well: bool) -> None:
        child.idle_since = SYSTEM.monotonic()
        with self._lock:
            self._busy.discard(child)
            again = well and not self._closed and child.calls < self._calls_each and child.alive
            if again:
                self._free.append(child)
                self._reap_later()
        if again:
            return
        if not well:
            child.kill()
        child.close()

    def _reap_later(self) -> None:
        if self._reaper is None:
            self._reaper = threading.Timer(self._idle, self._reap)
            self._reaper.daemon = True
            self._reaper.start()

    def _reap(self) -> None:
        """Ends the children that were idle for too long."""
        before = SYSTEM.monotonic() - self._idle
        with self._lock:
            self._reaper = None
            if self._closed:
                return
            idle = [child for child in self._free if child.idle_since <= before]
            self._free = [child for child in self._free if child not in idle]
            if self._free:
                self._reap_later()
        for child in idle:
            child.close()


def start() -> Child:
    protocol.refuse_children()
    try:
        return Child()
    except OSError as error:  # too many processes, or no memory for one more
        raise ChildError(CORE["child_died"].fault("child", detail=f"it could not be started: {error}")) from error


def place_of(fn: Callable[..., Any]) -> str:
    """The import path of *fn* for a child: `module:name`, or `/path/script.py:name`. Raises ValueError."""
    inner = inspect.unwrap(fn)
    name = inner.__qualname__
    if "<" in name:  # <locals>, <lambda>
        raise ValueError(f"process: a child process finds no {name}; give a function at the top level of a module")
    if inner.__module__ != "__main__":
        return f"{inner.__module__}:{name}"
    main = sys.modules["__main__"]
    if main.__spec__ is not None:  # python -m package.module
        return f"{main.__spec__.name}:{name}"
    file = getattr(main, "__file__", None)
    if file is None or not file.endswith(".py") or not Path(file).exists():
        raise ValueError(f"process: {name} is in no file that a child process could import; put it in a module")
    return f"{Path(file).resolve()}:{name}"


def fault_in(fields: dict[str, Any]) -> Fault:
    """Parses the fault in a child's response, which is not trusted."""
    try:
        retry_after, status = fields.get("retry_after"), fields.get("status")
        return Fault(
            code=str(fields["code"])[:64],
            reason=Reason(fields["reason"]),
            reach=Reach(fields["reach"]),
            level=Level(fields["level"]),
            message=str(fields["message"])[:500],
            advice=str(fields["advice"])[:500],
            rule=str(fields["rule"])[:200],
            detail=str(fields["detail"])[:2000],
            status=status if isinstance(status, int) else 0,
            retry_after=float(retry_after) if isinstance(retry_after, (int, float)) else None,
        )
    except (KeyError, TypeError, ValueError):
        return CORE["child_died"].fault("child", detail="it answered with something else")
