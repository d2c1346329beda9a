"""The codes that only one service needs, from rows like those of the code book."""

from __future__ import annotations

from tidegate.core.codes import Code
from tidegate.core.fault import Level, Reach, Reason

Row = tuple[str, str, str, str, str, str]


def own_codes(*rows: Row) -> tuple[Code, ...]:
    """Codes from rows of name, reason, reach, level, message and advice."""
    return tuple(
        Code(name=name, reason=Reason(reason), reach=Reach(reach), level=Level(level), message=message, advice=advice)
        for name, reason, reach, level, message, advice in rows
    )
