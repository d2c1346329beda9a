"""What the commands of applications get: their application, installed on the database of the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli import at_store
from tidegate.cli.at_store import CONFIG_HELP, CliError, my_login, plain_mistakes
from tidegate.cli.exits import Exit
from tidegate.core.actor import Actor, Origin, user_actor

if TYPE_CHECKING:
    from tidegate.face.app import Installed

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
        from tidegate import assembly
        from tidegate.settings import load

        with plain_mistakes():
            apps, broken = assembly.there_are()
            loaded = load(file=self.config, flags={"url": self.url} if self.url else None, apps=apps, broken=broken)
            at_store.say_if_new(loaded.values.url)
            with assembly.assembled(loaded, [app for app in apps if app.name == self.app]) as there:
                if not there.apps:
                    raise CliError(
                        f"the application {self.app} is not to run; add it to apps in the settings", Exit.CONFIGURATION
                    )
                yield there.apps[0]

    def say(self, document: Any, *lines: str) -> None:
        """One JSON document, or lines for people without what a terminal would obey."""
        at_store.say(document, self.as_json, lambda: list(lines))


def at_server(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --config, --url and --json; the command gets them as an `AtServer`, before its own parameters."""

    @click.pass_obj
    def run(at: AtServer, /, config: Path | None, url: str | None, as_json: bool, **own: Any) -> Any:
        return command(replace(at, config=config, url=url, as_json=as_json), **own)

    made: Callable[..., Any] = update_wrapper(run, command)
    for option in reversed(_OPTIONS):
        made = option(made)
    return made
