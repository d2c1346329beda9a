"""Exit codes of commands. Scripts depend on them."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    NEGATIVE = 1  # it worked, and the result is negative
    USAGE = 2
    CONFIGURATION = 3
    UNREACHABLE = 4
    NOT_AUTHORISED = 5
    REFUSED = 6
    NOT_FOUND = 7
    TIMED_OUT = 8
    INTERRUPTED = 130
