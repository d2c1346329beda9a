"""Tables, in colour on a terminal, plain everywhere else."""

from __future__ import annotations

import os
import sys
from typing import TextIO

import click

Rows = list[list[str]]


def table(head: list[str], rows: Rows) -> None:
    """Prints a table; the first column is a label, the others are numbers."""
    if not (is_terminal() and _rich(head, rows)):
        for line in plain(head, rows):
            click.echo(line)


def plain(head: list[str], rows: Rows) -> list[str]:
    """The table as aligned text."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return [_aligned(row, widths) for row in (head, ["-" * width for width in widths], *rows)]


def _aligned(row: list[str], widths: list[int]) -> str:
    first, *others = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
    return "  ".join([first.lstrip().ljust(widths[0]), *others])


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether somebody looks at it; standard output if no other is given."""
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def _rich(head: list[str], rows: Rows) -> bool:
    """False when rich is not there: the plain table says the same."""
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
    except ModuleNotFoundError:
        return False
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    drawn.add_column(head[0])
    for number, name in enumerate(head[1:]):
        drawn.add_column(name, justify="right", style="green" if number == 0 else None)
    for row in rows:
        drawn.add_row(*row)
    Console(highlight=False).print(drawn)
    return True
