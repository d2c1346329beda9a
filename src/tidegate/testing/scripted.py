"""A scripted service for tests: it responds, fails, hangs or is down as its script says."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tidegate.clock import SYSTEM, Clock
from tidegate.durations import Duration, seconds
from tidegate.simulation.outage import FailureMode, FailurePeriod, Outage

# Seconds that a call hangs before its client gives up, by default.
HANGS = 30.0


@dataclass(frozen=True, slots=True)
class Status:
    """A response by its HTTP status. Without a transport an error status is raised as `StatusError`."""

    status_code: int
    body: bytes | str = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_after: Duration | None = None

    def __post_init__(self) -> None:
        if not 100 <= self.status_code <= 599:
            raise ValueError(f"Status: {self.status_code!r} is not an HTTP status; give 100 to 599")
        if self.retry_after is not None:
            wait = seconds(self.retry_after, field="Status.retry_after")
            object.__setattr__(self, "headers", {**self.headers, "Retry-After": digits(wait)})

    @property
    def content(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else self.body


@dataclass(frozen=True, slots=True)
class Hang:
    """The call is accepted and never answered. After *lasts* the client raises TimeoutError."""

    lasts: Duration = HANGS


class StatusError(Exception):
    """A client's exception for an error response. `.response` is the response."""

    def __init__(self, response: Status) -> None:
        super().__init__(f"status {response.status_code}")
        self.response = response


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One call that reached the service. *at* is monotonic time, *outcome* the step of the script."""

    at: float
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outcome: object
    failed: bool


class ScriptedTarget:
    """A substitute for the service behind a `Target`.

        service = ScriptedTarget("first", Status(503), ConnectionResetError(), answer="later", clock=virtual_clock)
        service = ScriptedTarget(outage="24h down", clock=virtual_clock)   # or "1h 30% errors", "2h 429 retry-after 5m"

    Each call takes the next step of the script: an exception is raised, a `Status` or a `Hang` does what its name says,
    any other value is returned. After the last step every call returns *answer*, or calls it with the arguments. During
    the *outage* calls fail and the script waits. Its times count from construction.

    Call it in `def`, `await service.acall(...)` in `async def`, or pass `service.transport()` to an httpx or httpx2
    client. `calls` lists every call that reached it.
    """

    def __init__(
        self,
        *script: object,
        answer: object = "ok",
        outage: Outage | str | None = None,
        clock: Clock = SYSTEM,
        seed: int = 0,
    ) -> None:
        self.calls: list[RecordedCall] = []
        self._script = deque(script)
        self._answer = answer
        self._outage = Outage.parse(outage, lead=0) if isinstance(outage, str) else outage or Outage()
        self.clock = clock
        self._start = clock.monotonic()
        self._roll: Callable[[], float] = random.Random(seed).random
        self.__name__ = "scripted"  # the operation name in a target

    def then(self, *steps: object) -> None:
        """Appends steps to the script."""
        self._script.extend(steps)

    def count(self, *, failed: bool | None = None, since: float = 0.0, until: float = float("inf")) -> int:
        """Counts the calls from *since* until *until* in monotonic time. *failed* selects failures or successes."""
        return sum(1 for call in self.calls if since <= call.at < until and failed in (None, call.failed))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        outcome = self.met(args, kwargs)
        if isinstance(outcome, Hang):
            self.clock.sleep(seconds(outcome.lasts))
        return raise_or_return(outcome, args, kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """The async form of a call. A hang can be cancelled."""
        outcome = self.met(args, kwargs)
        if isinstance(outcome, Hang):
            await self.clock.asleep(seconds(outcome.lasts))
        return raise_or_return(outcome, args, kwargs)

    def met(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
        """Returns the next outcome and records the call."""
        at = self.clock.monotonic()
        trouble = self._outage.trouble(at - self._start, self._roll())
        if trouble is not None:
            outcome = outcome_of(trouble)
        else:
            outcome = self._script.popleft() if self._script else self._answer
        self.calls.append(RecordedCall(at=at, args=args, kwargs=kwargs, outcome=outcome, failed=_is_failure(outcome)))
        return outcome

    def transport(self) -> Any:
        """Returns a transport for `httpx.Client(transport=...)` or httpx2's, also inside a target's transport.

        A dict or a list is sent as JSON.
        """
        from tidegate.testing.simulator.transport import ScriptedTransport

        return ScriptedTransport(self)

    def async_transport(self) -> Any:
        """The async form of `transport()`, for `AsyncClient`."""
        from tidegate.testing.simulator.transport import AsyncScriptedTransport

        return AsyncScriptedTransport(self)


def raise_or_return(
    outcome: object, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] = MappingProxyType({})
) -> Any:
    """Ends a call with *outcome*: raises or returns it. A hang raises TimeoutError."""
    match outcome:
        case Hang():
            raise TimeoutError(f"no answer within {seconds(outcome.lasts):g} s")
        case BaseException():
            raise outcome.with_traceback(None)  # reused: it would accumulate tracebacks
        case type() if issubclass(outcome, BaseException):
            raise outcome
        case Status() if outcome.status_code >= 400:
            raise StatusError(outcome)
        case Status():
            return outcome
    return outcome(*args, **kwargs) if callable(outcome) else outcome


def outcome_of(trouble: FailurePeriod) -> object:
    """Returns a failure period as a step of a script."""
    match trouble.ill:
        case FailureMode.DOWN:
            return ConnectionRefusedError(111, "Connection refused")
        case FailureMode.HANG:
            return Hang()
        case FailureMode.STATUS:
            return Status(trouble.status, retry_after=trouble.retry_after)


def digits(wait: float) -> str:
    """Formats seconds for a header, without an exponent."""
    return f"{wait:.3f}".rstrip("0").rstrip(".")


def _is_failure(outcome: object) -> bool:
    if isinstance(outcome, Status):
        return outcome.status_code >= 400
    if isinstance(outcome, type):
        return issubclass(outcome, BaseException)
    return isinstance(outcome, (BaseException, Hang))
