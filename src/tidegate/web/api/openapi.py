"""/api/openapi.json: the API as OpenAPI 3.1."""

from __future__ import annotations

import json
import threading
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi

from tidegate.web.api import strict
from tidegate.web.api.answers import PROBLEM, read
from tidegate.web.api.shapes import ProblemShown

_ABOUT = (
    "What the server knows and does, for programs. Times are ISO-8601 in UTC, durations are seconds, lists are pages "
    "with a cursor, mistakes are problems (RFC 9457) with a code. A POST with an Idempotency-Key happens once."
)

_VALIDATION = "#/components/schemas/HTTPValidationError"  # what FastAPI says by itself


def router() -> APIRouter:
    found = APIRouter(route_class=strict.StrictRoute)
    # Anybody may ask for it, all at once, and to write it takes a thousand times as long as to answer.
    written: list[bytes] = []
    writing = threading.Lock()

    @found.get("/api/openapi.json", include_in_schema=False)
    def openapi(request: Request) -> Response:
        app: FastAPI = request.app
        with writing:
            if not written:
                app.openapi_schema = document(app)
                written.append(json.dumps(app.openapi_schema).encode())
        return read(request, written[0])

    return found


def document(app: FastAPI) -> dict[str, Any]:
    """The whole document."""
    found: dict[str, Any] = get_openapi(
        title=app.title, version=app.version, openapi_version="3.1.0", description=_ABOUT, routes=app.routes,
        servers=[{"url": app.state.site.base or "/"}],
    )  # fmt: skip
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    problem = ProblemShown.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs", {})
    schemas["ProblemShown"] = problem
    for operations in found["paths"].values():
        for operation in operations.values():
            _with_problems(operation["responses"])
    for name in ("HTTPValidationError", "ValidationError"):  # nobody answers with these
        schemas.pop(name, None)
    return found


def _with_problems(answers: dict[str, Any]) -> None:
    """Whatever a route says of itself, an application's too: what goes wrong is answered with a problem."""
    if _VALIDATION in json.dumps(answers.get("422", {})):
        answers["422"] = {"description": answers["422"]["description"], "content": PROBLEM}
    answers.setdefault("default", {"description": "A problem.", "content": PROBLEM})
