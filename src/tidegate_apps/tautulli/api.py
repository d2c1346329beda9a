"""The client behind its breaker, made when it is first needed: whoever only looks at the store has none."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any, Protocol

import httpx2

from tidegate import Breaker, Target
from tidegate.apps import Installed
from tidegate_apps.tautulli.client import ClientTiming, Tautulli
from tidegate_apps.tautulli.codes import PACK, TARGET
from tidegate_apps.tautulli.settings import TautulliSettings


class BreakerClock(Protocol):
    def now(self) -> float: ...

    def monotonic(self) -> float: ...


class Api:
    """Every call of Tautulli in this process goes through here, and so through one breaker."""

    def __init__(self, app: Installed[TautulliSettings], transport: httpx2.BaseTransport | None = None) -> None:
        self._app, self._transport = app, transport

    @cached_property
    def target(self) -> Target:
        queue = self._app.queue
        return Target(
            TARGET, "sync", rules=PACK, backoff=None, breaker=self._app.settings.breaker, clock=queue.clock,
            # Its page shows it to people; a virtual clock has no threads that could tell of it.
            store=None if queue.inline else queue.url,
        )  # fmt: skip

    def begin(self) -> None:
        """The numbers of the breaker are there from now on, not only from the first call on."""
        _ = self.target

    @cached_property
    def client(self) -> Tautulli:
        return self.target.wrap(bare_client(self._app, self._transport))

    @property
    def breaker(self) -> Breaker:
        found = self.target.breaker
        if found is None:  # the settings always have its numbers
            raise RuntimeError(f"the target {TARGET} has no breaker")
        return found

    def let_try(self) -> None:
        """A person asked: what stands in the way is forgotten, and the next call is a trial."""
        if self.target.unhealthy():
            self.target.clear()
        self.breaker.half_open()


def bare_client(app: Installed[TautulliSettings], transport: httpx2.BaseTransport | None = None) -> Tautulli:
    """The client without a gate. *transport*: for a Tautulli without sockets."""
    settings = app.settings
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it says every address, and the key is in it
    times = ClientTiming(begin=float(settings.timeout), total=float(settings.total), clock=app.queue.clock.monotonic)
    client = Tautulli(settings.url, settings.api_key.get_secret_value(), times, transport)
    app.closing.callback(client.close)
    return client


def picture(breaker: Breaker, clock: BreakerClock) -> dict[str, Any]:
    """The breaker in plain values, its times as UNIX time; what pages and commands read from the store."""
    offset, until = clock.now() - clock.monotonic(), breaker.until
    return {
        "state": breaker.state, "since": breaker.since + offset, "until": None if until is None else until + offset,
        "failures_in_a_row": breaker.run, **breaker.counts._asdict(),
    }  # fmt: skip
