"""Where the next page of a list begins, as a text that whoever reads it hands back as it was given."""

from __future__ import annotations

import re

END = 2**62  # above every number that is given out
_NUMBER = re.compile(r"[0-9a-f]{1,16}", re.ASCII)


def write_cursor(mark: str, number: int) -> str:
    """A number with the *mark* of its list, so that no other list takes it for its own."""
    return f"{mark}{number:x}"


def read_cursor(cursor: str | None, mark: str, first: int = END) -> int:
    """The number in it; *first* when there is none, and ValueError for one that this list did not give."""
    if cursor is None:
        return first
    if not cursor.startswith(mark) or not _NUMBER.fullmatch(cursor, len(mark)):
        raise bad_cursor(cursor)
    return min(int(cursor[len(mark) :], 16), END)


def bad_cursor(cursor: str) -> ValueError:
    return ValueError(f"cursor: {cursor[:40]!r} is not one that a page gave; leave it out to begin anew")
