"""One line of the table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    found: str
    target: str = ""
    ok: bool | None = None  # None: a floor, or a number without a target

    @property
    def word(self) -> str:
        return "" if self.ok is None else "ok" if self.ok else "SHORT"


def at_most(what: str, found: float, most: float, unit: str, note: str = "") -> Row:
    """A row whose number must not exceed *most*."""
    return Row(what, f"{found:,.2f}{unit}{note}", f"<= {most:g}{unit}", found <= most)


def exactly(what: str, found: int, wanted: int) -> Row:
    """A row whose number must be this one."""
    return Row(what, str(found), str(wanted), found == wanted)


def table(rows: Iterable[Row]) -> str:
    lines = [("what", "found", "target", ""), *((row.what, row.found, row.target, row.word) for row in rows)]
    width = [max(len(line[column]) for line in lines) for column in range(4)]
    return "\n".join(
        f"{line[0]:<{width[0]}}  {line[1]:>{width[1]}}  {line[2]:<{width[2]}}  {line[3]}".rstrip() for line in lines
    )
