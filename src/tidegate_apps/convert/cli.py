"""`tidegate convert`: convert files, pause uploads, and run a standalone gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO

import click

from tidegate.commands import AtServer, Exit, at_server
from tidegate_apps.convert import service
from tidegate_apps.convert.gateway.server import gateway
from tidegate_apps.convert.mapping_names import MAPPING, is_mapping


@click.group()
def convert() -> None:
    """Turns PDF files into XML."""


convert.add_command(gateway)


@convert.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    show_default="this folder",
    help="The folder for the XML files.",
)
@click.option("--mapping", default="text", show_default=True, help="How the XML looks: text, layout, or one of yours.")
@click.option(
    "--mappings",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with more mappings, if it is done here.",
)
@click.option("--force", is_flag=True, help="Write over XML files that are there.")
@click.option("--url", help="The address of a server that does it; without one, it is done here.")
@click.option("--token-file", type=click.File(), help="A file with the token for that server: `tidegate token create`.")
@click.option("--json", "as_json", is_flag=True, help="Print what became of each file as one JSON document.")
def run(
    files: tuple[Path, ...],
    output: Path,
    mapping: str,
    mappings: Path | None,
    force: bool,
    url: str | None,
    token_file: IO[str] | None,
    as_json: bool,
) -> int:
    """Converts FILES, and writes the XML of each into a folder.

    \b
    tidegate convert run *.pdf -o xml
    tidegate convert run big.pdf --mapping layout --url http://127.0.0.1:8321
    """  # noqa: D301 - the mark keeps the lines of an example apart
    from tidegate_apps.convert.cli_run import here, report, server

    if not is_mapping(mapping):
        raise click.UsageError(f"--mapping: give {MAPPING}")
    output.mkdir(parents=True, exist_ok=True)
    places = _places(files, output, force)
    token = "" if token_file is None else token_file.read().strip()
    with here(mapping, mappings) if url is None else server(url, token) as office:
        done = report(office, places, mapping, as_json)
    if as_json:
        click.echo(json.dumps([outcome.as_json() for outcome in done], indent=2))
    return Exit.OK if all(outcome.ok for outcome in done) else Exit.NEGATIVE


def _places(files: tuple[Path, ...], folder: Path, force: bool) -> dict[Path, Path]:
    """Return the output path of each file. A second file of the same name gets a number."""
    places: dict[Path, Path] = {}
    for file in files:
        stem, n = file.stem, 1
        while (place := folder / f"{stem}.xml") in places.values():
            n += 1
            stem = f"{file.stem}-{n}"
        if place.exists() and not force:
            raise click.UsageError(f"{place} is there already; choose another folder, or give --force")
        places[file] = place
    return places


@convert.group()
def storage() -> None:
    """Where the files are kept."""


@storage.command()
@at_server
def adopt(at: AtServer) -> None:
    """Says that the storage of the settings is the right one, although it is not the one that was used before."""
    with at.installed() as there:
        there.jobs.storage_id.adopt(at.me)
    at.say({"adopted": True}, "the storage of the settings is used from now on")


@convert.group()
def uploads() -> None:
    """Stops taking files for a time, and takes them again."""


@uploads.command()
@click.argument("lasts", metavar="DURATION")
@at_server
def pause(at: AtServer, lasts: str) -> None:
    """Takes no file for a time, such as 30m or 2h."""
    from tidegate.guard import Seconds

    try:
        seconds = float(Seconds(lasts))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not service.SHORTEST <= seconds <= service.LONGEST:
        raise click.UsageError(f"{lasts} is not allowed; give 1s to 30d")
    with at.installed() as there:
        service.pause(there, seconds, at.me)
    at.say({"paused": seconds}, f"no file is taken for {lasts}; end it sooner with: tidegate convert uploads resume")


@uploads.command()
@at_server
def resume(at: AtServer) -> None:
    """Takes files again."""
    with at.installed() as there:
        ended = service.resume(there, at.me)
    at.say({"resumed": ended}, "files are taken again" if ended else "files were taken already")
