# ruff: noqa: RUF001 - the apostrophes of these lines are given
"""Error codes: the ten codes and their texts, what each gateway response means, and how often it is retried.

One table each. Job records, API, pages, log and command take codes and texts from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate import rules
from tidegate.faults import Code, Level, Reach, Reason
from tidegate.web import Problem
from tidegate_apps.convert.storage import StorageError

TARGET = "convert-gateway"
MEGABYTE = 1024 * 1024
UNKNOWN = "UNKNOWN"

_OPERATOR = "Look at the page Convert, and at its runbook in Help."


def _code(name: str, reason: Reason, reach: Reach, message: str, advice: str, level: Level = Level.WARN) -> Code:
    return Code(name=name, reason=reason, reach=reach, level=level, message=message, advice=advice)


TEN = (
    _code("NOT_PDF", Reason.ITEM, Reach.ITEM, "Only PDF files are supported.", "Choose a PDF file."),
    _code("TOO_LARGE", Reason.ITEM, Reach.ITEM, "File exceeds 50 MB limit.", "Make the file smaller, or split it."),
    _code(
        "GW_4XX",
        Reason.ITEM,
        Reach.ITEM,
        "Couldn’t convert this file with the selected mapping.",
        "Try another mapping, or another file.",
    ),
    _code(
        "GW_5XX",
        Reason.TRANSIENT,
        Reach.TARGET,
        "Converter service is having an issue. We’ll retry shortly.",
        "Nothing to do: it is retried automatically.",
    ),
    _code(
        "GW_TIMEOUT",
        Reason.TRANSIENT,
        Reach.TARGET,
        "Conversion is taking too long. We’ll retry.",
        "Nothing to do: it is retried automatically.",
    ),
    _code(
        "IO_ERROR",
        Reason.TRANSIENT,
        Reach.SELF,
        "Temporary storage issue. We’ll retry.",
        "Check the space and the rights of the storage.",
        Level.ERROR,
    ),
    _code("NOT_READY", Reason.ITEM, Reach.ITEM, "Conversion not finished yet.", "Ask again in a moment."),
    _code(
        "EXPIRED",
        Reason.ITEM,
        Reach.ITEM,
        "File was removed by retention. Re-upload to regenerate.",
        "Upload the file again.",
    ),
    _code("FORBIDDEN", Reason.ITEM, Reach.ITEM, "This file isn’t yours.", "Use the browser that uploaded it."),
    _code(UNKNOWN, Reason.TRANSIENT, Reach.SELF, "Something went wrong on our side.", _OPERATOR, Level.ERROR),
)
# Failures of the gateway as a whole. Its jobs show GW_4XX.
REFUSED = _code(
    "gateway_refused",
    Reason.CONFIG,
    Reach.TARGET,
    "The gateway does not take our calls.",
    "Check convert.gateway_url and what stands before the gateway; then clear the target.",
    Level.ERROR,
)
CODES = (*TEN, REFUSED)
LINES: Mapping[str, str] = {code.name: code.message for code in TEN}

# Parts of a text that promise a retry. Only a job that will be retried may show them.
PROMISES = (" We’ll retry shortly.", " We’ll retry.")


class BadAnswer(Exception):
    """The gateway returned 200 with an empty body or something that is not XML."""


class Unforeseen(Exception):
    """A bug of ours, or another unexpected exception."""


PACK = rules.Pack(
    TARGET,
    [
        rules.Rule(name="refused", code=REFUSED.name, status=(*range(300, 400), 401, 403, 404, 405)),
        rules.Rule(name="busy", code="GW_5XX", status=(408, 429)),
        rules.Rule(name="file", code="GW_4XX", status=range(400, 500)),
        rules.Rule(name="ill", code="GW_5XX", status=range(500, 600)),
        rules.Rule(name="bad-answer", code="GW_5XX", test=lambda seen: isinstance(seen.error, BadAnswer)),
        rules.Rule(name="storage", code="IO_ERROR", test=lambda seen: isinstance(seen.error, StorageError)),
        rules.Rule(name="timeout", code="GW_TIMEOUT", kind=rules.ExceptionKind.TIMEOUT),
        rules.Rule(
            name="address", code=REFUSED.name, kind=(rules.ExceptionKind.BAD_URL, rules.ExceptionKind.CERTIFICATE)
        ),
        rules.Rule(
            name="network",
            code="GW_5XX",
            kind=(
                rules.ExceptionKind.DNS,
                rules.ExceptionKind.REFUSED,
                rules.ExceptionKind.RESET,
                rules.ExceptionKind.UNREACHABLE,
                rules.ExceptionKind.TLS,
                rules.ExceptionKind.CONNECT,
                rules.ExceptionKind.PROTOCOL,
                rules.ExceptionKind.CUT,
            ),
        ),
        rules.Rule(name="unforeseen", code=UNKNOWN, test=lambda seen: isinstance(seen.error, Unforeseen)),
    ],
    codes=CODES,
)

# Retried only once, regardless of the settings: codes, and rules that share their code with others.
ONCE_MORE = frozenset({"IO_ERROR", UNKNOWN, f"{TARGET}:bad-answer"})

# What the gateway's codes add to the text. Its own text is never shown.
MORE: Mapping[str, str] = {
    "unknown_mapping": "Unsupported mapping.",
    "not_pdf": "It is no PDF.",
    "too_large": "The converter does not take files of this size.",
    "encrypted": "The document is locked with a password.",
    "broken": "The document is damaged.",
    "no_pages": "The document has no pages.",
    "too_hard": "The document takes too long to read.",
    "too_much_memory": "The document takes too much memory to read.",
    "crashed": "The document cannot be read.",
    "result_too_large": "The result would be too large.",
}


def size_shown(size: int) -> str:
    """Return a size for users."""
    return f"{size // MEGABYTE} MB" if size % MEGABYTE == 0 else f"{size:,} bytes"


def too_large(limit: int) -> str:
    """Return the text of TOO_LARGE for a limit in bytes."""
    return f"File exceeds {size_shown(limit)} limit."


def shown(code: str | None) -> str | None:
    """Return one of the ten codes. Codes of the queue, such as a lost worker, become UNKNOWN."""
    return code if code is None or code in LINES else UNKNOWN


def gave_up(code: str, attempts: int) -> str:
    """Return the text of a job that failed permanently, without the promise of a retry."""
    line, plain = LINES.get(code, LINES[UNKNOWN]), unpromised(code)
    if plain == line:
        return line
    tried = f"Gave up after {attempts} attempt{'' if attempts == 1 else 's'}."
    return f"{plain} {tried if attempts else 'It was not tried.'}"


def unpromised(code: str) -> str:
    """Return the text of a code without its promise."""
    line = LINES.get(code, LINES[UNKNOWN])
    for promise in PROMISES:
        line = line.removesuffix(promise)
    return line


# -- responses without one of the ten codes ----------------------------------------------------------------------------


def problem_without_code(kind: str, detail: str, **more: Any) -> Problem:
    """Return a Problem with a type and without a code."""
    problem = Problem(kind, detail, **more)
    problem.more["code"] = None
    return problem
