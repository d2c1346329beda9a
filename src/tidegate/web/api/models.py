"""Base models of the API: strict input, ISO-8601 times in UTC as output."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue, SkipJsonSchema
from pydantic_core import CoreSchema

from tidegate.durations import MAX_SECONDS as LONGEST
from tidegate.faults.redaction import shown_value
from tidegate.targets.table import TargetEvent
from tidegate.web.problems import Problem

M = TypeVar("M", bound=BaseModel)

NAME = r"^[^\x00-\x1f\x7f]+$"
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=NAME)]
Key = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Why = Annotated[
    str, Field(max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$", description="Why you do it, for those who ask later.")
]
Group = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{16})?$")]
Token = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_]+$")]
JobId = Annotated[int, Field(ge=1, le=2**53 - 1)]  # the largest integer that every JSON parser can hold
Seconds = Annotated[float, Field(gt=0, le=LONGEST, allow_inf_nan=False)]


def _whole(value: Any) -> Any:
    """JSON does not distinguish 3.0 from 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)  # the last annotation of an integer


def iso(moment: float) -> str:
    """Format UNIX time as ISO-8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Moment = Annotated[
    float,
    PlainSerializer(iso, return_type=str, when_used="unless-none"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


class RequestModel(BaseModel):
    """The body of a request: no unknown field, no null, and false is no number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def no_null(cls, raw: Any) -> Any:
        for name, value in raw.items() if isinstance(raw, dict) else ():
            if value is None:
                raise ValueError(f"{name[:60]}: null is not allowed; leave the field out")
        return raw

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        for field in handler.resolve_ref_schema(schema).get("properties", {}).values():
            if "default" in field and field["default"] is None:
                del field["default"]  # an optional field may not be null
        return schema


class ResponseModel(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(populate_by_name=True, frozen=True, from_attributes=True)


class Listed(ResponseModel, Generic[M]):
    """One page of a list. *total* is counted up to a limit."""

    items: list[M]
    next_cursor: str | None
    total: int | None = None
    total_is_capped: bool = False

    @classmethod
    def whole(cls, items: list[M]) -> Listed[M]:
        """Return a list that is one page."""
        return cls(items=items, next_cursor=None, total=len(items))


class Reason(ResponseModel):
    """Why something is not running: who or what ends it, and when."""

    reason: str
    subject: str
    since: Moment | None
    until: Moment | None
    ended_by: str
    message: str


class GateEventShown(ResponseModel):
    """What happened to a queue, a target or a key of it."""

    id: int
    at: Moment
    subject: str
    name: str
    key: str | None
    kind: str
    actor: str
    fields: dict[str, Any]

    @classmethod
    def of(cls, event: TargetEvent) -> GateEventShown:
        """Build from an event, with secrets redacted."""
        about = event.as_json()
        return cls(**{**about, "fields": shown_value(about["fields"])})


class FieldError(ResponseModel):
    field: str
    message: str


class ProblemShown(ResponseModel):
    """What went wrong. There may be further fields."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str | None = Field(description="None where an application has no code for it; the type says it.")
    class_: str = Field(alias="class", pattern="^(retriable|fatal)$")
    retriable: bool
    retry_after: float | None
    request_id: str
    errors: list[FieldError] = []


# -- time ranges -------------------------------------------------------------------------------------------------------
#
# An order of a user always has an end.

_ONE: dict[str, Any] = {"oneOf": [{"required": ["until"]}, {"required": ["for"]}]}


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("it is not a time; give one such as 2026-11-20T14:30:00Z")  # noqa: TRY004 - pydantic wants this one
    return value


Time = Annotated[
    AwareDatetime, Field(strict=False, description="ISO-8601, with its offset from UTC."), BeforeValidator(_text)
]


class Ending(RequestModel):
    """Give `until`, a time ahead, or `for`, a number of seconds."""

    model_config = ConfigDict(json_schema_extra=_ONE, title="Ending")

    until: Time | SkipJsonSchema[None] = None
    for_: Seconds | SkipJsonSchema[None] = Field(None, alias="for")
    reason: Why = ""

    @model_validator(mode="after")
    def one_end(self) -> Ending:
        if (self.until is None) == (self.for_ is None):
            raise ValueError("the end is missing; give either until or for")
        return self

    def moment(self, now: float) -> float:
        """Return the end as UNIX time. Raises Problem if it is in the past."""
        return moment(self.until, self.for_, now)


def moment(until: datetime | None, lasts: float | None, now: float) -> float:
    end = now + (lasts or 0.0) if until is None else until.astimezone(UTC).timestamp()
    if not now < end <= now + LONGEST:
        raise Problem("time_passed", f"until: it is {iso(now)} now; give a time ahead, at most a hundred years.")
    return end
