"""Tracebacks in the log of a user's own program carry no secrets."""

from __future__ import annotations

import io
import logging

import httpx2
import pytest

from tidegate.logs import logger, redacted_traceback

SECRET = "s3cr3tT0k3nValue"


def raised(where: str) -> BaseException:
    request = httpx2.Request(
        "GET", f"https://api.test/x?access_token={SECRET}", headers={"Authorization": f"Bearer {SECRET}"}
    )
    try:
        match where:
            case "url":
                httpx2.Response(401, request=request).raise_for_status()
            case "header":
                raise ValueError(f"sent {dict(request.headers)}")
            case "cause":
                try:
                    httpx2.Response(500, request=request).raise_for_status()
                except httpx2.HTTPStatusError as error:
                    raise RuntimeError("the call failed") from error
            case "user":
                raise OSError(f"cannot reach https://ada:{SECRET}@api.test/")
    except Exception as error:
        return error
    raise AssertionError(where)


@pytest.mark.parametrize("where", ["url", "header", "cause", "user"])
def test_a_traceback_that_is_logged_has_no_secret_in_it(where: str) -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)  # of a program that knows nothing of Tidegate
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logger("tidegate.test_logs")
    log.addHandler(handler)
    try:
        log.error("attempt_failed job=%s", 7, exc_info=raised(where))
    finally:
        log.removeHandler(handler)

    text = out.getvalue()
    assert "attempt_failed job=7" in text
    assert "Traceback" in text
    assert "test_logs.py" in text
    assert SECRET not in text


def test_other_handlers_are_not_given_the_exception_itself() -> None:
    seen: list[logging.LogRecord] = []

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record)

    handler = Keeps()
    log = logger("tidegate.test_logs")
    log.addHandler(handler)
    try:
        log.error("attempt_failed", exc_info=raised("url"))
    finally:
        log.removeHandler(handler)

    assert [record.exc_info for record in seen] == [None]
    assert SECRET not in (seen[0].exc_text or "")


def test_a_logger_that_is_asked_for_twice_redacts_once() -> None:
    logger("tidegate.test_logs_twice")

    assert len(logger("tidegate.test_logs_twice").filters) == 1


def test_a_long_traceback_keeps_its_beginning_and_its_end() -> None:
    error = ValueError("x" * 300)
    for n in range(100):
        error, error.__cause__ = ValueError(f"{n} " + "x" * 300), error

    text = redacted_traceback((ValueError, error, None))

    assert len(text) < 4100
    assert "99 xxx" in text
