"""Options of application commands: the settings, and the application installed on its database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import update_wrapper
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tidegate.audit import Actor, Origin, user_actor
from tidegate.cli import database
from tidegate.cli.database import CONFIG_HELP, DB_HELP, CliError, my_login, plain_mistakes
from tidegate.cli.exits import Exit
from tidegate.durations import seconds

if TYPE_CHECKING:
    from tidegate.apps import App, Installed
    from tidegate.settings import Loaded


# -- settings ----------------------------------------------------------------------------------------------------------

F = TypeVar("F", bound=Callable[..., Any])


def config_option(command: F) -> F:
    """Add --config, the settings file."""
    option = click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help=CONFIG_HELP)
    return option(command)


def installed() -> tuple[list[App[Any]], dict[str, str]]:
    """Return the usable applications, and the reason for each unusable one."""
    needs_models()
    from tidegate.server import there_are

    return there_are()


def load_settings(file: Path | None) -> Loaded:
    """Load the settings of the server and of every application. SettingsError lists all mistakes."""
    apps, broken = installed()
    from tidegate.settings import load

    return load(file=file, apps=apps, broken=broken)


def needs_server() -> None:
    """Raise CliError if a package that the server needs is missing."""
    needs_models()
    if not all(map(find_spec, ("fastapi", "uvicorn"))):
        raise CliError(
            "the server needs packages that are not installed; run: pip install 'tidegate[server]'", Exit.CONFIGURATION
        )


def needs_models() -> None:
    """Raise CliError if the package for settings is missing."""
    try:
        import pydantic  # noqa: F401 - is it there?
    except ModuleNotFoundError as error:
        raise CliError(
            "the settings need the package pydantic, which is not installed; run: pip install 'tidegate[server]'",
            Exit.CONFIGURATION,
        ) from error


_OPTIONS = (
    click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help=CONFIG_HELP),
    click.option("--db", help=DB_HELP),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
)


@dataclass(frozen=True, slots=True)
class AtServer:
    """Context of an application command: where it acts and how it prints."""

    app: str
    config: Path | None = None
    db: str | None = None
    as_json: bool = False

    @property
    def me(self) -> str:
        """Return the actor of this command for events and the audit log."""
        return Actor(user_actor(my_login()), Origin.CLI)

    @contextmanager
    def installed(self) -> Iterator[Installed[Any]]:
        """Open the application on its database. An error inside the block becomes one line with its exit code."""
        from tidegate import server
        from tidegate.settings import load

        with plain_mistakes():
            apps, broken = server.there_are()
            loaded = load(file=self.config, flags={"db": self.db} if self.db else None, apps=apps, broken=broken)
            database.say_if_new(loaded.values.db)
            with server.assembled(loaded, [app for app in apps if app.name == self.app]) as assembled:
                if not assembled.apps:
                    raise CliError(
                        f"the application {self.app} is switched off; add it to apps in the settings",
                        Exit.CONFIGURATION,
                    )
                yield assembled.apps[0]

    def say(self, document: Any, *lines: str) -> None:
        """Print one JSON document, or lines for users without control characters."""
        database.say(document, self.as_json, lambda: list(lines))


def at_server(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --config, --db and --json. The command gets them as an `AtServer`, before its own parameters."""

    @click.pass_obj
    def run(at: AtServer, /, config: Path | None, db: str | None, as_json: bool, **own: Any) -> Any:
        return command(replace(at, config=config, db=db, as_json=as_json), **own)

    wrapped: Callable[..., Any] = update_wrapper(run, command)
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Parse a duration such as 30s or 5m to seconds."""
    if value is None:
        return None
    try:
        return seconds(float(value) if value.replace(".", "", 1).isdigit() else value, field="it")
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r} is not a duration; give seconds, or a text such as 30s, 5m, 1h30m or 2d", ctx, param
        ) from error
