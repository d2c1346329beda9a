"""The gateway over HTTP: POST /process, GET /health, GET /schemas/{mapping}."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tidegate_apps.convert.gateway.config import GatewayLimits, GatewayRefusal, answer
from tidegate_apps.convert.gateway.conversions import Conversions, Result, own_folder
from tidegate_apps.convert.gateway.mappings import Mappings
from tidegate_apps.convert.gateway.uploads import receive_upload

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


# -- XML response ------------------------------------------------------------------------------------------------------

_CHUNK = 256 * 1024


class XmlAnswer(Response):
    """Streams a file that may be deleted meanwhile: it is opened at construction.

    *delete*: unlink it, nothing else needs it.
    """

    media_type = "application/xml"

    def __init__(self, result: Result, *, delete: bool) -> None:
        self._file = result.path.open("rb")
        if delete:
            Path(result.path).unlink()
        super().__init__(
            headers={
                "Content-Length": str(result.made.size),
                "Tidegate-Pages": str(result.made.pages),
                "Tidegate-Scanned-Pages": str(result.made.scans),
            }
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while chunk := await asyncio.to_thread(self._file.read, _CHUNK):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


# -- content negotiation -----------------------------------------------------------------------------------------------

_OURS = ("application/xml", "text/xml", "application/*", "*/*")


def accepts_xml(accept: str) -> bool:
    """Return whether the Accept header allows XML. No header allows everything, q=0 forbids.

    The most specific range that matches decides.
    """
    if not accept.strip():
        return True
    qualities: dict[str, float] = {}
    for part in accept.split(","):
        kind, *parameters = (item.strip().lower() for item in part.split(";"))
        qualities[kind] = max(qualities.get(kind, 0.0), _quality(parameters))
    decides = next((kind for kind in _OURS if kind in qualities), None)
    if decides in {"text/xml", "application/xml"}:
        return max(qualities.get("application/xml", 0.0), qualities.get("text/xml", 0.0)) > 0
    return decides is not None and qualities[decides] > 0


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


_SWEEP = 30.0  # seconds
_BY_STATUS = {404: "not_there", 405: "method"}
_log = logging.getLogger("tidegate.convert.gateway")


def app(limits: GatewayLimits | None = None, mappings: Mappings | None = None) -> Starlette:
    """Return the gateway as an ASGI application. Its working folder is removed at shutdown."""
    bounds, known = limits or GatewayLimits(), mappings or Mappings()

    @contextlib.asynccontextmanager
    async def lifespan(there: Starlette) -> AsyncIterator[None]:
        with own_folder(bounds.folder) as folder:
            conversions = Conversions(folder, bounds, mappings=known.folder)
            there.state.folder, there.state.limits, there.state.conversions = folder, bounds, conversions
            there.state.mappings = known
            there.state.uploads = 0
            sweeping = asyncio.create_task(_sweep(conversions))
            try:
                yield
            finally:
                sweeping.cancel()
                await conversions.close()

    return Starlette(
        routes=[
            Route("/process", _process, methods=["POST"]),
            Route("/health", _health),
            Route("/schemas", _schemas),
            Route("/schemas/{mapping}", _schema),
        ],
        lifespan=lifespan,
        exception_handlers={GatewayRefusal: _refused, HTTPException: _no_route, Exception: _failed},
    )


async def _process(request: Request) -> Response:
    state = request.app.state
    if not accepts_xml(request.headers.get("accept", "")):
        raise GatewayRefusal("not_acceptable")
    if state.uploads >= state.limits.uploads:
        raise GatewayRefusal("busy")
    state.uploads += 1
    try:
        asked = await receive_upload(request, state.folder, state.limits, state.mappings.names)
    except ClientDisconnect:
        return Response(status_code=400)  # the client has disconnected
    finally:
        state.uploads -= 1
    result, own = await state.conversions.result(asked)
    return XmlAnswer(result, delete=own)


async def _health(request: Request) -> Response:
    conversions: Conversions = request.app.state.conversions
    names = request.app.state.mappings.names
    document = {"status": "ok", "mappings": names, "active": conversions.active, "waiting": conversions.waiting}
    return JSONResponse(document, headers={"Cache-Control": "no-store"})


async def _schemas(request: Request) -> Response:
    return JSONResponse({"schemas": {name: f"/schemas/{name}" for name in request.app.state.mappings.names}})


async def _schema(request: Request) -> Response:
    name, known = request.path_params["mapping"], request.app.state.mappings
    if name not in known.names:
        raise GatewayRefusal("not_there", f"There is no mapping of that name; there are: {', '.join(known.names)}.")
    return Response(known.schema(name), media_type="application/xml")


async def _sweep(conversions: Conversions) -> None:
    while True:
        await asyncio.sleep(_SWEEP)
        conversions.sweep()


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, GatewayRefusal)  # noqa: S101 - it is registered for these
    return answer(error)


def _no_route(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    response = answer(GatewayRefusal(_BY_STATUS.get(status, "malformed" if status < 500 else "internal")))
    response.headers.update(dict(getattr(error, "headers", None) or {}))
    return response


def _failed(request: Request, error: Exception) -> Response:
    _log.error("request_failed path=%s", request.url.path, exc_info=error)
    return answer(GatewayRefusal("internal"))
