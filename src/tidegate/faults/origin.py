"""Where an unknown exception came from, as a short text that can be stored and read back.

The text of the exception is not part of it: messages of jobs are shown on pages, and the text may contain anything.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

from tidegate.faults.attribution import own_frame
from tidegate.faults.fault import Fault
from tidegate.faults.introspection import type_name

_WRITTEN = re.compile(r"(?P<error_type>[\w.]+)(?: \((?P<where>[^()/\\]+:\d+)\))?")


class ErrorOrigin(NamedTuple):
    """The class of an exception, and the last frame of the program: `mail.py:12`."""

    error_type: str = ""
    where: str = ""

    def __str__(self) -> str:
        return f"{self.error_type} ({self.where})" if self.where else self.error_type


def origin_of(error: BaseException) -> ErrorOrigin:
    frame = own_frame(error)
    return ErrorOrigin(type_name(error), "" if frame is None else f"{PurePath(frame[0]).name}:{frame[1]}")


def with_origin(fault: Fault, error: BaseException) -> Fault:
    """Adds the origin to the message of a fault that no rule explains. The log has the whole exception."""
    if not (fault.unclassified or fault.rule == "handler"):
        return fault
    return replace(fault, message=f"{fault.message} {origin_of(error)}")


def read_origin(text: str) -> ErrorOrigin:
    """Reads back what `str(origin)` wrote."""
    match = _WRITTEN.fullmatch(text)
    return ErrorOrigin() if match is None else ErrorOrigin(match["error_type"], match["where"] or "")
