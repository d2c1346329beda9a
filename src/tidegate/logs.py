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

from tidegate.faults.redaction import redact, redact_lines

# -- loggers, safe with any handler of the user's program -----------------------------------------------------------

_MAX_TRACEBACK = 4000  # characters of a traceback

Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def logger(name: str) -> logging.Logger:
    """Like `logging.getLogger`, for modules that log exceptions of handlers, services and libraries."""
    named = logging.getLogger(name)
    named.addFilter(_REDACTING)  # adding it twice has no effect
    return named


def redacted_traceback(raised: Raised) -> str:
    """Formats an exception like `traceback`, with the secrets of each line, and those of several lines, redacted."""
    text = "\n".join(redact_lines("".join(traceback.format_exception(*raised))))
    # The start and the end are more useful than the middle.
    return (
        text if len(text) <= _MAX_TRACEBACK else f"{text[: _MAX_TRACEBACK // 4]}\n…\n{text[-_MAX_TRACEBACK * 3 // 4 :]}"
    )


class _RedactingFilter(logging.Filter):
    """Replaces the exception, whose request may carry a token, by its redacted traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info:
            record.exc_text, record.exc_info = redacted_traceback(record.exc_info), None
        return True


_REDACTING = _RedactingFilter()


# -- log of a server ------------------------------------------------------------------------------------------------

_MAX_MESSAGE = 2000  # characters of a message
_MAX_BYTES, _SHORT = 8000, 150  # bytes of a line; characters of each text in a line that is too long
_MAX_INTEGER = 2**63
_FIELD = re.compile(r"(\w+)=%[-+ #0-9.]*[a-z]")
_EVENT = re.compile(r"[a-z][a-z0-9_.]*(?: [a-z0-9_]+)*(?= \w+=%|$)")  # some events have several words


class _RedactingFormatter(logging.Formatter):
    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        # Another handler's formatter may have cached a traceback with secrets.
        cached = record.exc_text
        record.exc_text = None if record.exc_info else cached
        try:
            return super().format(record)
        finally:
            record.exc_text = cached

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is logging's
        return redacted_traceback(ei)


class JsonLines(_RedactingFormatter):
    """One JSON object per record.

    Log calls pass an event and its fields, `_log.warning("lease_lost job=%s", id)`. In JSON the fields keep their names
    and types.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03}Z",
            "level": record.levelname,
            "logger": record.name,
            **_record_fields(record),
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
    """Time in UTC, level, logger, event."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s %(message)s", "%Y-%m-%d %H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        fields = _record_fields(record)
        message = fields.pop("message", None)
        # Fields are redacted one by one: in one text, "key=7" would look like a secret.
        record.message = message or " ".join(
            [fields.pop("event"), *(f"{name}={value}" for name, value in fields.items())]
        )
        return super().formatMessage(record)


class _Lines(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Drops a record that cannot be written: logging would print all its values, with secrets."""


# Clients that log every call with the full URL. That is useful only for debugging.
_TALKATIVE = ("httpx", "httpx2")


def write_log(level: str = "INFO", form: str = "auto", stream: TextIO | None = None) -> logging.Handler:
    """Sends every record to *stream*, once. *form* is text, json, or auto: text on a terminal."""
    out = sys.stderr if stream is None else stream
    as_json = form == "json" or (form == "auto" and not out.isatty())
    handler = _Lines(out)
    handler.setFormatter(JsonLines() if as_json else TextLines())
    handler.set_name("tidegate")
    root = logging.getLogger()
    for previous in [other for other in root.handlers if other.get_name() == "tidegate"]:
        root.removeHandler(previous)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING if root.level > logging.DEBUG else logging.NOTSET)
    return handler


def _record_fields(record: logging.LogRecord) -> dict[str, Any]:
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
    except Exception as error:  # arguments of third-party code do not fit the template
        return f"{record.msg} ({type(error).__name__})"


def _plain(value: object) -> object:
    if value is None or (
        isinstance(value, (int, float)) and -_MAX_INTEGER < value < _MAX_INTEGER
    ):  # JSON has no other numbers
        return value
    try:
        return redact(str(value))
    except Exception as error:  # its `str` raises, or the number has too many digits
        return f"{type(value).__name__} ({type(error).__name__})"
