"""Simulators and scripted services as httpx or httpx2 transports, without sockets, for clients in virtual time.

Neither library is imported: the type of the request decides. Delays use the clock, within the request's timeouts.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from tidegate.clock import Clock
from tidegate.durations import Duration, seconds
from tidegate.testing.scripted import Hang, Status, raise_or_return
from tidegate.testing.simulator.requests import Headers, Read
from tidegate.testing.simulator.steps import Framing, Step, content_of

if TYPE_CHECKING:
    from tidegate.testing.scripted import ScriptedTarget

_FOR_EVER = 1e9

Meet = Callable[[Read], Step]  # returns the step for a request and records it


class SimulatorTransport:
    """Answers requests of one client. *down* tells whether the service is down."""

    def __init__(self, meet: Meet, down: Callable[[], bool], clock: Clock) -> None:
        self._meet, self._down, self._clock = meet, down, clock

    async def handle_async_request(self, request: Any) -> Any:
        library: Any = sys.modules[type(request).__module__.partition(".")[0]]
        await request.aread()
        if self._down():
            raise library.ConnectError("nothing listens there", request=request)
        step = self._meet(_read(request))
        wire = _Wire(step, request, library, self._clock)
        await wire.wait(seconds(step.delay))
        await wire.instead()
        return wire.answer()

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...


class _Wire:
    """One response in transit."""

    def __init__(self, step: Step, request: Any, library: Any, clock: Clock) -> None:
        self._step, self._request, self._library, self._clock = step, request, library, clock
        self._patience = (request.extensions.get("timeout") or {}).get("read") or _FOR_EVER

    async def wait(self, wait: float) -> None:
        """Waits. Raises a timeout after the client's timeout."""
        if wait > 0:
            await self._clock.asleep(min(wait, self._patience))
        if wait >= self._patience:
            raise self._library.ReadTimeout("the simulator says nothing", request=self._request)

    async def instead(self) -> None:
        """Raises the failure of a step that has no response."""
        step = self._step
        if step.raw is not None:
            raise self._library.RemoteProtocolError("this is not HTTP", request=self._request)
        if step.cut is None:
            await self._broken(hung=step.hang, reset=step.reset)

    def answer(self) -> Any:
        step = self._step
        body, kind = content_of(step.body)
        headers = [*step.pairs]
        names = {name.lower() for name, _ in headers}
        if "date" not in names:
            headers.append(("Date", formatdate(self._clock.now(), usegmt=True)))
        if kind and "content-type" not in names:
            headers.append(("Content-Type", kind))
        if step.gzip:
            body = gzip.compress(body, mtime=0)
            headers.append(("Content-Encoding", "gzip"))
        shown = b"" if step.status in (204, 304) or self._request.method == "HEAD" else body
        if step.cut is None and not step.drip and not step.gzip and "content-encoding" not in names:
            return self._library.Response(step.status, headers=headers, content=shown, request=self._request)
        stream = _stream_of(self._library)(self._pieces(shown))
        return self._library.Response(step.status, headers=headers, stream=stream, request=self._request)

    async def _pieces(self, body: bytes) -> AsyncIterator[bytes]:
        step = self._step
        sent = body if step.cut is None else body[: step.cut]
        if step.drip:
            pause = seconds(step.drip)
            if pause >= self._patience:
                await self.wait(pause)
            await self._clock.asleep(pause * (len(sent) // step.piece))
        yield sent
        if step.cut is None:
            return
        await self._broken(hung=step.hang, reset=step.reset)
        if step.framing != Framing.CLOSE:
            message = "peer closed connection without sending complete message body"
            raise self._library.RemoteProtocolError(message, request=self._request)

    async def _broken(self, *, hung: Duration | None, reset: bool) -> None:
        if reset:
            raise self._library.ReadError("the connection was reset", request=self._request)
        if hung is not None:
            await self.wait(seconds(hung))
            raise self._library.RemoteProtocolError("server disconnected", request=self._request)


@cache
def _stream_of(library: Any) -> Any:
    """Returns a stream class of the library."""

    class Stream(library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, pieces: AsyncIterator[bytes]) -> None:
            self._pieces = pieces

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self._pieces

    return Stream


def _read(request: Any) -> Read:
    path, _, query = request.url.raw_path.decode("ascii").partition("?")
    headers = Headers()
    for name, value in request.headers.multi_items():
        lowered = name.lower()
        headers[lowered] = f"{headers[lowered]}, {value}" if lowered in headers else value
    return Read(method=request.method, path=path, query=query, headers=headers, body=request.content)


# -- scripted service --------------------------------------------------------------------------------------------------


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
    """Returns the response or raises the failure, in the types of the requesting library."""
    library: Any = sys.modules[type(request).__module__.partition(".")[0]]
    try:
        outcome_value = outcome if isinstance(outcome, Status) else raise_or_return(outcome, (request,), {})
    except TimeoutError as error:
        raise library.ReadTimeout(str(error), request=request) from error
    except ConnectionError as error:
        raise library.ConnectError(str(error), request=request) from error
    if isinstance(outcome_value, library.Response):
        return outcome_value
    status = outcome_value if isinstance(outcome_value, Status) else _status(outcome_value)
    return library.Response(status.status_code, headers=dict(status.headers), content=status.content, request=request)


def _status(answer: object) -> Status:
    """Converts a scripted answer to a response."""
    if answer is None or isinstance(answer, (dict, list)):
        body, kind = content_of(answer)
        return Status(200, body, {"Content-Type": kind} if kind else {})
    return Status(200, answer if isinstance(answer, bytes) else str(answer))
