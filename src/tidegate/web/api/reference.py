"""/classify, /codes and /config: classification of a response or exception, all codes, effective settings."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Request, Response
from pydantic import ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from tidegate.admin import classification
from tidegate.admin.classification import ObservedResponse
from tidegate.errors import NotFound
from tidegate.faults.codes import Code
from tidegate.web.api import routing
from tidegate.web.api.idempotent import Acting, idempotent
from tidegate.web.api.models import WHOLE, Listed, RequestModel, ResponseModel, Token
from tidegate.web.api.routing import read, responses
from tidegate.web.masking import shown_setting
from tidegate.web.problems import API_CODES, ApiCode
from tidegate.web.site import Site, site_of

router = routing.api("classify")

_PACKS = tuple(classification.packs())
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
            raise ValueError(f"{raised[0]}: it cannot be combined with a response; remove {', '.join(answer)}")
        if not raised and self.status is None:
            raise ValueError("status: nothing to classify was given; give a status, or an exception or its message")
        if self.rules is not None and self.rules not in _PACKS:
            raise ValueError(f"rules: unknown rule pack; choose one of: {', '.join(_PACKS)}")
        return self

    def seen(self) -> object:
        """Return the input of the classifier."""
        if self.status is not None:
            headers = {name.lower(): value for name, value in (self.headers or {}).items()}
            body = (self.body or "").encode("utf-8", "replace")
            return ObservedResponse(status_code=self.status, headers=headers, content=body, url=self.url or "")
        message = self.message or ""
        return message if self.exception is None else classification.exception_named(self.exception, message)


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
    """Classifies a response or an exception."""
    pack = None if body.rules is None else classification.packs()[body.rules]
    verdict = classification.verdict(body.seen(), pack, asking.site.queue.clock.now())
    return idempotent(asking, lambda tx: VerdictShown.model_validate(verdict.as_json()))


# -- /codes ------------------------------------------------------------------------------------------------------------

codes_router = routing.api("codes")


class CodeShown(ResponseModel):
    """One code. Those of the API have a status, those of faults a reason and a reach."""

    code: str
    class_: str = Field(alias="class")
    of: str = Field(description="'fault' or 'api'.")
    title: str
    advice: str
    reason: str | None = None
    reach: str | None = None
    level: str | None = None
    status: int | None = None
    help: str


@codes_router.get("/codes", responses=responses(Listed[CodeShown]))
def list_codes(request: Request) -> Response:
    """Lists the fault codes, with those of the applications, then those of the API."""
    items = _all(site_of(request))
    return read(request, Listed.whole(list(items.values())))


@codes_router.get("/codes/{code}", responses=responses(CodeShown, 404))
def one_code(request: Request, code: Annotated[Token, Path()]) -> Response:
    """The meaning of one code."""
    match = _all(site_of(request)).get(code)
    if match is None:
        raise NotFound(f"there is no code {code}")
    return read(request, match)


def _all(site: Site) -> dict[str, CodeShown]:
    faults = {name: _of_fault(code, site.base) for name, code in site.codes.items()}
    return faults | {name: _of_api(row, site.base) for name, row in API_CODES.items() if name not in faults}


def _class(fatal: bool) -> dict[str, Any]:
    return {"class": "fatal" if fatal else "retriable"}


def _of_fault(code: Code, base: str) -> CodeShown:
    return CodeShown(
        **_class(code.fatal),
        code=code.name,
        of="fault",
        title=code.message,
        advice=code.advice,
        reason=str(code.reason),
        reach=str(code.reach),
        level=str(code.level),
        help=f"{base}/help/errors/{code.name}",
    )


def _of_api(row: ApiCode, base: str) -> CodeShown:
    return CodeShown(
        **_class(not row.retriable),
        code=row.name,
        of="api",
        title=row.title,
        advice=row.advice,
        status=row.status,
        help=f"{base}/help/errors/{row.name}",
    )


# -- /config -----------------------------------------------------------------------------------------------------------

config_router = routing.api("config")


class Setting(ResponseModel):
    """One setting: its value, and where that came from. *variable* is that of the environment that sets it."""

    key: str
    value: str
    origin: str
    about: str = ""
    secret: bool = False
    variable: str = ""


@config_router.get("/config", responses=responses(Listed[Setting]))
def list_settings(request: Request) -> Response:
    """The current settings; secrets are masked."""
    items = [Setting.model_validate(shown_setting(setting)) for setting in site_of(request).config()]
    return read(request, Listed.whole(items))
