"""Loggers and formatters that keep secrets out of the log."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from types import TracebackType
from typing import Any, TextIO

from tidegate.faults.redaction import redact

# Loggers whose tracebacks have no secrets in them, whatever handlers the program of a user has.

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


# The log of a server: one line per record, for people or as JSON, with secrets taken out.
#
# Log calls here say an event and its fields, `_log.warning("lease_lost job=%s", id)`: in JSON the fields keep their
# names and their types.

_MAX_MESSAGE = 2000  # characters of a message
_MAX_BYTES, _SHORT = 8000, 150  # of a line; characters of texts in a line that is too long
_MAX_INTEGER = 2**63
_FIELD = re.compile(r"(\w+)=%[-+ #0-9.]*[a-z]")
_EVENT = re.compile(r"[a-z][a-z0-9_.]*(?: [a-z0-9_]+)*(?= \w+=%|$)")  # some events have several words


class _RedactingFormatter(logging.Formatter):
    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        # Another handler's formatter may have left its own text of the traceback, with the secrets in it.
        kept = record.exc_text
        record.exc_text = None if record.exc_info else kept
        try:
            return super().format(record)
        finally:
            record.exc_text = kept

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is logging's
        return redacted_traceback(ei)


class JsonLines(_RedactingFormatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03}Z",
            "level": record.levelname,
            "logger": record.name,
            **_said(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        elif record.exc_text:
            line["error"] = record.exc_text
        text = json.dumps(line, ensure_ascii=False)
        if len(text.encode()) > _MAX_BYTES:
            short = {name: value[:_SHORT] if isinstance(value, str) else value for name, value in line.items()}
            text = json.dumps(short, ensure_ascii=False)
        return text


class TextLines(_RedactingFormatter):
    """Time in UTC, level, logger, what happened."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s %(message)s", "%Y-%m-%d %H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        said = _said(record)
        message = said.pop("message", None)
        # Fields are redacted by themselves: as one text, "key=7" would look like a secret.
        record.message = message or " ".join([said.pop("event"), *(f"{name}={value}" for name, value in said.items())])
        return super().formatMessage(record)


class _Lines(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """What cannot be written is left out: logging would print it with all its values, secrets too."""


# Clients that write a line for every call, with the whole address; that is for whoever looks for a mistake.
_TALKATIVE = ("httpx", "httpx2")


def write_log(level: str = "INFO", form: str = "auto", stream: TextIO | None = None) -> logging.Handler:
    """Sends every record to *stream*, once; *form* is text, json, or auto: text on a terminal."""
    out = sys.stderr if stream is None else stream
    as_json = form == "json" or (form == "auto" and not out.isatty())
    handler = _Lines(out)
    handler.setFormatter(JsonLines() if as_json else TextLines())
    handler.set_name("tidegate")
    root = logging.getLogger()
    for before in [each for each in root.handlers if each.get_name() == "tidegate"]:
        root.removeHandler(before)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING if root.level > logging.DEBUG else logging.NOTSET)
    return handler


def _said(record: logging.LogRecord) -> dict[str, Any]:
    template = record.msg if isinstance(record.msg, str) else str(record.msg)
    event = _EVENT.match(template)
    names = _FIELD.findall(template)
    values = record.args if isinstance(record.args, tuple) else ()
    if event is None or len(names) != len(values):
        return {"message": redact(_message(record), _MAX_MESSAGE)}
    return {"event": event[0], **{name: _plain(value) for name, value in zip(names, values, strict=True)}}


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # the values of a stranger's call do not fit its text
        return f"{record.msg} ({type(error).__name__})"


def _plain(value: object) -> object:
    if value is None or (
        isinstance(value, (int, float)) and -_MAX_INTEGER < value < _MAX_INTEGER
    ):  # JSON has no other numbers
        return value
    try:
        return redact(str(value))
    except Exception as error:  # whoever wrote it has no text for it, or one that is too long
        return f"{type(value).__name__} ({type(error).__name__})"
