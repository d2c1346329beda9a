"""What goes in and out, as models: strict on the way in, ISO-8601 times in UTC on the way out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tidegate.core.duration import MAX_SECONDS as LONGEST
from tidegate.ops.masking import shown_value
from tidegate.store.gate_rows import TargetEvent

M = TypeVar("M", bound=BaseModel)

NAME = r"^[^\x00-\x1f\x7f]+$"
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=NAME)]
Key = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Why = Annotated[
    str, Field(max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$", description="Why you do it, for those who ask later.")
]
Group = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{16})?$")]
Token = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_]+$")]
JobId = Annotated[int, Field(ge=1, le=2**53 - 1)]  # what every JSON reader can hold
Seconds = Annotated[float, Field(gt=0, le=LONGEST, allow_inf_nan=False)]


def _whole(given: Any) -> Any:
    """JSON does not tell 3.0 from 3."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


WHOLE = BeforeValidator(_whole)  # the last annotation of a whole number


def iso(moment: float) -> str:
    """UNIX time as ISO-8601 in UTC, with milliseconds."""
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
    def no_null(cls, given: Any) -> Any:
        for name, value in given.items() if isinstance(given, dict) else ():
            if value is None:
                raise ValueError(f"{name[:60]}: null is not allowed; leave the field out")
        return given

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        for field in handler.resolve_ref_schema(schema).get("properties", {}).values():
            if "default" in field and field["default"] is None:
                del field["default"]  # what may be left out may not be null
        return schema


class ResponseModel(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(populate_by_name=True, frozen=True)


class Listed(ResponseModel, Generic[M]):
    """One page of a list. *total* is counted up to a limit."""

    items: list[M]
    next_cursor: str | None
    total: int | None = None
    total_is_capped: bool = False


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
        """As it may be shown: without what looks like a secret."""
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
