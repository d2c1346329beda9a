"""Common parts of API routes: strict parameters, media types, ETags, pagination links and the OpenAPI document."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.convertors import StringConvertor, register_url_convertor

from tidegate.web.api.models import ProblemShown
from tidegate.web.problems import Problem, meant, wrong

_JSON = ("application/json", "application/problem+json", "application/*", "*/*")
_STREAM = ("text/event-stream", "text/*")
STREAMS = "streams"  # attribute on a route function that can also stream events


class StrictRoute(APIRoute):
    """A route that rejects unknown parameters."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = frozenset(_query_names(self.dependant))
        answers = _JSON + (_STREAM if getattr(self.endpoint, STREAMS, False) else ())
        takes_body = self.body_field is not None

        async def strict(request: Request) -> Response:
            _check_accept(request, answers)
            _check_query(request, known)
            if request.method == "POST":
                await _check_body(request, takes_body)
            return await handle(request)

        return strict


def api(tag: str) -> APIRouter:
    """Return a router for one resource."""
    return APIRouter(
        prefix="/api/v1",
        tags=[tag],
        route_class=StrictRoute,
        generate_unique_id_function=lambda route: f"{tag.replace('-', '_')}_{route.name}",
    )


def wants_stream(request: Request) -> bool:
    """Whether the client requests an event stream."""
    return "text/event-stream" in request.headers.get("accept", "").lower()


def _query_names(dependant: Dependant) -> set[str]:
    names: set[str] = set()
    for field in dependant.query_params:
        model = field.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            names |= {model_field.alias or name for name, model_field in model.model_fields.items()}
        else:
            names.add(field.alias)
    for inner in dependant.dependencies:
        names |= _query_names(inner)
    return names


def _check_accept(request: Request, answers: tuple[str, ...]) -> None:
    accept = request.headers.get("accept")
    if not accept or not accept.strip():
        return
    for media_range in accept.lower().split(","):
        kind, *numbers = (part.strip() for part in media_range.split(";"))
        if kind in answers and not any(part in ("q=0", "q=0.0") for part in numbers):
            return
    raise Problem("not_acceptable", f"accept: this address answers with {answers[0]} only.")


def _check_query(request: Request, known: frozenset[str]) -> None:
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if name not in known:
            raise wrong(name[:60] or "query", f"unknown parameter{meant(name, known)}")
        if names.count(name) > 1:
            raise wrong(name, "give it once")


async def _check_body(request: Request, takes_body: bool) -> None:
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/json":
        raise Problem("media_type", "content-type: send application/json.")
    if not takes_body and body.strip() not in (b"", b"{}"):
        raise wrong("body", "this address takes none; leave it out")


# -- responses ---------------------------------------------------------------------------------------------------------

PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemShown"}}}
_WORDS = {
    200: "It is so.",
    202: "It is under way.",
    304: "Nothing has changed since.",
    400: "The request cannot be read.",
    404: "There is no such thing.",
    409: "It is not possible as things stand.",
    422: "The request is not valid.",
    429: "Too much of this is under way.",
    503: "The database or a service is away for the moment.",
}


def responses(model: Any, *problems: int, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """Describe the responses of a route: the model and these problems. Any route may return other problems too."""
    described: dict[int | str, dict[str, Any]] = {status: {"model": model, "description": _WORDS[status]}}
    for problem in (*problems, 422, 503):
        described[problem] = {"description": _WORDS[problem], "content": PROBLEM}
    described["default"] = {"description": "Another problem.", "content": PROBLEM}
    return described


def shown(document: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Encode a document as JSON."""
    return Response(encode(document), status, dict(headers or {}), media_type="application/json")


def read(request: Request, document: BaseModel | bytes, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response to a GET, or 304 if the client has the current version."""
    body = document if isinstance(document, bytes) else encode(document)
    tag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
    all_headers = {"ETag": tag, "Cache-Control": "private, no-cache", **(headers or {})}
    if_none_match = request.headers.get("if-none-match", "")
    if any(etag.strip().removeprefix("W/") in (tag, "*") for etag in if_none_match.split(",")):
        return Response(status_code=304, headers=all_headers)
    return Response(body, 200, all_headers, media_type="application/json")


def encode(document: BaseModel) -> bytes:
    return document.model_dump_json(by_alias=True).encode("utf-8", "replace")


def next_link(request: Request, cursor: str | None) -> dict[str, str]:
    """Return a Link header for the next page with the same filters."""
    if cursor is None:
        return {}
    query = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
    base = str(request.scope.get("root_path", ""))
    path = request.scope["path"].removeprefix(base)
    return {"Link": f'<{base}{path}?{urlencode([*query, ("cursor", cursor)])}>; rel="next"'}


# -- OpenAPI -----------------------------------------------------------------------------------------------------------

_ABOUT = (
    "What the server knows and does, for programs. Times are ISO-8601 in UTC, durations are seconds, lists are pages "
    "with a cursor, mistakes are problems (RFC 9457) with a code. A POST with an Idempotency-Key happens once."
)

_VALIDATION = "#/components/schemas/HTTPValidationError"  # FastAPI's default


def router() -> APIRouter:
    router = APIRouter(route_class=StrictRoute)
    # Cached: anyone may request it concurrently, and building it takes a thousand times as long as sending it.
    written: list[bytes] = []
    writing = threading.Lock()

    @router.get("/api/openapi.json", include_in_schema=False)
    def openapi(request: Request) -> Response:
        app: FastAPI = request.app
        with writing:
            if not written:
                app.openapi_schema = document(app)
                written.append(json.dumps(app.openapi_schema).encode())
        return read(request, written[0])

    return router


def document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document."""
    schema: dict[str, Any] = get_openapi(
        title=app.title,
        version=app.version,
        openapi_version="3.1.0",
        description=_ABOUT,
        routes=app.routes,
        servers=[{"url": app.state.site.base or "/"}],
    )
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    problem = ProblemShown.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs", {})
    schemas["ProblemShown"] = problem
    for operations in schema["paths"].values():
        for operation in operations.values():
            _with_problems(operation["responses"])
    for name in ("HTTPValidationError", "ValidationError"):  # no route returns these
        schemas.pop(name, None)
    return schema


def _with_problems(answers: dict[str, Any]) -> None:
    """Describe errors of every route as problems, those of applications too."""
    if _VALIDATION in json.dumps(answers.get("422", {})):
        answers["422"] = {"description": answers["422"]["description"], "content": PROBLEM}
    answers.setdefault("default", {"description": "A problem.", "content": PROBLEM})


# -- names in paths ----------------------------------------------------------------------------------------------------
#
# A name may contain slashes, and an action on it is a path suffix.


def register(kind: str, *actions: str) -> None:
    """Register the path type `{name:kind}`: a name that does not end in one of these actions."""

    class Name(StringConvertor):
        regex = rf"(?:(?!/(?:{'|'.join(actions)})$).)+"

    register_url_convertor(kind, Name())
