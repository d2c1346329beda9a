"""/classify: what an answer or an exception means, and which rule says so."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Response
from pydantic import ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from tidegate.ops import verdicts
from tidegate.ops.verdicts import ObservedResponse
from tidegate.web.api import strict
from tidegate.web.api.answers import responses
from tidegate.web.api.once import Acting, idempotent
from tidegate.web.api.shapes import WHOLE, RequestModel, ResponseModel

router = strict.api("classify")

_PACKS = tuple(verdicts.packs())
Header = Annotated[str, Field(max_length=4000)]


def _schema(schema: dict[str, Any]) -> None:
    schema["oneOf"] = [
        {"required": ["status"], "not": {"anyOf": [{"required": ["exception"]}, {"required": ["message"]}]}},
        {
            "anyOf": [{"required": ["exception"]}, {"required": ["message"]}],
            "not": {"anyOf": [{"required": [name]} for name in ("status", "headers", "body", "url")]},
        },
    ]


class Question(RequestModel):
    """An answer (status, headers, body, url), or an exception (its name, its message)."""

    model_config = ConfigDict(json_schema_extra=_schema)

    status: Annotated[int, Field(ge=100, le=599), WHOLE] | SkipJsonSchema[None] = None
    headers: Annotated[dict[str, Header], Field(max_length=100)] | SkipJsonSchema[None] = None
    body: Annotated[str, Field(max_length=100_000)] | SkipJsonSchema[None] = None
    url: Annotated[str, Field(max_length=2000)] | SkipJsonSchema[None] = None
    exception: Annotated[str, Field(max_length=200)] | SkipJsonSchema[None] = Field(
        None, description="Its name, such as httpx.ConnectTimeout."
    )
    message: Annotated[str, Field(max_length=10_000)] | SkipJsonSchema[None] = None
    rules: Annotated[str, Field(json_schema_extra={"enum": list(_PACKS)})] | SkipJsonSchema[None] = Field(
        None, description="The rules of one service, asked first."
    )

    @model_validator(mode="after")
    def one_thing(self) -> Question:
        answer = [name for name in ("status", "headers", "body", "url") if getattr(self, name) is not None]
        raised = [name for name in ("exception", "message") if getattr(self, name) is not None]
        if answer and raised:
            raise ValueError(f"{raised[0]}: it stands alone; leave out {', '.join(answer)}")
        if not raised and self.status is None:
            raise ValueError("status: give the status of an answer, or an exception or its message")
        if self.rules is not None and self.rules not in _PACKS:
            raise ValueError(f"rules: there is no such pack; give one of: {', '.join(_PACKS)}")
        return self

    def seen(self) -> object:
        """What the classifier is asked about."""
        if self.status is not None:
            headers = {name.lower(): value for name, value in (self.headers or {}).items()}
            body = (self.body or "").encode("utf-8", "replace")
            return ObservedResponse(status_code=self.status, headers=headers, content=body, url=self.url or "")
        message = self.message or ""
        return message if self.exception is None else verdicts.exception_named(self.exception, message)


class FaultShown(ResponseModel):
    code: str
    class_: str = Field(alias="class")
    reason: str
    reach: str
    level: str
    status: int
    retry_after: float | None
    message: str
    advice: str
    rule: str


class VerdictShown(ResponseModel):
    """*good*: it is no fault at all."""

    format: str = Field(alias="schema")
    good: bool
    fault: FaultShown | None


@router.post("/classify", responses=responses(VerdictShown, 400, 409))
def classify(body: Question, asking: Acting) -> Response:
    """Says what an answer or an exception means."""
    pack = None if body.rules is None else verdicts.packs()[body.rules]
    found = verdicts.verdict(body.seen(), pack, asking.site.queue.clock.now())
    return idempotent(asking, lambda tx: VerdictShown(**found.as_json()))
