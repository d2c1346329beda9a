"""Failures to chain together, and their verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.faults.classification import classify
from tidegate.faults.fault import Fault


class Answer:
    def __init__(self, status: int, **headers: str) -> None:
        self.status_code = status
        self.headers = headers


class StatusError(Exception):
    """What raise_for_status() of most clients raises."""

    def __init__(self, status: int, text: str = "bad answer", **headers: str) -> None:
        super().__init__(text)
        self.response = Answer(status, **headers)


class AppError(Exception):
    """An exception of the program around the client."""


def verdict(error: BaseException) -> Fault:
    fault = classify(error)
    assert fault is not None
    return fault


def raised(make: Callable[[], Any]) -> BaseException:
    try:
        make()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def chained(
    error: BaseException, *, cause: BaseException | None = None, context: BaseException | None = None
) -> BaseException:
    error.__context__ = context
    if cause is not None:
        error.__cause__ = cause
    return error
