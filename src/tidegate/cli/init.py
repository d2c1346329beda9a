"""`tidegate init`: a settings file to start from."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from shlex import quote

import click

from tidegate.cli.at_store import CliError, plain_mistakes, say
from tidegate.cli.configured import installed
from tidegate.cli.exits import Exit

_PRIVATE = 0o600  # secrets may come to stand in it


@click.command()
@click.argument("path", type=click.Path(path_type=Path), required=False, default=Path("tidegate.toml"))
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def init(path: Path, force: bool, as_json: bool) -> int:
    """Writes a settings file with every key in it: what it is for, and its default, commented out.

    PATH is ./tidegate.toml if it is not given; of a folder, it is the tidegate.toml in it.
    """
    from tidegate.settings.place import FILE

    path = path / FILE if path.is_dir() else path
    apps, broken = installed()
    from tidegate.settings import sample

    with plain_mistakes():
        text = sample(apps)
    _write(path, text, force=force)
    for name, why in broken.items():
        click.echo(f"tidegate: the application {name!r} is left out, it cannot be used: {why}", err=True)
    where = "" if path == Path(FILE) else f" --config {quote(str(path))}"
    steps = [f"tidegate {verb}{where}" for verb in ("config", "serve", "doctor")]
    say({"file": str(path), "next": steps}, as_json, lambda: _lines(path, steps))
    return Exit.OK


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        with open(path, "w" if force else "x", encoding="utf-8", opener=_private) as file:
            file.write(text)
    except FileExistsError as error:
        raise CliError(f"{path} is there already; --force writes over it", Exit.REFUSED) from error
    except OSError as error:
        raise CliError(f"{path} cannot be written ({(error.strerror or '').lower()})", Exit.CONFIGURATION) from error


def _private(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, _PRIVATE)
    with contextlib.suppress(OSError):  # a file that was there, or a disk without modes
        os.chmod(path, _PRIVATE)  # noqa: PTH101 - an opener has no Path
    return descriptor


def _lines(path: Path, steps: list[str]) -> list[str]:
    says = ("shows what counts", "starts page, API and workers", "checks that all is well")
    width = max(map(len, steps))
    return [
        f"Wrote {path}. Every line in it is a default; take the # away before those that you change.",
        "",
        "Next:",
        *(f"  {step:<{width}}  {what}" for step, what in zip(steps, says, strict=True)),
    ]
