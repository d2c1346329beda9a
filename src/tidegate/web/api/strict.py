"""The door of every API route: what it is asked in, what it answers in, and that it knows every parameter."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from tidegate.web.problems import Problem
from tidegate.web.refusals import meant, wrong

_JSON = ("application/json", "application/problem+json", "application/*", "*/*")
_STREAM = ("text/event-stream", "text/*")
STREAMS = "streams"  # on the function of a route that also answers with events


class StrictRoute(APIRoute):
    """A route that refuses what it does not know."""

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
    """A router for one resource."""
    return APIRouter(
        prefix="/api/v1", tags=[tag], route_class=StrictRoute,
        generate_unique_id_function=lambda route: f"{tag.replace('-', '_')}_{route.name}",
    )  # fmt: skip


def wants_stream(request: Request) -> bool:
    """Whether the client asks for events as they come."""
    return "text/event-stream" in request.headers.get("accept", "").lower()


def _query_names(dependant: Dependant) -> set[str]:
    found: set[str] = set()
    for field in dependant.query_params:
        model = field.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            found |= {each.alias or name for name, each in model.model_fields.items()}
        else:
            found.add(field.alias)
    for inner in dependant.dependencies:
        found |= _query_names(inner)
    return found


def _check_accept(request: Request, answers: tuple[str, ...]) -> None:
    given = request.headers.get("accept")
    if not given or not given.strip():
        return
    for each in given.lower().split(","):
        kind, *numbers = (part.strip() for part in each.split(";"))
        if kind in answers and not any(part in ("q=0", "q=0.0") for part in numbers):
            return
    raise Problem("not_acceptable", f"accept: this address answers with {answers[0]} only.")


def _check_query(request: Request, known: frozenset[str]) -> None:
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in known:
            raise wrong(name[:60] or "query", f"there is no such parameter{meant(name, known)}")
        if given.count(name) > 1:
            raise wrong(name, "give it once")


async def _check_body(request: Request, takes_body: bool) -> None:
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/json":
        raise Problem("media_type", "content-type: send application/json.")
    if not takes_body and body.strip() not in (b"", b"{}"):
        raise wrong("body", "this address takes none; leave it out")
