"""Request and response models of jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from tidegate.faults.redaction import shown_json, shown_message
from tidegate.jobs.job import Job
from tidegate.jobs.listing import Filter
from tidegate.jobs.reports import JobReport, JobSummary
from tidegate.web.api.models import Group, Key, Moment, Reason, RequestModel, ResponseModel

State = Literal["", "queued", "blocked", "waiting", "ready", "running", "done", "failed", "cancelled"]
Age = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
_MAX_EVENTS = 200


def _message(text: str | None) -> str | None:
    return None if text is None else shown_message(text)


class JobItem(ResponseModel):
    """One job in a list. `stage` splits queued into blocked, waiting and ready; `word` is for people."""

    id: int
    queue: str
    kind: str
    target: str
    key: str
    state: str
    stage: str
    token: str
    word: str
    reason: str
    priority: int
    attempt: int
    most_attempts: int
    code: str | None
    created_at: Moment
    due_at: Moment
    finished_at: Moment | None


class Lease(ResponseModel):
    worker: str
    until: Moment
    claimed_at: Moment | None


class JobEventShown(ResponseModel):
    kind: str
    at: Moment
    attempt: int
    code: str | None
    status: int | None
    message: Annotated[str | None, BeforeValidator(_message)]
    actor: str | None
    duration: float | None = Field(description="Seconds, of an attempt.")


class JobShown(JobItem):
    """One job with its history, and why it waits if it does. Secrets are masked, long texts cut."""

    expires_at: Moment | None
    args: Any
    saved: Any
    result: Any
    error_code: str | None
    error_message: str | None
    last_code: str | None
    last_status: int | None
    last_message: str | None
    last_at: Moment | None
    lease: Lease | None
    stop_asked: bool
    manual_retries: int
    waits_for: list[Reason]
    events: list[JobEventShown]


class JobFilter(RequestModel):
    """Which jobs; what is left out stands for any."""

    queue: Key = ""
    state: State = ""
    kind: Key = ""
    target: Key = ""
    code: Key = ""
    failure: Group = ""
    older: Age | SkipJsonSchema[None] = Field(None, description="Seconds since it was put in, at least.")
    younger: Age | SkipJsonSchema[None] = Field(None, description="Seconds since it was put in, at most.")

    def wanted(self) -> Filter:
        return Filter(**{name: getattr(self, name) for name in type(self).model_fields})


class JobFilterQuery:
    """The same as parameters of a query."""

    def __init__(
        self,
        queue: Annotated[Key, Query()] = "",
        state: Annotated[State, Query()] = "",
        kind: Annotated[Key, Query()] = "",
        target: Annotated[Key, Query()] = "",
        code: Annotated[Key, Query(description="Of its last failure.")] = "",
        failure: Annotated[Group, Query(description="The group of failures that it belongs to.")] = "",
        older: Annotated[float | None, Query(ge=0, le=1e12, allow_inf_nan=False)] = None,
        younger: Annotated[float | None, Query(ge=0, le=1e12, allow_inf_nan=False)] = None,
    ) -> None:
        self.filter = Filter(
            queue=queue,
            state=state,
            kind=kind,
            target=target,
            code=code,
            failure=failure,
            older=older,
            younger=younger,
        )


def item(line: JobSummary, now: float) -> JobItem:
    return JobItem.model_validate({**line.as_json(), "reason": line.reason(now)})


def whole(report: JobReport, now: float) -> JobShown:
    job = report.job
    line = line_of(job)
    lease = None
    if job.lease_by is not None and job.lease_until is not None:
        lease = Lease(worker=job.lease_by, until=job.lease_until, claimed_at=job.claimed_at)
    return JobShown(
        **line.as_json(),
        reason=line.reason(now),
        expires_at=job.expires_at,
        args=shown_json(job.args),
        saved=shown_json(job.saved),
        result=shown_json(job.result),
        error_code=job.error_code,
        error_message=_message(job.error_message),
        last_code=job.last_code,
        last_status=job.last_status,
        last_message=_message(job.last_message),
        last_at=job.last_at,
        lease=lease,
        stop_asked=bool(job.stop_asked),
        manual_retries=job.manual_retries,
        waits_for=[Reason.model_validate(reason.as_json()) for reason in report.reasons],
        events=[JobEventShown.model_validate(event) for event in report.events[-_MAX_EVENTS:]],
    )


def line_of(job: Job) -> JobSummary:
    return JobSummary(
        job.id,
        job.queue,
        job.kind,
        job.target,
        job.lane,
        job.stage,
        job.priority,
        job.created_at,
        job.due_at,
        job.attempt,
        job.most_attempts,
        job.error_code or job.last_code,
        job.finished_at,
    )
