"""Probes, in both colours: of an open breaker, and of a verdict that is in doubt."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, NoReturn, TypeVar

from tidegate.core.chain import is_bug
from tidegate.core.fault import Fault
from tidegate.core.redact import redact
from tidegate.machine.breaker import Breaker
from tidegate.runtime.admission import Admission
from tidegate.runtime.caller import CallPipeline

R = TypeVar("R")
_log = logging.getLogger("tidegate.target")


def probe_breaker(pipeline: CallPipeline, key: Hashable, operation: str | None) -> None:
    """Asks the health probe, if one is due, whether an open breaker may go half-open."""
    breaker, probe = pipeline.probe_due(key, operation), pipeline.policy.probe
    if breaker is not None and probe is not None:
        _opened(breaker, _asked(probe, "probe"))


async def aprobe_breaker(pipeline: CallPipeline, key: Hashable, operation: str | None, left: float = math.inf) -> None:
    """As `knock`; a probe that takes until the next one is due, or to the deadline, has failed."""
    breaker, probe = pipeline.probe_due(key, operation), pipeline.policy.probe
    if breaker is not None and probe is not None:
        _opened(breaker, await _aasked(probe, min(left, pipeline.policy.probe_every)))


def confirm_by_probe(pipeline: CallPipeline, call: Admission, what: object) -> Fault | None:
    """What an outcome means, after the probe has been asked where there is one for it."""
    fault, doubted = pipeline.judge(call, what)
    if fault is None or doubted is None or doubted.probe is None:
        return fault
    probe, key = doubted.probe, call.key
    return pipeline.probed(doubted, fault, _asked(lambda: probe(key), "Confirm.probe"))


async def aconfirm_by_probe(
    pipeline: CallPipeline, call: Admission, what: object, left: float = math.inf
) -> Fault | None:
    fault, doubted = pipeline.judge(call, what)
    if fault is None or doubted is None or doubted.probe is None:
        return fault
    probe, key = doubted.probe, call.key
    return pipeline.probed(doubted, fault, await _aasked(lambda: probe(key), left))


async def within(left: float, made: Awaitable[R]) -> R:
    """What *made* gives, if it does within *left* seconds; else TimeoutError, and it is cancelled."""
    if left == math.inf:
        return await made
    import asyncio

    async with asyncio.timeout(left):
        return await made


def _asked(probe: Callable[[], Any], name: str) -> Exception | None:
    """What the probe raised."""
    try:
        answer = probe()
        if inspect.isawaitable(answer):
            _refuse(answer, name)
    except Exception as error:
        return error
    return None


async def _aasked(probe: Callable[[], Any], left: float) -> Exception | None:
    try:
        answer = probe()
        if inspect.isawaitable(answer):
            await within(left, answer)
    except Exception as error:
        return error
    return None


def _opened(breaker: Breaker, error: Exception | None) -> None:
    if error is None:
        breaker.half_open()
    elif is_bug(error):
        # It will never succeed, and only a probe ends the open state: a person must act.
        _log.error("probe_failed name=%s error=%s", breaker.name, redact(f"{type(error).__name__}: {error}"))
    else:
        _log.info("probe_failed name=%s error=%s", breaker.name, type(error).__name__)


def _refuse(answer: object, name: str) -> NoReturn:
    close = getattr(answer, "close", None)
    if close is not None:
        close()  # a coroutine that is never awaited would warn
    raise TypeError(f"{name} is async def, but the guarded call is not; give a plain `def`, or guard an async one")
