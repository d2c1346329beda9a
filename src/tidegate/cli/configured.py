"""The settings, as the verbs that show and check them want them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tidegate.cli.at_store import CONFIG_HELP, CliError
from tidegate.cli.exits import Exit

if TYPE_CHECKING:
    from tidegate.face.app import App
    from tidegate.settings import Loaded

F = TypeVar("F", bound=Callable[..., Any])


def config_option(command: F) -> F:
    """Adds --config: the settings file."""
    option = click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help=CONFIG_HELP)
    return option(command)


def installed() -> tuple[list[App[Any]], dict[str, str]]:
    """The applications that are there, and why those that cannot be used cannot."""
    needs_models()
    from tidegate.assembly import there_are

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
