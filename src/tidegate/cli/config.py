"""`tidegate config` and `tidegate init`: effective settings with their origin, and a new settings file."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from tidegate.cli import output
from tidegate.cli.database import CliError, many, plain_mistakes, say, table
from tidegate.cli.exits import Exit
from tidegate.cli.options import config_option, installed, load_settings
from tidegate.cli.root import Command, CommandGroup, uses_colour
from tidegate.validation import similar

if TYPE_CHECKING:
    from tidegate.settings import Effective, SettingsError

_HEAD = ("KEY", "VALUE", "FROM")


class ShowUnlessSaid(CommandGroup):
    """`tidegate config KEY` means `tidegate config show KEY`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=ShowUnlessSaid,
    subcommand_metavar="[KEY | check]",
    epilog="""
    tidegate config
    tidegate config server
    tidegate config server.port
    tidegate config check
    """,
)
def config() -> None:
    """Show every setting and its source: a flag, a variable, the file or the default.

    Name a section to show it, or one key to show everything about it.
    """


@config.command(epilog="tidegate config show server")
@click.argument("key", required=False)
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def show(key: str | None, config: Path | None, as_json: bool) -> int:
    """Show all settings, one section, or one key. Secrets are masked."""
    with plain_mistakes():
        loaded = load_settings(config)
    every = loaded.effective()
    settings = [setting for setting in every if key is None or setting.key == key or setting.key.startswith(f"{key}.")]
    if not settings and key is not None:
        raise CliError(f"unknown key {key!r}{_suggestion(key, every)}", Exit.NOT_FOUND)
    is_single = len(settings) == 1 and settings[0].key == key
    if as_json:
        say(settings[0].as_json() if is_single else [setting.as_json() for setting in settings], as_json, list)
    elif is_single:
        say(None, False, lambda: _about(settings[0], loaded.file))
    else:
        _print(settings)
    return Exit.OK


@config.command(epilog="tidegate config check")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def check(config: Path | None, as_json: bool) -> int:
    """Check the settings, and list every error. Exit code 3: there is one."""
    from tidegate.settings.location import SettingsError

    try:
        loaded = load_settings(config)
    except SettingsError as error:
        return _refused(error, as_json)
    origins = Counter(setting.origin for setting in loaded.effective() if setting.origin != "default")
    say(
        {"ok": True, "file": loaded.file, "apps": loaded.apps, "given": origins, "problems": []},
        as_json,
        lambda: [f"The settings are valid: {_summary(origins)}."],
    )
    return Exit.OK


def _summary(origins: Counter[str]) -> str:
    if not origins:
        return "all values are defaults"
    return f"{many(origins.total(), 'value')} set, by {', '.join(f'{name} ({n})' for name, n in origins.items())}"


def _refused(error: SettingsError, as_json: bool) -> int:
    problems = [{"where": problem.where, "what": problem.what} for problem in error.problems]
    say({"ok": False, "problems": problems}, as_json, lambda: [str(problem) for problem in error.problems])
    return Exit.CONFIGURATION


def _suggestion(key: str, every: list[Effective]) -> str:
    names = {setting.key for setting in every} | {setting.key.rpartition(".")[0] for setting in every} - {""}
    ends = {name.rpartition(".")[2]: name for name in names}
    close = similar(key, [*names, *config.commands]) or ends.get(similar(key, ends) or "")
    return f"; did you mean {close!r}?" if close else "; list all keys with: tidegate config"


def _about(setting: Effective, file: Path | None) -> list[str]:
    section, _, name = setting.key.rpartition(".")
    place = f"{name} in [{section}]" if section else name
    by = [f"{place} of {file or 'tidegate.toml'}", *([setting.variable] if setting.variable else [])]
    return [
        f"{setting.key} = {setting.value}",
        *([f"  {setting.about}"] if setting.about else []),
        f"  from    {setting.origin}",
        f"  set by  {', or '.join(by)}",
    ]


def _print(settings: list[Effective]) -> None:
    rows = [(setting.key, setting.value, setting.origin) for setting in settings]
    if not (output.is_terminal() and uses_colour() is None and _print_rich(rows)):
        for line in table(rows, _HEAD):
            click.echo(line)


def _print_rich(rows: list[tuple[str, str, str]]) -> bool:
    """Print with rich and highlight what is set. Return False if rich is not installed."""
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ModuleNotFoundError:
        return False
    drawn = Table(*_HEAD, box=box.SIMPLE_HEAD, pad_edge=False)
    for name, value, source in rows:
        style = "dim" if source == "default" else ""
        drawn.add_row(*(Text(cell, style) for cell in (name, value, source)))
    Console(file=sys.stdout, highlight=False).print(drawn)
    return True


# -- init --------------------------------------------------------------------------------------------------------------

_PRIVATE = 0o600  # users may add secrets


@click.command(
    cls=Command,
    epilog="""
    tidegate init
    tidegate init /etc/tidegate
    """,
)
@click.argument("path", type=click.Path(path_type=Path), required=False, default=Path("tidegate.toml"))
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def init(path: Path, force: bool, as_json: bool) -> int:
    """Write a settings file with every key, its description and its default, commented out.

    PATH is ./tidegate.toml by default. If it is a folder, the file is tidegate.toml in it.
    """
    from tidegate.settings.location import FILE

    path = path / FILE if path.is_dir() else path
    apps, broken = installed()
    from tidegate.settings import sample

    with plain_mistakes():
        text = sample(apps)
    _write(path, text, force=force)
    for name, reason in broken.items():
        click.echo(f"tidegate: left out the application {name!r}, which cannot be used: {reason}", err=True)
    where = "" if path == Path(FILE) else f" --config {quote(str(path))}"
    steps = [f"tidegate {verb}{where}" for verb in ("config", "serve", "doctor")]
    say({"file": str(path), "next": steps}, as_json, lambda: _lines(path, steps))
    return Exit.OK


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        with open(path, "w" if force else "x", encoding="utf-8", opener=_private) as file:
            file.write(text)
    except FileExistsError as error:
        raise CliError(
            f"{path} already exists; overwrite it with --force, or give another path", Exit.REFUSED
        ) from error
    except OSError as error:
        raise CliError(
            f"{path} cannot be written ({(error.strerror or '').lower()}); give a path that you can write to",
            Exit.CONFIGURATION,
        ) from error


def _private(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, _PRIVATE)
    with contextlib.suppress(OSError):  # the file existed, or the file system has no modes
        os.chmod(path, _PRIVATE)  # noqa: PTH101 - an opener has no Path
    return descriptor


def _lines(path: Path, steps: list[str]) -> list[str]:
    purposes = ("show every setting", "start the page, the API and a worker", "check the installation")
    width = max(map(len, steps))
    return [
        f"Wrote {path}. Every line is a default. To change one, remove its # and edit it.",
        "",
        "Next:",
        *(f"  {step:<{width}}  {what}" for step, what in zip(steps, purposes, strict=True)),
    ]
