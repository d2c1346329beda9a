"""Errors as `application/problem+json`, in one shape. They contain no path, secret or traceback."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from tidegate.errors import (
    Held,
    LeaseLost,
    NotFound,
    Rejected,
    SchemaTooNew,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreMissing,
    TidegateError,
    UniqueTaken,
)
from tidegate.faults.codes import Code, CodeBook
from tidegate.faults.fault import Level
from tidegate.faults.redaction import cut
from tidegate.idempotency import AnswerNotKept, InFlight, OtherBody
from tidegate.validation import JsonObject, similar
from tidegate.web.site import Site

MEDIA_TYPE = "application/problem+json"
REQUEST_ID = "tidegate.request_id"  # key in the ASGI scope
_MAX_DETAIL = 500
_MAX_PATH = 200


@dataclass(frozen=True, slots=True)
class ApiCode:
    """An error of the request or of this server. No external service is involved."""

    name: str
    status: int
    title: str
    advice: str
    retriable: bool = False


_ROWS = (
    ApiCode("malformed", 400, "The request cannot be read.", "Send well-formed JSON and headers."),
    ApiCode("bad_cursor", 400, "The cursor is not one of ours.", "Use next_cursor of the page before, unchanged."),
    ApiCode("key_malformed", 400, "The Idempotency-Key is not allowed.", "Send 1 to 255 printable ASCII characters."),
    ApiCode("not_signed_in", 401, "Nobody is signed in.", "Sign in, or send a token: Authorization: Bearer."),
    ApiCode("no_users", 401, "No user exists yet.",
            "On the machine that runs the server: tidegate user add NAME --role admin."),
    ApiCode("not_allowed", 403, "Your role does not allow this.", "Ask an admin to do it, or for another role."),
    ApiCode("cross_site", 403, "The request comes from another site.", "Use the page or the API of this server."),
    ApiCode("no_such_path", 404, "There is nothing at this address.", "Look at /api/openapi.json for the addresses."),
    ApiCode("not_there", 404, "There is no such thing.", "Check the name or the number."),
    ApiCode("method", 405, "This address does not take this method.", "Use one of those in the Allow header."),
    ApiCode("not_acceptable", 406, "The answer cannot be given in that form.", "Accept application/json."),
    ApiCode("refused", 409, "This is not possible as things stand.", "Reload it, then decide again."),
    ApiCode("time_passed", 409, "That time has passed.", "Give a time that is ahead."),
    ApiCode("unique_taken", 409, "Another job has taken its place.", "Look for the job that does the same."),
    ApiCode("key_in_flight", 409, "The same request is under way.", "Ask again in a moment.", retriable=True),
    ApiCode("answer_not_kept", 409, "It was done before, and its answer is not kept.", "Look at what it made."),
    ApiCode("too_large", 413, "The request is too large.", "Send less at once."),
    ApiCode("media_type", 415, "The request is in a form that is not read here.", "Send application/json."),
    ApiCode("misdirected", 421, "This server does not answer for that host.",
            "Use its address, or add the name to server.names in the settings."),
    ApiCode("invalid", 422, "The request is not valid.", "Correct the fields that are named."),
    ApiCode("key_reused", 422, "The Idempotency-Key was used for another request.", "Make a new key for each request."),
    ApiCode("too_many", 429, "Too much of this is under way.", "Ask again after the time given.", retriable=True),
    ApiCode("internal", 500, "Something went wrong on this server.",
            "Look for the request id in its log; please report it.", retriable=True),
    ApiCode("held", 503, "A gate is shut: the service is not called now.", "Ask again after the time given.",
            retriable=True),
    ApiCode("store_away", 503, "The database cannot be reached.", "Ask again after the time given.",
            retriable=True),
    ApiCode("store_missing", 503, "The database file is missing.",
            "Nothing is accepted. Put the file back, or restore a copy: tidegate db restore."),
    ApiCode("store_damaged", 503, "The database file is damaged.",
            "Nothing is accepted. Stop Tidegate and restore a copy: tidegate db restore."),
    ApiCode("store_full", 503, "The disk of the database is full.", "Free some space on it.", retriable=True),
    ApiCode("schema_too_new", 503, "The database was made by a newer version.", "Start the newer version."),
    ApiCode("not_ready", 503, "The server is not ready.", "Ask again after the time given.", retriable=True),
    ApiCode("no_workers", 503, "Jobs wait, and no worker is there.", "Start a worker: tidegate worker.",
            retriable=True),
)  # fmt: skip

API_CODES: dict[str, ApiCode] = {row.name: row for row in _ROWS}

# What lower layers raise. The first match counts.
_RAISED: tuple[tuple[type[TidegateError], str], ...] = (
    (NotFound, "not_there"),
    (OtherBody, "key_reused"),
    (InFlight, "key_in_flight"),
    (AnswerNotKept, "answer_not_kept"),
    (Rejected, "refused"),
    (LeaseLost, "refused"),
    (UniqueTaken, "unique_taken"),
    (Held, "held"),
    (SchemaTooNew, "schema_too_new"),
    (StoreFull, "store_full"),
    (StoreMissing, "store_missing"),
    (StoreDamaged, "store_damaged"),
    (StoreBusy, "store_away"),
    (StoreError, "store_away"),
)
_NO_TIME_HELPS = (SchemaTooNew, StoreMissing, StoreDamaged)  # an operator must act
_BY_STATUS = {
    400: "malformed",
    404: "not_there",
    405: "method",
    406: "not_acceptable",
    413: "too_large",
    415: "media_type",
    421: "misdirected",
    422: "invalid",
    429: "too_many",
}


class Problem(HTTPException):
    """A request that failed. Raise it anywhere in a route.

    *detail* is one sentence for users. *retry_after* is in seconds, or None when waiting does not help.
    """

    def __init__(
        self,
        code: str,
        detail: str = "",
        *,
        status: int | None = None,
        title: str | None = None,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        row = API_CODES.get(code)
        self.code = code
        self.title = title
        self.retry_after = None if retry_after is None or not math.isfinite(retry_after) else max(0.0, retry_after)
        self.more = more
        super().__init__(status or (500 if row is None else row.status), cut(detail, _MAX_DETAIL), dict(headers or {}))


def problem_of(error: Exception, site: Site) -> Problem:
    """Convert an exception to a problem. An unknown one becomes `internal`, without its message."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        code = _BY_STATUS.get(error.status_code, "internal" if error.status_code >= 500 else "malformed")
        detail = str(error.detail) if error.status_code < 500 else ""
        return Problem(code, detail, status=error.status_code, headers=error.headers)
    return _raised(error, code_of(type(error)), site) if isinstance(error, TidegateError) else Problem("internal")


def code_of(kind: type[TidegateError]) -> str:
    """Return the code of the problem that such an error becomes."""
    return next((code for known, code in _RAISED if issubclass(kind, known)), "internal")


def _raised(error: TidegateError, code: str, site: Site) -> Problem:
    if isinstance(error, Held):
        return Problem(code, str(error), retry_after=error.retry_after, target=error.target, reason=error.reason)
    if isinstance(error, InFlight):
        return Problem(code, retry_after=error.retry_after)
    if isinstance(error, (UniqueTaken, OtherBody, AnswerNotKept)):
        return Problem(code)
    if isinstance(error, StoreError):  # its message may contain a path, or a URL with a password
        return Problem(code, retry_after=None if isinstance(error, _NO_TIME_HELPS) else site.outage.seen())
    return Problem(code, f"{str(error).rstrip('.')}.")


def document(problem: Problem, scope: Scope, code_book: CodeBook) -> JsonObject:
    """Return the JSON document of a problem."""
    row = API_CODES.get(problem.code)
    known: Code | None = code_book.get(problem.code)
    if row is not None:
        title, advice, retriable = row.title, row.advice, row.retriable
    elif known is not None:
        title, advice, retriable = known.message, known.advice, not known.fatal
    else:
        title, advice, retriable = "The request failed.", "", problem.status_code >= 500
    base = str(scope.get("root_path", ""))
    return {
        "type": f"{base}/help/errors/{problem.code}",
        "title": problem.title or title,
        "status": problem.status_code,
        "detail": problem.detail or advice or title,
        "instance": cut(str(scope.get("path", "")), _MAX_PATH),
        "code": problem.code,
        "class": "retriable" if retriable else "fatal",
        "retriable": retriable,
        "retry_after": problem.retry_after,
        "request_id": scope.get(REQUEST_ID),
        **problem.more,
    }


def problem_response(problem: Problem, scope: Scope, code_book: CodeBook) -> Response:
    """Return the problem as a response, with Retry-After if waiting helps."""
    text = json.dumps(document(problem, scope, code_book), ensure_ascii=False).encode("utf-8", "replace")
    return Response(text, problem.status_code, headers=headers_of(problem), media_type=MEDIA_TYPE)


class ProblemResponse(Response):
    """A problem that is rendered on send, because only then the request is known."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(status_code=problem.status_code, media_type=MEDIA_TYPE)
        self.problem = problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await problem_response(self.problem, scope, scope["app"].state.site.codes)(scope, receive, send)


def headers_of(problem: Problem) -> dict[str, str]:
    """Return the response headers of a problem."""
    headers = {name: value for name, value in (problem.headers or {}).items() if name.lower() != "content-length"}
    if problem.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(problem.retry_after)))
    return headers


def level_of(code: str, code_book: CodeBook) -> Level:
    """Return the log level: ERROR only if an operator must act."""
    if code == "internal":
        return Level.ERROR
    return code_book[code].level if code in code_book else Level.WARN


# -- validation errors -------------------------------------------------------------------------------------------------
#
# One plain sentence per field, never with the rejected value.

_MAX_ERRORS = 20
_MAX_NAME = 100
# pydantic's names for the members of a union
_BRANCH = re.compile(r"[-\[]|^(?:float|int|str|bool|datetime|dict|none)$")

# By pydantic's error type. Each function gets pydantic's context of the error.
_SENTENCES: dict[str, Callable[[JsonObject], str]] = {
    "missing": lambda ctx: "it is missing",
    "extra_forbidden": lambda ctx: "unknown field",
    "int_type": lambda ctx: "give a whole number",
    "int_parsing": lambda ctx: "give a whole number",
    "int_from_float": lambda ctx: "give a whole number",
    "int_parsing_size": lambda ctx: "the number is too large",
    "float_type": lambda ctx: "give a number",
    "float_parsing": lambda ctx: "give a number",
    "finite_number": lambda ctx: "give a finite number",
    "bool_type": lambda ctx: "give true or false",
    "bool_parsing": lambda ctx: "give true or false",
    "string_type": lambda ctx: "give a text",
    "string_too_short": lambda ctx: f"give at least {ctx['min_length']} characters",
    "string_too_long": lambda ctx: f"give at most {ctx['max_length']} characters",
    "string_pattern_mismatch": lambda ctx: "it has characters that are not allowed",
    "greater_than": lambda ctx: f"give more than {ctx['gt']:g}",
    "greater_than_equal": lambda ctx: f"give {ctx['ge']} or more",
    "less_than_equal": lambda ctx: f"give {ctx['le']} or less",
    "literal_error": lambda ctx: f"give one of: {ctx['expected']}",
    "enum": lambda ctx: f"give one of: {ctx['expected']}",
    "model_attributes_type": lambda ctx: "give a JSON object",
    "model_type": lambda ctx: "give a JSON object",
    "dict_type": lambda ctx: "give a JSON object",
    "list_type": lambda ctx: "give a list",
    "too_long": lambda ctx: f"give at most {ctx['max_length']} entries",
    "value_error": lambda ctx: str(ctx["error"]),
}


def problem_of_validation(request: Request, error: RequestValidationError) -> Problem:
    """Convert a validation error of FastAPI to a problem."""
    details = error.errors()
    if any(detail["type"] == "json_invalid" for detail in details):
        return Problem("malformed", "body: it is not valid JSON.")
    model = _body_model(request)
    # An optional field is a union with None, so pydantic reports its error twice.
    errors = [_field(detail, model) for detail in details if detail["type"] != "none_required"][:_MAX_ERRORS]
    return invalid(errors)


def invalid(errors: Sequence[Mapping[str, str]]) -> Problem:
    """Return a problem that lists fields, each with `field` and `message`."""
    first = errors[0]
    detail = f"{first['field']}: {first['message']}"
    return Problem(
        "invalid", detail if detail.endswith("?") else f"{detail}.", errors=[dict(error) for error in errors]
    )


def wrong(field: str, message: str) -> Problem:
    """Return a problem about one field."""
    return invalid([{"field": field, "message": message.rstrip(".")}])


def meant(name: str, known: Iterable[str]) -> str:
    """Return a "did you mean" suffix for an unknown name, or an empty text."""
    close = similar(name, known)
    return f"; did you mean {close!r}?" if close else ""


def _field(error: JsonObject, model: type[BaseModel] | None) -> dict[str, str]:
    place, *names = (str(part) for part in error["loc"] if not _BRANCH.search(str(part)))
    describe = _SENTENCES.get(error["type"])
    message = str(error["msg"]) if describe is None else describe(error.get("ctx") or {})
    if error["type"] == "extra_forbidden" and names:
        message += meant(names[-1], _known(model, names[:-1])) if place == "body" else ""
    return {"field": cut(".".join(names) or place, _MAX_NAME), "message": cut(message, 200)}


def _body_model(request: Request) -> type[BaseModel] | None:
    field = getattr(request.scope.get("route"), "body_field", None)
    annotation = None if field is None else field.field_info.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _known(model: type[BaseModel] | None, path: Sequence[str]) -> list[str]:
    """Return the field names at a path inside a body."""
    for name in path:
        field = None if model is None else model.model_fields.get(name)
        inner = None if field is None else field.annotation
        model = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None
    return [] if model is None else [field.alias or name for name, field in model.model_fields.items()]
