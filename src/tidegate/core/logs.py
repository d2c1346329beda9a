"""Loggers whose tracebacks have no secrets in them, whatever handlers the program of a user has."""

from __future__ import annotations

import logging
import traceback
from types import TracebackType

from tidegate.core.redact import redact

_MAX_TRACEBACK = 4000  # characters of a traceback

Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def logger(name: str) -> logging.Logger:
    """As `logging.getLogger`, for a module that logs exceptions of handlers, services and libraries."""
    found = logging.getLogger(name)
    found.addFilter(_REDACTING)  # which it is given once, however often it is added
    return found


def redacted_traceback(raised: Raised) -> str:
    """What `traceback` prints of an exception, line by line without what looks like a secret."""
    lines = "".join(traceback.format_exception(*raised)).splitlines()
    text = "\n".join(redact(line) for line in lines)
    # Where it began and what it came to are worth more than what is between.
    return (
        text if len(text) <= _MAX_TRACEBACK else f"{text[: _MAX_TRACEBACK // 4]}\n…\n{text[-_MAX_TRACEBACK * 3 // 4 :]}"
    )


class _RedactingFilter(logging.Filter):
    """Leaves the redacted text of a traceback, and not the exception, whose request may carry a token."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info:
            record.exc_text, record.exc_info = redacted_traceback(record.exc_info), None
        return True


_REDACTING = _RedactingFilter()
