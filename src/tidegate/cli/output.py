"""Terminal output: tables, progress bars, and Ctrl-C that stops long work between two steps."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from tidegate.cli.database import CliError
from tidegate.cli.exits import Exit
from tidegate.cli.root import uses_colour
from tidegate.store.base import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


# -- tables ------------------------------------------------------------------------------------------------------------

Rows = list[list[str]]


def table(head: list[str], rows: Rows) -> None:
    """Print a table, in colour on a terminal. The first column is a label, the others are numbers."""
    if not (is_terminal() and uses_colour() is None and _rich(head, rows)):
        for line in plain(head, rows):
            click.echo(line)


def plain(head: list[str], rows: Rows) -> list[str]:
    """Return the table as aligned text."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return [_aligned(row, widths) for row in (head, ["-" * width for width in widths], *rows)]


def _aligned(row: list[str], widths: list[int]) -> str:
    first, *others = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
    return "  ".join([first.lstrip().ljust(widths[0]), *others])


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether *stream* is an interactive terminal. Default: standard output."""
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def _rich(head: list[str], rows: Rows) -> bool:
    """Print with rich. Return False if rich is not installed."""
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


class InterruptibleWork:
    """Progress of long work. Call it with the name of a stage to start it and get its progress callback."""

    def __init__(self, bar: Bar | None) -> None:
        self.done = self.total = 0
        self._bar = bar
        self._task = bar.add_task("", total=None, count="") if bar is not None else None
        self._stop = False

    def __call__(self, stage: str) -> Progress:
        self._raise_if_stopping()
        self.done = self.total = 0
        self._show(description=stage, completed=0, total=None, count="")
        return self._on_progress

    def ask_to_stop(self) -> None:
        """Request a stop before the next step."""
        self._stop = True
        self._show(description="Stopping; Ctrl-C again ends it at once")

    def _on_progress(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        self._show(completed=done, total=total, count=f"{done:,} of {total:,}")
        if done < total:
            self._raise_if_stopping()

    def _show(self, **fields: Any) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, **fields)

    def _raise_if_stopping(self) -> None:
        if self._stop:
            raise KeyboardInterrupt


@contextmanager
def long_work(stopped: Callable[[InterruptibleWork], str], *, as_json: bool) -> Iterator[InterruptibleWork]:
    """Show a progress bar on a terminal. If Ctrl-C stops the work, *stopped* reports what was done."""
    with _bar(as_json) as bar:
        work = InterruptibleWork(bar)
        try:
            with _stop_on_interrupt(work):
                yield work
        except KeyboardInterrupt as error:
            raise CliError(f"stopped: {stopped(work)}", Exit.INTERRUPTED) from error


@contextmanager
def _stop_on_interrupt(work: InterruptibleWork) -> Iterator[None]:
    """Let the first Ctrl-C request a stop. The second one has its usual effect."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals
        return
    before = signal.getsignal(signal.SIGINT)

    def asked(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        work.ask_to_stop()

    signal.signal(signal.SIGINT, asked)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _bar(as_json: bool) -> Iterator[Bar | None]:
    """Show a bar on standard error, so that standard output stays clean. It disappears at the end."""
    if as_json or not is_terminal(sys.stderr):
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ModuleNotFoundError:
        yield None
        return
    shown = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), TimeRemainingColumn())
    with Progress(*shown, console=Console(stderr=True, highlight=False), transient=True) as bar:
        yield bar
