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


MEANINGS: dict[Exit, str] = {
    Exit.OK: "ok",
    Exit.NEGATIVE: "negative result: the command worked, and the result is no",
    Exit.USAGE: "usage: an option or an argument is wrong",
    Exit.CONFIGURATION: "configuration: something that the command needs is missing or wrong",
    Exit.UNREACHABLE: "unreachable: the database or a server does not respond",
    Exit.NOT_AUTHORISED: "not authorised: the server or service rejected the credentials",
    Exit.REFUSED: "refused: the current state does not allow it",
    Exit.NOT_FOUND: "not found",
    Exit.TIMED_OUT: "timed out",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}
