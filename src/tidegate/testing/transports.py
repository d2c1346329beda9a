"""A scripted service as a transport of httpx or httpx2; neither is imported, the request says whose answer it wants."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Self

from tidegate.core.duration import seconds
from tidegate.testing.scripted import Hang, Status, raise_or_return
from tidegate.testing.simulator.steps import content_of

if TYPE_CHECKING:
    from tidegate.testing.scripted import ScriptedTarget


class ScriptedTransport:
    def __init__(self, service: ScriptedTarget) -> None:
        self._service = service

    def handle_request(self, request: Any) -> Any:
        outcome = self._service.met((request,), {})
        if isinstance(outcome, Hang):
            self._service.clock.sleep(seconds(outcome.lasts))
        return _answered(request, outcome)

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class AsyncScriptedTransport:
    def __init__(self, service: ScriptedTarget) -> None:
        self._service = service

    async def handle_async_request(self, request: Any) -> Any:
        outcome = self._service.met((request,), {})
        if isinstance(outcome, Hang):
            await self._service.clock.asleep(seconds(outcome.lasts))
        return _answered(request, outcome)

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...


def _answered(request: Any, outcome: object) -> Any:
    """The answer, or the failure, in the types of the library that made the request."""
    library: Any = sys.modules[type(request).__module__.partition(".")[0]]
    try:
        found = outcome if isinstance(outcome, Status) else raise_or_return(outcome, (request,), {})
    except TimeoutError as error:
        raise library.ReadTimeout(str(error), request=request) from error
    except ConnectionError as error:
        raise library.ConnectError(str(error), request=request) from error
    if isinstance(found, library.Response):
        return found
    answer = found if isinstance(found, Status) else _status(found)
    return library.Response(answer.status_code, headers=dict(answer.headers), content=answer.content, request=request)


def _status(found: object) -> Status:
    """An answer of a script as it goes over a wire."""
    if found is None or isinstance(found, (dict, list)):
        body, kind = content_of(found)
        return Status(200, body, {"Content-Type": kind} if kind else {})
    return Status(200, found if isinstance(found, bytes) else str(found))
