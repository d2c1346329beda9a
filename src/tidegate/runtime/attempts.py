"""One attempt at one job: runs its handler and says how it ended."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Callable
from typing import Any

from tidegate.core.classify import classify
from tidegate.core.codes import CORE
from tidegate.core.job import Claimed, Outcome
from tidegate.core.rule import Pack
from tidegate.errors import Held, LeaseLost
from tidegate.machine import lifecycle
from tidegate.machine.lifecycle import Again, Done, Fail
from tidegate.runtime.context import Context
from tidegate.runtime.cycle import Ended
from tidegate.runtime.job_gates import Note
from tidegate.runtime.job_kinds import JobKind
from tidegate.runtime.threads import Threads

_log = logging.getLogger("tidegate.worker")

# A queue may hold kinds that this worker does not know (a newer program put them in): another worker may.
_UNKNOWN_WAIT = 60.0


class Attempt:
    """A claimed job, from its claim to its settling."""

    __slots__ = ("context", "deadline", "generation", "job", "kind", "started", "stop", "task")

    def __init__(self, job: Claimed, kind: JobKind | None, context: Context, generation: int, deadline: float) -> None:
        self.job = job
        self.kind = kind
        self.context = context
        self.generation = generation
        self.deadline = deadline  # monotonic: until then the lease is surely ours
        self.started = False
        self.stop: str | None = None  # why it was told to stop: "person", "shutdown" or "lost"
        self.task: asyncio.Task[None] | None = None

    def tell(self, why: str) -> None:
        """Tells the handler to stop; an `async def` is cancelled, a `def` must look at `job.cancelled`."""
        if self.stop is None or why == "lost":
            self.stop = why
        self.context.cancelled = True
        self.context.lost = self.context.lost or why == "lost"
        if self.task is not None and self.started and self.kind is not None and self.kind.colour == "async":
            self.task.cancel()


async def run(attempt: Attempt, threads: Threads, pack: Pack | None, roll: Callable[[], float]) -> Ended | None:
    """How the attempt ended; None when its lease is lost, so that nothing may be written."""
    job, kind = attempt.job, attempt.kind
    if kind is None:
        _log.error("unknown_kind queue=%s kind=%s job=%s", job.queue, job.kind, job.id)
        return Ended(lifecycle.given_back(job, unsent=True, wait=_UNKNOWN_WAIT, code="unexpected"))
    try:
        result = await _call(attempt, kind, threads)
    except Again as wish:
        return Ended(lifecycle.again(job, wish))
    except Fail as fail:
        known = pack.book.get(fail.code) if pack is not None else CORE.get(fail.code)
        message = fail.message or ("" if known is None else known.message)
        return Ended(lifecycle.failed(job, fail.code, message, fail.status), _note(attempt, ok=None))
    except Held as held:
        return Ended(lifecycle.given_back(job, unsent=True, wait=held.retry_after))
    except LeaseLost:
        return None
    except asyncio.CancelledError:
        return _stopped(attempt)
    except Exception as error:
        return _faulted(attempt, kind, error, pack, roll())
    return _finished(attempt, kind, result)


async def _call(attempt: Attempt, kind: JobKind, threads: Threads) -> Any:
    args = kind.decode(attempt.job.args)
    given = (args, attempt.context) if kind.takes_context else (args,)
    if kind.verify is not None and attempt.context.retried:
        found = kind.verify(*given)
        found = await found if inspect.isawaitable(found) else found
        if found is not None:
            return found
    if kind.colour == "async":
        return await kind.handler(*given)
    return await threads.handler(lambda: kind.handler(*given))


def _finished(attempt: Attempt, kind: JobKind, result: Any) -> Ended | None:
    if attempt.stop == "lost":
        return None
    writes: tuple[Any, ...] = ()
    if isinstance(result, Done):
        result, writes = result.result, tuple(result.writes)
    try:
        dumped = kind.encode_result(result)
    except (TypeError, ValueError) as error:
        _log.exception("result_not_serialisable kind=%s job=%s", kind.name, attempt.job.id)
        return Ended(lifecycle.failed(attempt.job, "bad_answer", f"The result cannot be stored: {error}"))
    return Ended(lifecycle.done(attempt.job, dumped), _note(attempt, ok=True), writes)


def _stopped(attempt: Attempt) -> Ended | None:
    outcomes: dict[str | None, Outcome] = {
        "person": lifecycle.stopped(attempt.job),
        "shutdown": lifecycle.given_back(attempt.job, unsent=False),
    }
    found = outcomes.get(attempt.stop)
    return None if found is None else Ended(found)


def _faulted(attempt: Attempt, kind: JobKind, error: Exception, pack: Pack | None, roll: float) -> Ended:
    fault = classify(error, pack)
    if fault is None:
        # The answer was a good one, but the handler could not go on: its own bug, tried again like any unknown fault.
        fault = CORE["unexpected"].fault("handler")
    if fault.unclassified:
        _log.error("job_failed kind=%s job=%s", kind.name, attempt.job.id, exc_info=error)
    else:
        _log.log(
            fault.level.number,
            "job_failed kind=%s job=%s code=%s error=%s",
            kind.name,
            attempt.job.id,
            fault.code,
            fault.detail,
        )
    outcome = lifecycle.after_fault(attempt.job, fault, kind.policy, roll)
    counts = fault.counts_as_failure
    ok = None if counts is None else not counts
    note = Note(attempt.job.target, attempt.job.lane, attempt.generation, ok, fault) if attempt.job.target else None
    return Ended(outcome, note)


def _note(attempt: Attempt, *, ok: bool | None) -> Note | None:
    job = attempt.job
    return Note(job.target, job.lane, attempt.generation, ok) if job.target else None


def parent_results(found: dict[int, str | None]) -> dict[int, Any]:
    return {parent: None if result is None else json.loads(result) for parent, result in found.items()}
