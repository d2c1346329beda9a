"""An adapter for `requests`: a session is guarded without touching its calls."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from urllib.parse import urlsplit

from tidegate.core.evidence import Evidence
from tidegate.core.retry import ONCE, Retry
from tidegate.face.exchange import IDEMPOTENT, Exchange, RequestInfo, discard
from tidegate.runtime.caller import CallPipeline


def guarded_adapter(pipeline: CallPipeline, key: Hashable, inner: Any, retry: Retry = ONCE) -> Any:
    if inner is None:
        from requests.adapters import HTTPAdapter

        inner = HTTPAdapter()
    if not hasattr(inner, "send"):
        raise TypeError(f"inner: {inner!r} is no adapter; give a requests.adapters.HTTPAdapter")
    return Adapter(pipeline, key, inner, retry)


class Adapter:
    """Give it to `session.mount("https://", ...)`. Of a streamed answer only status and headers are looked at."""

    def __init__(self, pipeline: CallPipeline, key: Hashable, inner: Any, retry: Retry = ONCE) -> None:
        self._pipeline, self._key, self._inner, self._retry = pipeline, key, inner, retry

    def send(self, request: Any, **options: Any) -> Any:
        url = urlsplit(str(request.url))
        asked = RequestInfo(str(request.method), url.path, url.hostname or "")
        exchange = Exchange.opened(
            self._pipeline, self._key, asked, self._retry, may_repeat=_may_repeat_prepared(request)
        )
        while True:
            try:
                if exchange.wait:
                    self._pipeline.clock.sleep(exchange.wait)
                response = self._inner.send(request, **options)
                if not options.get("stream"):
                    _ = response.content  # read here, so that a body that breaks off is this call's failure
            except BaseException as error:
                if not exchange.failed(error) or not self._again(exchange):
                    raise
                continue
            seen = Evidence(response=response, status=int(response.status_code), url=str(request.url))
            try:
                again = exchange.answered(seen) and self._again(exchange)
                if again:
                    response.close()
            except BaseException:
                exchange.close()
                discard(response)
                raise
            if not again:
                exchange.finished()
                return response

    def _again(self, exchange: Exchange) -> bool:
        """Whether the next attempt is under way."""
        try:
            self._pipeline.clock.sleep(exchange.pause)
            return exchange.admit() is None
        except BaseException:
            exchange.close()
            raise

    def close(self) -> None:
        self._inner.close()

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":  # a copy that is not made yet
            raise AttributeError(name)
        return getattr(self._inner, name)


def _may_repeat_prepared(request: Any) -> bool:
    """Whether it may be sent twice: its method is idempotent, and its body is in memory."""
    return str(request.method) in IDEMPOTENT and (request.body is None or isinstance(request.body, (bytes, str)))
