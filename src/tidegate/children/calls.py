"""Calls a function in a child process."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Any, TypeVar, overload

from tidegate.children.pool import DEFAULT, ChildCall, Children, Limits, place_of
from tidegate.children.protocol import Frame
from tidegate.jobs.attempt import result_of
from tidegate.serialization import encode
from tidegate.serialization.arguments import signature_of, sole_serial

A = TypeVar("A")
R = TypeVar("R")

_signature = lru_cache(maxsize=256)(signature_of)


@lru_cache(maxsize=1)
def _pool_of(pid: int) -> Children:  # noqa: ARG001 - what it is cached by
    """The child processes of this process. After a fork, those of the parent must not be used."""
    return Children(max(2, os.cpu_count() or 2))


@overload
async def run(
    fn: Callable[[A], Coroutine[Any, Any, R]], args: A, limits: Limits = ..., *, among: Children | None = ...
) -> R: ...
@overload
async def run(fn: Callable[[A], R], args: A, limits: Limits = ..., *, among: Children | None = ...) -> R: ...
@overload
async def run(fn: str, args: object, limits: Limits = ..., *, among: Children | None = ...) -> Any: ...
async def run(fn: Any, args: Any, limits: Limits = DEFAULT, *, among: Children | None = None) -> Any:
    """Runs *fn* with *args* in a child process and returns its result. Raises ChildError if it or the child fails.

    *fn* is a function at the top level of a module, or its import path "package.module:function", which this process
    then does not import. Arguments and result are sent as JSON: plain values, dataclasses, bytes. Cancelling kills the
    child.
    """
    call = _call(fn, args, limits)
    return _result(fn, await (among or _pool_of(os.getpid())).run(call))


@overload
def run_now(
    fn: Callable[[A], Coroutine[Any, Any, R]], args: A, limits: Limits = ..., *, among: Children | None = ...
) -> R: ...
@overload
def run_now(fn: Callable[[A], R], args: A, limits: Limits = ..., *, among: Children | None = ...) -> R: ...
@overload
def run_now(fn: str, args: object, limits: Limits = ..., *, among: Children | None = ...) -> Any: ...
def run_now(fn: Any, args: Any, limits: Limits = DEFAULT, *, among: Children | None = None) -> Any:
    """As `run`, for a program without an event loop."""
    call = _call(fn, args, limits)
    return _result(fn, (among or _pool_of(os.getpid())).run_now(call))


def _call(fn: Callable[..., Any] | str, args: object, limits: Limits) -> ChildCall:
    if isinstance(fn, str):
        module, _, name = fn.partition(":")
        if not module or not name:
            raise ValueError(f"fn: {fn!r} is not the path of a function; give package.module:function")
        return ChildCall(fn, encode(args), limits)
    return ChildCall(place_of(fn), sole_serial(_signature(fn)).encode(args), limits)


def _result(fn: Callable[..., Any] | str, answer: Frame) -> Any:
    result = result_of(answer)
    return result if isinstance(fn, str) else _signature(fn).result.decode(answer[1])
