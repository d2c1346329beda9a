"""What the commands of applications get: their application, installed on the database of the settings."""

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
from tidegate.cli.database import CONFIG_HELP, CliError, my_login, plain_mistakes
from tidegate.cli.exits import Exit
from tidegate.durations import seconds

if TYPE_CHECKING:
    from tidegate.apps import App, Installed
    from tidegate.settings import Loaded


# The settings, as the verbs that show and check them want them.

F = TypeVar("F", bound=Callable[..., Any])


def config_option(command: F) -> F:
    """Adds --config: the settings file."""
    option = click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help=CONFIG_HELP)
    return option(command)


def installed() -> tuple[list[App[Any]], dict[str, str]]:
    """The applications that are there, and why those that cannot be used cannot."""
    needs_models()
    from tidegate.server import there_are

    return there_are()


def load_settings(file: Path | None) -> Loaded:
    """The settings of the server and of every application; SettingsError has all that is wrong with them."""
    apps, broken = installed()
    from tidegate.settings import load

    return load(file=file, apps=apps, broken=broken)


def needs_server() -> None:
    """Stopped with one line when a package that serves the page is not there."""
    needs_models()
    if not all(map(find_spec, ("fastapi", "uvicorn"))):
        raise CliError(
            "the server needs more packages; install them with: pip install 'tidegate[server]'", Exit.CONFIGURATION
        )


def needs_models() -> None:
    """Stopped with one line when the package for settings is not there."""
    try:
        import pydantic  # noqa: F401 - is it there?
    except ModuleNotFoundError as error:
        raise CliError(
            "the settings need one more package; install it with: pip install 'tidegate[server]'", Exit.CONFIGURATION
        ) from error


_OPTIONS = (
    click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help=CONFIG_HELP),
    click.option("--url", help="The database, if not that of the settings."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
)


@dataclass(frozen=True, slots=True)
class AtServer:
    """Where the command of an application acts, and how it speaks."""

    app: str
    config: Path | None = None
    url: str | None = None
    as_json: bool = False

    @property
    def me(self) -> str:
        """Who acts at this command line, as events and the page Activity name them."""
        return Actor(user_actor(my_login()), Origin.CLI)

    @contextmanager
    def installed(self) -> Iterator[Installed[Any]]:
        """The application on its database. A mistake inside the block becomes one line with its exit code."""
        from tidegate import server
        from tidegate.settings import load

        with plain_mistakes():
            apps, broken = server.there_are()
            loaded = load(file=self.config, flags={"url": self.url} if self.url else None, apps=apps, broken=broken)
            database.say_if_new(loaded.values.url)
            with server.assembled(loaded, [app for app in apps if app.name == self.app]) as there:
                if not there.apps:
                    raise CliError(
                        f"the application {self.app} is not to run; add it to apps in the settings", Exit.CONFIGURATION
                    )
                yield there.apps[0]

    def say(self, document: Any, *lines: str) -> None:
        """One JSON document, or lines for people without what a terminal would obey."""
        database.say(document, self.as_json, lambda: list(lines))


def at_server(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --config, --url and --json; the command gets them as an `AtServer`, before its own parameters."""

    @click.pass_obj
    def run(at: AtServer, /, config: Path | None, url: str | None, as_json: bool, **own: Any) -> Any:
        return command(replace(at, config=config, url=url, as_json=as_json), **own)

    made: Callable[..., Any] = update_wrapper(run, command)
    for option in reversed(_OPTIONS):
        made = option(made)
    return made


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Seconds, of a text such as 30s or 5m."""
    if value is None:
        return None
    try:
        return seconds(float(value) if value.replace(".", "", 1).isdigit() else value, field="it")
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r} is no time; give a number of seconds, or 30s, 5m, 1h30m, 2d", ctx, param
        ) from error
