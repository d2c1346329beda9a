"""What went wrong, as `application/problem+json`: one shape for every mistake; no path, secret or traceback in it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException, Response
from starlette.types import Receive, Scope, Send

from tidegate.core.codes import Code, CodeBook
from tidegate.core.fault import Level
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
from tidegate.ops.idempotency import AnswerNotKept, InFlight, OtherBody
from tidegate.ops.masking import cut
from tidegate.web.site import Site

MEDIA_TYPE = "application/problem+json"
REQUEST_ID = "tidegate.request_id"  # in the scope
_MAX_DETAIL = 500
_MAX_PATH = 200


@dataclass(frozen=True, slots=True)
class ApiCode:
    """A mistake of a request, or of this server: no service has any part in it."""

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
    ApiCode("refused", 409, "This is not possible as things stand.", "Look at it again; then decide anew."),
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

# What the layers below raise; the first that fits.
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
_NO_TIME_HELPS = (SchemaTooNew, StoreMissing, StoreDamaged)  # only a person does
_BY_STATUS = {400: "malformed", 404: "not_there", 405: "method", 406: "not_acceptable", 413: "too_large",
              415: "media_type", 421: "misdirected", 422: "invalid", 429: "too_many"}  # fmt: skip


class Problem(HTTPException):
    """A request that is not answered as it hoped; raised anywhere in a route.

    *detail* is one sentence for people. *retry_after*: seconds, computed, or None when no time helps.
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
        found = API_CODES.get(code)
        self.code = code
        self.title = title
        self.retry_after = None if retry_after is None or not math.isfinite(retry_after) else max(0.0, retry_after)
        self.more = more
        super().__init__(
            status or (500 if found is None else found.status), cut(detail, _MAX_DETAIL), dict(headers or {})
        )


def problem_of(error: Exception, site: Site) -> Problem:
    """The problem that an exception is; what nobody knows is `internal`, without a word of what it said."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        code = _BY_STATUS.get(error.status_code, "internal" if error.status_code >= 500 else "malformed")
        said = str(error.detail) if error.status_code < 500 else ""
        return Problem(code, said, status=error.status_code, headers=error.headers)
    for kind, code in _RAISED:
        if isinstance(error, kind):
            return _raised(error, code, site)
    return Problem("internal")


def _raised(error: TidegateError, code: str, site: Site) -> Problem:
    if isinstance(error, Held):
        return Problem(code, str(error), retry_after=error.retry_after, target=error.target, reason=error.reason)
    if isinstance(error, InFlight):
        return Problem(code, retry_after=error.retry_after)
    if isinstance(error, (UniqueTaken, OtherBody, AnswerNotKept)):
        return Problem(code)
    if isinstance(error, StoreError):  # its own words may hold a path, or an address with a password
        return Problem(code, retry_after=None if isinstance(error, _NO_TIME_HELPS) else site.outage.seen())
    return Problem(code, f"{str(error).rstrip('.')}.")


def document(problem: Problem, scope: Scope, code_book: CodeBook) -> dict[str, Any]:
    """The JSON of a problem."""
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
    """The problem as a response, with Retry-After where there is a time that helps."""
    text = json.dumps(document(problem, scope, code_book), ensure_ascii=False).encode("utf-8", "replace")
    return Response(text, problem.status_code, headers=headers_of(problem), media_type=MEDIA_TYPE)


class ProblemResponse(Response):
    """A problem that is rendered when it is sent, because only then it is known which request it answers."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(status_code=problem.status_code, media_type=MEDIA_TYPE)
        self.problem = problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await problem_response(self.problem, scope, scope["app"].state.site.codes)(scope, receive, send)


def headers_of(problem: Problem) -> dict[str, str]:
    """What the answer says beside its body."""
    found = {name: value for name, value in (problem.headers or {}).items() if name.lower() != "content-length"}
    if problem.retry_after is not None:
        found["Retry-After"] = str(max(1, math.ceil(problem.retry_after)))
    return found


def level_of(code: str, code_book: CodeBook) -> Level:
    """How loud the log is: ERROR only when a person must act."""
    if code == "internal":
        return Level.ERROR
    return code_book[code].level if code in code_book else Level.WARN
