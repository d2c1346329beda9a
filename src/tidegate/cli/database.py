"""Common parts of commands that use a database: options, opening it, output, and exit codes of errors."""

from __future__ import annotations

import getpass
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable
from urllib.parse import unquote, urlsplit

import click
from click.core import ParameterSource

from tidegate.audit import Actor, Origin, user_actor
from tidegate.cli.exits import Exit
from tidegate.clock import SYSTEM
from tidegate.errors import (
    NotFound,
    Rejected,
    SchemaTooNew,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreMissing,
    TidegateError,
)
from tidegate.secrets import BadSecret
from tidegate.settings.location import DEFAULT_URL, SettingsError, is_reference, store_url
from tidegate.store.base import Store, Tx
from tidegate.store.clock import SteadyClock
from tidegate.store.migrate import applied, compare, core_migrations, migrate
from tidegate.store.open import check_url, identify, open_store
from tidegate.store.sqlite_files import marker_file, require_expected

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound="Report | Sequence[Report]")

_PASSWORD = re.compile("([?&](?:ssl)?password=)[^&]*")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

# Each error prints one line and has its own exit code. The first match counts.
_ENDS: tuple[tuple[type[Exception], Exit], ...] = (
    (NotFound, Exit.NOT_FOUND),
    (Rejected, Exit.REFUSED),
    (SchemaTooNew, Exit.CONFIGURATION),
    (StoreMissing, Exit.CONFIGURATION),
    (StoreDamaged, Exit.CONFIGURATION),
    (StoreBusy, Exit.UNREACHABLE),
    (StoreError, Exit.CONFIGURATION),
    (BadSecret, Exit.CONFIGURATION),
    (ValueError, Exit.USAGE),
    (TypeError, Exit.USAGE),
    (TidegateError, Exit.NEGATIVE),
)


def exit_code_of(kind: type[Exception]) -> Exit:
    """Return the exit code of a command that such an error ends."""
    return next(code for known, code in _ENDS if issubclass(kind, known))


class CliError(click.ClickException):
    """One line for the user, and the exit code for the kind of error."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.exit_code = int(code)  # type: ignore[misc]


def command_at_store(command: F) -> F:
    """Add --config, --db, --driver and --json, and turn every error into one line with its exit code."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        with plain_mistakes():
            return command(*args, **kwargs)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run  # type: ignore[return-value]


def _keep_config(ctx: click.Context, _: click.Parameter, file: Path | None) -> None:
    ctx.meta[_CONFIG] = file


def may_make(command: F) -> F:
    """Mark a command that creates the server's database if it is missing, as the server does."""
    command.__dict__[_MAY_MAKE] = True
    return command


def _database(ctx: click.Context, _: click.Parameter, url: str | None) -> str:
    """Return the given database URL, else that of the settings. A database file in this folder needs no settings."""
    if url is not None and not is_reference(url):
        return url
    is_flag = ctx.get_parameter_source("url") is ParameterSource.COMMANDLINE
    with plain_mistakes():
        configured = store_url(ctx.meta[_CONFIG], flag=url if is_flag else None)
    default_file = sqlite_path(DEFAULT_URL)
    makes = hasattr(ctx.command.callback, _MAY_MAKE)
    if configured is None and not makes and (default_file is None or not default_file.exists()):
        raise click.UsageError(
            "this folder has no tidegate.db and no settings; give --db, set TIDEGATE_DB, or run: tidegate init",
            ctx,
        )
    return configured or DEFAULT_URL


_CONFIG = "tidegate.cli.config"
_MAY_MAKE = "may_make"
NUMBER = click.IntRange(1, 2**63 - 1)  # id of a job or source, as large as a database allows
_FILE = click.Path(path_type=Path, dir_okay=False)
CONFIG_HELP = "Settings file.  [default: ./tidegate.toml]"
DB_HELP = "Database: sqlite:///jobs.db or postgresql://user@host/db.  [default: that of the settings]"
_OPTIONS = (
    click.option("--config", type=_FILE, expose_value=False, is_eager=True, callback=_keep_config, help=CONFIG_HELP),
    click.option(
        "--db",
        "url",
        envvar="TIDEGATE_DB",
        show_envvar=True,
        callback=_database,
        help=DB_HELP,
    ),
    click.option("--driver", type=click.Choice(["apsw", "sqlite3"]), help="SQLite library.  [default: the newer one]"),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
)


def by_option(command: F) -> F:
    """Add --by and --reason: the actor and the reason for events. The command gets both as one *by*."""

    @wraps(command)
    def run(*args: Any, by: str, reason: str, **kwargs: Any) -> Any:
        return command(*args, by=Actor(user_actor(by), Origin.CLI, reason), **kwargs)

    by_flag = click.option(
        "--by", default=my_login, show_default="your login", metavar="NAME", help="Actor for the audit log."
    )
    reason_flag = click.option("--reason", default="", metavar="TEXT", help="Reason for the audit log.")
    return by_flag(reason_flag(run))  # type: ignore[return-value]


@contextmanager
def plain_mistakes() -> Iterator[None]:
    try:
        yield
    except SettingsError as error:
        *others, last = error.problems
        for other in others:  # one line each; the last one ends the command
            click.echo(f"tidegate: {other}", err=True)
        raise CliError(str(last), Exit.CONFIGURATION) from error
    except (TidegateError, ValueError, TypeError) as error:
        raise CliError(str(error), exit_code_of(type(error))) from error


def is_to_be_made(url: str, driver: str | None) -> bool:
    """Whether `store_made_at` would create the database. ValueError if the URL is invalid."""
    check_url(url, driver)
    path = sqlite_path(url)
    return path is not None and not path.exists()


@contextmanager
def store_made_at(url: str, driver: str | None) -> Iterator[tuple[Store, bool]]:
    """Like `store_at`, but create a missing database. Also return whether it was created."""
    new = is_to_be_made(url, driver)
    if new:
        new_store = open_store(url, now=SYSTEM.now, driver=driver)
        try:
            migrate(new_store, core_migrations())
            identify(new_store)
        finally:
            new_store.close()
    with store_at(url, driver) as store:
        yield store, new


@contextmanager
def store_at(url: str, driver: str | None, *, bare: bool = False) -> Iterator[Store]:
    """Open an existing database. *bare*: also with an outdated schema."""
    check_url(url, driver)
    path = sqlite_path(url)
    if path is not None:
        require_expected(str(path))
    if path is not None and not path.exists():
        raise CliError(f"the database {path} does not exist; create it with: tidegate db migrate", Exit.NOT_FOUND)
    # The error line reports an unreachable database. A log line would repeat it.
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    store = open_store(url, now=SYSTEM.now, driver=driver)
    try:
        if not bare and pending(store):
            raise CliError(
                f"the schema of {shown_url(url)} is not up to date; update it with: tidegate db migrate",
                Exit.CONFIGURATION,
            )
        if not bare:
            store.keep_steady(SteadyClock(SYSTEM))
        yield store
    finally:
        store.close()


def pending(store: Store) -> list[str]:
    """Return the missing schema migrations."""
    return [f"{migration.number:04} {migration.name}" for migration in compare(applied(store), core_migrations())]


def sqlite_path(url: str) -> Path | None:
    """Return the file of a SQLite URL. None for another database."""
    scheme, _, rest = url.partition("://")
    return Path(unquote(rest.removeprefix("/"))) if scheme == "sqlite" else None


def say_if_new(url: str) -> None:
    """Announce that a command creates a database. In the wrong folder, the mistake would go unnoticed."""
    file = sqlite_path(url)
    if file is not None and not file.exists() and not marker_file(str(file)).exists():
        click.echo(f"tidegate: creating the database {file}, which does not exist yet", err=True)


def shown_url(url: str) -> str:
    """Return the URL without a password, which PostgreSQL also accepts as a query parameter."""
    password = urlsplit(url).password
    shown = url if password is None else url.replace(f":{password}@", ":...@", 1)
    return _PASSWORD.sub(r"\1...", shown)


class StyledLine(str):
    """A line with colours. What comes from outside in it has no control characters any more."""

    __slots__ = ()


def say(document: Any, as_json: bool, lines: Callable[[], list[str]]) -> None:
    """Print one JSON document, or lines for users."""
    if as_json:
        click.echo(json.dumps(document, indent=2, default=str))
        return
    for line in lines():
        click.echo(line if isinstance(line, StyledLine) else printable(line))


@runtime_checkable
class Report(Protocol):
    """A report that can be printed as JSON."""

    def as_json(self) -> Any: ...


def show_what(
    read: Callable[[Tx], R], lines: Callable[[R], list[str]], url: str, driver: str | None, *, as_json: bool
) -> int:
    """Print a report from the database, or a list of them. Return the exit code."""
    with store_at(url, driver) as store:
        report = store.read(read)
    document = report.as_json() if isinstance(report, Report) else [item.as_json() for item in report]
    say(document, as_json, lambda: lines(report))
    return Exit.OK


_COLOURS = {"good": "green", "busy": "cyan", "warn": "yellow", "bad": "red"}


def table(rows: Sequence[tuple[str, ...]], head: tuple[str, ...], tones: Mapping[str, str] | None = None) -> list[str]:
    """Return aligned columns. Nothing without rows. *tones*: the tone of a state, which is in the column STATE."""
    if not rows:
        return []
    rows = [tuple(printable(cell).replace("\n", " ") for cell in row) for row in rows]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    state = head.index("STATE") if tones else -1

    def line(row: tuple[str, ...], style: Callable[[int, str], str]) -> StyledLine:
        padded = "  ".join(style(i, cell) + " " * (widths[i] - len(cell)) for i, cell in enumerate(row))
        return StyledLine(padded.rstrip())

    def coloured(i: int, cell: str) -> str:
        colour = _COLOURS.get(tones.get(cell, "")) if tones and i == state else None
        return click.style(cell, fg=colour) if colour else cell

    return [line(head, lambda _, cell: click.style(cell, bold=True)), *(line(row, coloured) for row in rows)]


def printable(text: str) -> str:
    """Remove control characters from *text*: names, keys and messages come from outside."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def many(n: int, what: str) -> str:
    """Format a count with its noun: 1 job, 2 jobs."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def when(moment: float | None) -> str:
    """Format a time in UTC."""
    return "" if moment is None else datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S")


def my_login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "cli"
