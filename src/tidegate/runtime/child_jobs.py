"""A job whose handler runs in a child process: what the child is told, and what its answer means here."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from tidegate.core.codes import CORE
from tidegate.core.fault import Fault
from tidegate.errors import Held, LeaseLost
from tidegate.machine.lifecycle import Again, Done, Fail
from tidegate.runtime.children import ChildCall, ChildError, fault_in
from tidegate.runtime.frames import Frame
from tidegate.store.tx import BoundStatement

if TYPE_CHECKING:
    from tidegate.core.job import Claimed
    from tidegate.runtime.context import Context
    from tidegate.runtime.job_kinds import JobKind

_BAD_ANSWER = CORE["child_died"].fault("child", detail="it answered with something else")


def call_of(kind: JobKind, args: str, context: Context) -> ChildCall:
    """The call that runs a job; it saves under the lease of *context*."""
    job: Claimed = context._job
    told = {"job": dataclasses.astuple(job), "store_id": context._store_id, "parents": dict(context.parent_results)}
    return ChildCall(kind.place, args, kind.limits, told, lambda saved: context._saver.save_now(job, saved))


def result_of(answer: Frame, job: Claimed | None = None) -> Any:
    """What the handler returned, or raised: the same as if it had run here."""
    said, text = answer
    try:
        match said.get("end"):
            case "done":
                writes = [BoundStatement(str(name), dict(params)) for name, params in said["writes"]]
                result = json.loads(text)
                return Done(result, writes, unsent=bool(said["unsent"])) if writes or said["unsent"] else result
            case "again":
                raise Again(
                    float(said["delay"]), ladder=bool(said["ladder"]), keep_attempt=bool(said["keep_attempt"]),
                    keep_place=bool(said["keep_place"]), code=said["code"], message=str(said["message"]),
                    status=said["status"], fault=_fault(said),
                )  # fmt: skip
            case "fail":
                raise Fail(
                    str(said["code"]), str(said["message"]), keep_place=bool(said["keep_place"]),
                    status=said["status"], fault=_fault(said),
                )  # fmt: skip
            case "held":
                raise Held(str(said["target"]), None, str(said["reason"]), 0.0, None, said["retry_after"])
            case "lost" if job is not None:
                raise LeaseLost(job.id, job.fence)
            case "memory":
                raise ChildError(CORE["child_memory"].fault("child"))
            case "fault":
                raise ChildError(fault_in(said["fault"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ChildError(_BAD_ANSWER) from error
    raise ChildError(_BAD_ANSWER)


def _fault(said: dict[str, Any]) -> Fault | None:
    return None if said["fault"] is None else fault_in(said["fault"])
