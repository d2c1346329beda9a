"""What the commands of applications get: their application, installed on the database of the settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.cli.at_store import Stopped, my_login, plain_mistakes
from tidegate.cli.exits import Exit
from tidegate.core.actor import Actor, Origin

if TYPE_CHECKING:
    from tidegate.face.app import Installed


class AtServer:
    """`ctx.obj` of an application's command.

        @click.pass_obj
        def cities(at_server):
            with at_server(config=None, url=None) as there: ...

    A mistake inside the block becomes one line with its exit code, as everywhere.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def me(self) -> str:
        """Who acts at this command line, as events and the page Activity name them."""
        return Actor(my_login(), Origin.CLI)

    @contextmanager
    def __call__(self, *, config: Path | None = None, url: str | None = None) -> Iterator[Installed[Any]]:
        """*config* and *url* instead of the usual settings file, and of the database that it names."""
        from tidegate import assembly
        from tidegate.settings import load

        with plain_mistakes():
            apps, broken = assembly.there_are()
            loaded = load(file=config, flags={"url": url} if url else None, apps=apps, broken=broken)
            with assembly.assembled(loaded, [app for app in apps if app.name == self._name]) as there:
                if not there.apps:
                    raise Stopped(
                        f"the application {self._name} is not to run; add it to apps in the settings",
                        Exit.CONFIGURATION,
                    )
                yield there.apps[0]
