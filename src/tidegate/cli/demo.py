"""`tidegate demo`: all applications on simulated services, with a story, in a temporary directory."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli.database import CliError, plain_mistakes
from tidegate.cli.exits import Exit
from tidegate.cli.root import Command

if TYPE_CHECKING:
    from tidegate.apps import App
    from tidegate.settings import Loaded
    from tidegate_demo.player import DemoRunner


# -- temporary directory -----------------------------------------------------------------------------------------------

_REMOVE_TIMEOUT = 10  # seconds
# It retries: a killed process may have written a file just before.
_REMOVE = """
import pathlib, shutil, sys, time
sys.stdin.buffer.read()
for _ in range(40):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not pathlib.Path(sys.argv[1]).exists():
        break
    time.sleep(0.25)
"""


@contextlib.contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """Yield a temporary directory and remove it at the end.

    After a second Ctrl-C or a kill, this process cannot do that. So a child process waits for its end and removes it.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        with _removal_child(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _removal_child(folder: Path) -> Iterator[None]:
    """Start the child that removes the directory when its stdin closes, which is when this process ends.

    It runs in its own session, so that a signal to this process group does not end it.
    """
    quiet = subprocess.DEVNULL
    waiting = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", "-S", "-c", _REMOVE, str(folder)],
        stdin=subprocess.PIPE,
        stdout=quiet,
        stderr=quiet,
        start_new_session=True,
        cwd="/",
    )
    try:
        yield
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):  # the child continues after this process
            waiting.communicate(timeout=_REMOVE_TIMEOUT)


_PACKAGE = "tidegate_demo"
_NEEDED = ("convert", "feeds", "music", "lidarr", "tautulli")
_HOST = "127.0.0.1"
_PREFIX = "tidegate-demo-"


@click.command(
    cls=Command,
    epilog="""
    tidegate demo
    tidegate demo --port 8400 --story off
    """,
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8321,
    show_default=True,
    help="Port to listen on; 0 for a free one.",
)
@click.option(
    "--story", type=click.Choice(["on", "off"]), default="on", show_default=True, help="off: only the buttons."
)
@click.option("--speed", type=click.FloatRange(0.1, 20), default=1.0, show_default=True, help="Speed of the story.")
@click.option("--keep", is_flag=True, help="Keep the folder with the database, and print its path.")
@click.option("--json", "as_json", is_flag=True, help="Print the URL as one line of JSON when ready.")
def demo(port: int, story: str, speed: float, keep: bool, as_json: bool) -> int:
    """Show a demo: all applications, while their simulated services fail.

    Open the URL that it prints. A story of three minutes breaks one service after the other, and every page
    explains what happens. Then break something yourself. Ctrl-C ends the demo and removes its files.
    """
    _check_installed()
    from tidegate_demo.player import DemoRunner, StoryPlayer
    from tidegate_demo.stage import DemoEnvironment, Services
    from tidegate_demo.story import STORY

    theatre = DemoRunner(DemoEnvironment(Services()), StoryPlayer(STORY, speed=speed, on=story == "on"))
    with plain_mistakes(), _exit_on_sigterm(), _directory(keep, as_json=as_json) as folder:
        _serve(theatre, folder, port, as_json=as_json)
    return Exit.OK


def _check_installed() -> None:
    """Check before the imports that all applications are installed."""
    from tidegate.apps import known

    missing = [name for name in _NEEDED if name not in known()]
    if missing:
        needs = f"the demo needs {', '.join(missing)}, which cannot be used here; run: pip install 'tidegate[all]'"
        raise CliError(needs, Exit.CONFIGURATION)


def _serve(runner: DemoRunner, folder: Path, port: int, *, as_json: bool) -> None:
    from tidegate import server
    from tidegate.logs import write_log
    from tidegate.web.connections import PortTaken, listening_at
    from tidegate_demo.app import HOME
    from tidegate_demo.stage import VISITOR

    loaded, apps = settled(runner, folder, port)
    write_log(loaded.values.log.level, loaded.values.log.format)
    try:
        at = listening_at(_HOST, port)
    except PortTaken as error:
        raise CliError(str(error), Exit.CONFIGURATION) from error
    with at, server.assembled(loaded, apps, simulators=True) as assembled:
        assembled.visitor = VISITOR
        try:
            runner.open(assembled.apps)
            server.serve(assembled, at, ready=lambda address: _say(f"{address}{HOME}", folder, as_json=as_json))
        finally:
            runner.close()


def settled(runner: DemoRunner, folder: Path, port: int) -> tuple[Loaded, list[App[Any]]]:
    """Write the settings of the demo to *folder*. Return them with the applications, the demo included."""
    from tidegate import server
    from tidegate.settings import load
    from tidegate_demo.app import demo

    installed_apps, broken = server.there_are()
    apps = [demo(runner), *runner.environment.services.under(installed_apps)]
    settings = folder / "tidegate.toml"
    settings.write_bytes((files(_PACKAGE) / "tidegate.toml").read_bytes())
    flags: dict[str, object] = {
        "db": f"sqlite:///{folder / 'tidegate.db'}",
        "secret_key_file": str(folder / "tidegate.key"),
        "convert.storage": str(folder / "files"),
        "server.host": _HOST,
        "server.port": port,
    }
    return load(file=settings, flags=flags, environ={}, apps=apps, broken=broken), apps


def _say(address: str, folder: Path, *, as_json: bool) -> None:
    lines = (
        "The demo of Tidegate is running on simulated services.",
        f"  open     {address}",
        f"  data     {folder}",
        "  stop with Ctrl-C",
    )
    click.echo(json.dumps({"address": address, "folder": str(folder)}) if as_json else "\n".join(lines))


@contextlib.contextmanager
def _directory(keep: bool, *, as_json: bool) -> Iterator[Path]:
    """Yield a temporary directory, removed at the end, or the one to keep."""
    if not keep:
        with scratch(_PREFIX) as folder:
            yield folder
        return
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        yield folder
    finally:
        click.echo(f"The database, the files and the settings are in {folder}", err=as_json)


@contextlib.contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Until the server handles SIGTERM, let it exit normally, so that the directory is removed."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(Exit.INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
