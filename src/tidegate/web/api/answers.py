"""Answers of the API: bytes with an ETag, pages with a link to the next one, and what each route may say."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from pydantic import BaseModel

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
    """What a route may answer: the model, and these problems; any route may answer others, too."""
    found: dict[int | str, dict[str, Any]] = {status: {"model": model, "description": _WORDS[status]}}
    for problem in (*problems, 422, 503):
        found[problem] = {"description": _WORDS[problem], "content": PROBLEM}
    found["default"] = {"description": "Another problem.", "content": PROBLEM}
    return found


def shown(document: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A document as JSON."""
    return Response(encode(document), status, dict(headers or {}), media_type="application/json")


def read(request: Request, document: BaseModel | bytes, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a GET; 304 when whoever asks has the same one already."""
    body = document if isinstance(document, bytes) else encode(document)
    tag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
    said = {"ETag": tag, "Cache-Control": "private, no-cache", **(headers or {})}
    given = request.headers.get("if-none-match", "")
    if any(each.strip().removeprefix("W/") in (tag, "*") for each in given.split(",")):
        return Response(status_code=304, headers=said)
    return Response(body, 200, said, media_type="application/json")


def encode(document: BaseModel) -> bytes:
    return document.model_dump_json(by_alias=True).encode("utf-8", "replace")


def next_link(request: Request, cursor: str | None) -> dict[str, str]:
    """A Link header to the next page, with the same filters."""
    if cursor is None:
        return {}
    query = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
    base = str(request.scope.get("root_path", ""))
    path = request.scope["path"].removeprefix(base)
    return {"Link": f'<{base}{path}?{urlencode([*query, ("cursor", cursor)])}>; rel="next"'}
