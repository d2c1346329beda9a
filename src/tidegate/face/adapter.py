"""An adapter for `requests`: a session is guarded without touching its calls."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from urllib.parse import urlsplit

from tidegate.core.evidence import Evidence
from tidegate.face.exchange import Exchange
from tidegate.runtime.caller import Caller


def guarded(caller: Caller, key: Hashable, inner: Any) -> Any:
    if inner is None:
        from requests.adapters import HTTPAdapter

        inner = HTTPAdapter()
    if not hasattr(inner, "send"):
        raise TypeError(f"inner: {inner!r} is no adapter; give a requests.adapters.HTTPAdapter")
    return Adapter(caller, key, inner)


class Adapter:
    """Give it to `session.mount("https://", ...)`. Of a streamed answer only status and headers are looked at."""

    def __init__(self, caller: Caller, key: Hashable, inner: Any) -> None:
        self._caller, self._key, self._inner = caller, key, inner

    def send(self, request: Any, **options: Any) -> Any:
        url = urlsplit(str(request.url))
        exchange = Exchange.opened(self._caller, self._key, str(request.method), url.path, url.hostname or "")
        try:
            if exchange.call.wait:
                self._caller.clock.sleep(exchange.call.wait)
            response = self._inner.send(request, **options)
            if not options.get("stream"):
                _ = response.content  # read here, so that a body that breaks off is this call's failure
        except BaseException as error:
            exchange.failed(error)
            raise
        exchange.answered(Evidence(response=response, status=int(response.status_code), url=str(request.url)))
        exchange.finished()
        return response

    def close(self) -> None:
        self._inner.close()

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":  # a copy that is not made yet
            raise AttributeError(name)
        return getattr(self._inner, name)
