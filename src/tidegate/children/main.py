"""The main program of a child process: runs handlers within limits until its parent closes the pipe.

It sends outcomes as JSON. The parent never unpickles data of a child.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import os
import resource
import signal
import sys
import threading
import time
from functools import partial
from queue import SimpleQueue
from types import ModuleType
from typing import Any

from tidegate.children import protocol
from tidegate.children.protocol import Frame
from tidegate.serialization import encode
from tidegate.serialization.arguments import Signature, signature_of, sole_serial

_MAIN = "__tidegate_main__"  # the module name of a script that is imported again, so `if __name__ == "__main__"` holds
_MAX_FRAME = 1 << 30  # bytes; the parent is trusted
_ORPHAN = 1.0  # seconds that a handler may run after its parent has gone


class _Home:
    """The pipes to the parent."""

    def __init__(self) -> None:
        # A handler may print or read stdin. The pipes get other descriptors, so that it cannot disturb the protocol.
        self._in, self._out = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.close(nothing)
        self.asked: SimpleQueue[Frame | None] = SimpleQueue()
        threading.Thread(target=self._listen, name="tidegate-parent", daemon=True).start()

    def tell(self, fields: dict[str, Any], body: str = "") -> None:
        protocol.send_frame(self._out, protocol.pack_frame(fields, body))

    def _listen(self) -> None:
        try:
            while True:
                self.asked.put(protocol.receive_frame(partial(os.read, self._in), _MAX_FRAME))
        except (EOFError, OSError, protocol.BadFrame):
            self.asked.put(None)
            time.sleep(_ORPHAN)
            _end_group()


def _end_group() -> None:
    """Kills this process and the processes that its handlers started."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def main() -> None:
    protocol.mark()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    home = _Home()
    while (asked := home.asked.get()) is not None:
        fields, body = asked
        try:
            answer = _handled(fields, body, home)
        except BaseException as error:
            _limit(None, None)  # frees memory and CPU time to report the error
            answer = _raised(error, fields["call"])
        _limit(None, None)
        home.tell(*answer)
        del asked, fields, body, answer


# -- limits ----------------------------------------------------------------------------------------------------------


def _limit(memory: int | None, cpu: float | None) -> None:
    """Sets soft limits, which can change for each call. CPU time counts from the start of the process."""
    _soft(resource.RLIMIT_AS, memory)
    used = resource.getrusage(resource.RUSAGE_SELF)
    _soft(resource.RLIMIT_CPU, None if cpu is None else math.ceil(used.ru_utime + used.ru_stime + cpu))


def _soft(which: int, value: int | None) -> None:
    hard = resource.getrlimit(which)[1]
    if value is None or (hard != resource.RLIM_INFINITY and value > hard):
        value = hard
    resource.setrlimit(which, (value, hard))


# -- one call --------------------------------------------------------------------------------------------------------


_found: dict[str, tuple[Any, Signature]] = {}


def _lookup(place: str) -> tuple[Any, Signature]:
    if place not in _found:
        declared = find(place)
        _found[place] = declared, signature_of(inspect.unwrap(declared))
    return _found[place]


def _handled(fields: dict[str, Any], body: str, home: _Home) -> tuple[dict[str, Any], str]:
    declared, signature = _lookup(fields["call"])
    fn = inspect.unwrap(declared)
    home.tell({"begun": True})  # the import of its module does not count against the limits
    _limit(fields["memory"], fields["cpu"])
    parameters, said = signature.parameters, fields["context"]
    if said is None:  # a function with one argument, not a job
        if parameters.context is not None:
            raise TypeError("this function has a Context parameter, which only jobs get; run it as a job")
        result = fn(sole_serial(signature).decode(body))
    else:
        context = None
        if parameters.context is not None or "tidegate.jobs.context" in sys.modules:  # else it cannot use one
            context = _context(said, home)
        result = parameters.call(fn, parameters.decode(body), context)
    if inspect.isawaitable(result):
        import asyncio

        result = asyncio.run(_awaited(result))
    writes: list[Any] = []
    unsent = False
    lifecycle = sys.modules.get("tidegate.jobs.outcome")  # a handler that did not import it cannot return Done
    if lifecycle is not None and isinstance(result, lifecycle.Done):
        result = lifecycle.from_child(result)
        writes, unsent = [[write.name, dict(write.params)] for write in result.writes], result.unsent
        result = result.result
    try:
        text = signature.result.encode(result, what="result", limit=fields["most"])
    except TypeError:  # not the annotated type
        text = encode(result, what="result", limit=fields["most"])
    return {"end": "done", "writes": json.loads(encode(writes, what="writes")), "unsent": unsent}, text


async def _awaited(result: Any) -> Any:
    return await result


def _context(said: dict[str, Any], home: _Home) -> Any:
    from tidegate.jobs.context import Context, enter
    from tidegate.jobs.job import Claimed

    parents = {int(parent): result for parent, result in said["parents"].items()}
    context = Context(Claimed(*said["job"]), said["store_id"], parents, _Saver(home))
    enter(context)
    return context


class _Saver:
    """Saves through the parent, which holds the lease."""

    def __init__(self, home: _Home) -> None:
        self._home = home

    def save_now(self, job: Any, saved: str) -> bool:
        self._home.tell({"ask": "save"}, saved)
        answer = self._home.asked.get()
        return answer is not None and bool(answer[0].get("saved"))

    async def save(self, job: Any, saved: str) -> bool:
        return self.save_now(job, saved)


def _raised(error: BaseException, place: str) -> tuple[dict[str, Any], str]:
    """The outcome of a handler that raised."""
    from tidegate.errors import Held, LeaseLost
    from tidegate.faults.codes import CORE
    from tidegate.faults.origin import with_origin
    from tidegate.jobs.outcome import Again, Fail

    said: dict[str, Any]
    match error:
        case MemoryError():
            said = {"end": "memory"}
        case Again():
            said = {
                "end": "again",
                "delay": error.delay,
                "keep_attempt": error.keep_attempt,
                "code": error.code,
                "message": error.message,
                "status": error.status,
                "ladder": error.ladder,
                "keep_place": error.keep_place,
                "fault": _told(error.fault),
            }
        case Fail():
            said = {
                "end": "fail",
                "code": error.code,
                "message": error.message,
                "status": error.status,
                "keep_place": error.keep_place,
                "fault": _told(error.fault),
            }
        case Held():
            said = {"end": "held", "target": error.target, "reason": error.reason, "retry_after": error.retry_after}
        case LeaseLost():
            said = {"end": "lost"}
        case Exception():
            from tidegate.faults.classification import classify

            pack = getattr(_found[place][0], "pack", None) if place in _found else None
            fault = classify(error, pack) or CORE["unexpected"].fault("handler")
            said = {"end": "fault", "fault": _told(with_origin(fault, error))}
        case _:
            fault = CORE["unexpected"].fault("handler", detail=f"the handler ended itself with {type(error).__name__}")
            said = {"end": "fault", "fault": _told(with_origin(fault, error))}
    return said, ""


def _told(fault: Any) -> dict[str, Any] | None:
    """A fault as JSON for the parent."""
    return None if fault is None else {**fault.as_json(), "detail": fault.detail}


# -- finding the handler ---------------------------------------------------------------------------------------------


def find(place: str) -> Any:
    """Imports the object at `module:name` or `/path/of/a/script.py:name`."""
    where, _, name = place.rpartition(":")
    thing: Any = _script(where) if where.endswith(".py") else importlib.import_module(where)
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def _script(file: str) -> ModuleType:
    known = sys.modules.get(_MAIN)
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(_MAIN, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = sys.modules[_MAIN] = importlib.util.module_from_spec(spec)
    protocol.importing(file)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[_MAIN]
        raise
    finally:
        protocol.importing("")
    return module
