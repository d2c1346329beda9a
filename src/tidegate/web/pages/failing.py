"""What is shown instead of a page: not found, refused, broken, or the store is away. Needs no store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from starlette.types import Scope

from tidegate.web.pages.rendering import render_template


def failure(scope: Scope, about: Mapping[str, Any], headers: Mapping[str, str]) -> HTMLResponse:
    """The page of a problem; *about* is its document, with title, detail, status and code."""
    values = {
        "title": about["title"].rstrip("."), "detail": _capital(about["detail"]), "status": about["status"],
        "code": about["code"],
        "retry_after": about.get("retry_after"), "request_id": about.get("request_id"), "get": scope["method"] == "GET",
    }  # fmt: skip
    response = render_template(Request(scope), "failure.html", int(about["status"]), values)
    response.headers.update(headers)
    return response


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
