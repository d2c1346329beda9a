"""`tidegate convert`: convert files, pause uploads, and run a standalone gateway."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import IO

import click

from tidegate.commands import AtServer, CliError, CommandGroup, Exit, at_server
from tidegate_apps.convert import service
from tidegate_apps.convert.mapping_names import MAPPING, is_mapping


@click.group(cls=CommandGroup, epilog="tidegate convert run *.pdf -o xml")
def convert() -> None:
    """Convert PDF files to XML."""


@convert.command(epilog="tidegate convert gateway --host 10.0.0.7 --port 8322")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=8322,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 for a free one.",
)
@click.option(
    "--at-a-time",
    type=click.IntRange(1, 256),
    help="Maximum number of concurrent conversions.  [default: one per core]",
)
@click.option(
    "--most-bytes",
    default=50 * 1024 * 1024,
    show_default="50 MB",
    type=click.IntRange(1024),
    help="Maximum size of a file; use the value of convert.most_bytes of the server.",
)
@click.option(
    "--timeout",
    default="3m",
    show_default=True,
    metavar="DURATION",
    help="Timeout of one conversion; use the value of convert.gateway_timeout of the server.",
)
@click.option(
    "--mappings", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder with your own mappings."
)
@click.option("--json", "as_json", is_flag=True, help="Print the URL as one line of JSON when ready.")
def gateway(
    host: str, port: int, at_a_time: int | None, most_bytes: int, timeout: str, mappings: Path | None, as_json: bool
) -> int:
    """Convert PDF files to XML over HTTP, until SIGTERM or SIGINT.

    It has no authentication. Keep it where only Tidegate reaches it, and set convert.gateway_url there.
    """
    from tidegate.web import PortTaken
    from tidegate_apps.convert.gateway import GatewayLimits, Mappings
    from tidegate_apps.convert.gateway.server import serve

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)

    try:
        known = Mappings(mappings)
    except ValueError as error:
        raise click.UsageError(f"--mappings: {error}") from error

    def ready(address: str) -> None:
        about = {"address": address, "mappings": known.names}
        lines = f"The gateway is running at {address}\n  mappings  {', '.join(known.names)}\n  stop with Ctrl-C"
        click.echo(json.dumps(about) if as_json else lines)

    limits = GatewayLimits.for_one_who_waits(_seconds(timeout, "--timeout: "), most_bytes)
    if at_a_time is not None:
        limits = replace(limits, conversions=at_a_time)
    try:
        serve(host, port, limits, known, ready=ready)
    except PortTaken as error:
        raise CliError(str(error), Exit.CONFIGURATION) from error
    return Exit.OK


@convert.command(
    epilog="""
    tidegate convert run *.pdf -o xml
    tidegate convert run big.pdf --mapping layout --server http://127.0.0.1:8321
    """
)
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    show_default="this folder",
    help="Folder for the XML files.",
)
@click.option("--mapping", default="text", show_default=True, help="Structure of the XML: text, layout, or your own.")
@click.option(
    "--mappings",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with your own mappings; only without --server.",
)
@click.option("--force", is_flag=True, help="Overwrite existing XML files.")
@click.option("--server", help="URL of a running server that converts. Without it, this process converts.")
@click.option("--token-file", type=click.File(), help="File with a token for that server; see `tidegate token create`.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with the outcome of each file.")
def run(
    files: tuple[Path, ...],
    output: Path,
    mapping: str,
    mappings: Path | None,
    force: bool,
    server: str | None,
    token_file: IO[str] | None,
    as_json: bool,
) -> int:
    """Convert FILES, and write the XML of each to a folder."""
    from tidegate_apps.convert.cli_run import here, remote, report

    if not is_mapping(mapping):
        raise click.UsageError(f"--mapping: {mapping!r} is not a valid name; give {MAPPING}")
    output.mkdir(parents=True, exist_ok=True)
    places = _places(files, output, force)
    token = "" if token_file is None else token_file.read().strip()
    with here(mapping, mappings) if server is None else remote(server, token) as office:
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
            raise click.UsageError(
                f"{place} already exists; choose another folder with --output, or overwrite it with --force"
            )
        places[file] = place
    return places


@convert.group(epilog="tidegate convert storage adopt")
def storage() -> None:
    """Manage the folder or bucket of the files."""


@storage.command(epilog="tidegate convert storage adopt")
@click.option("--yes", is_flag=True, help="Confirm that files of no job in this database are removed.")
@at_server
def adopt(at: AtServer, yes: bool) -> int:
    """Use the storage of the settings, although another one was used before."""
    from tidegate_apps.convert.jobs import count_unknown

    with at.installed() as app:
        unknown = count_unknown(app)
        if unknown and not yes:
            at.say(
                {"adopted": False, "unknown_files": unknown},
                f"{unknown} of its files belong to no job of this database and would be removed; confirm with --yes",
            )
            return Exit.REFUSED
        app.jobs.storage_id.adopt(at.me)
    at.say({"adopted": True, "unknown_files": unknown}, "The storage of the settings is used from now on.")
    return Exit.OK


@convert.group(epilog="tidegate convert uploads pause 30m")
def uploads() -> None:
    """Pause and resume uploads."""


@uploads.command(epilog="tidegate convert uploads pause 30m")
@click.argument("lasts", metavar="DURATION")
@at_server
def pause(at: AtServer, lasts: str) -> None:
    """Reject uploads for a time, such as 30m or 2h."""
    seconds = _seconds(lasts)
    if not service.SHORTEST <= seconds <= service.LONGEST:
        raise click.UsageError(f"{lasts!r} is out of range; give 1s to 30d")
    with at.installed() as there:
        service.pause(there, seconds, at.me)
    at.say({"paused": seconds}, f"Uploads are paused for {lasts}. Resume them with: tidegate convert uploads resume")


@uploads.command(epilog="tidegate convert uploads resume")
@at_server
def resume(at: AtServer) -> None:
    """Accept uploads again."""
    with at.installed() as there:
        ended = service.resume(there, at.me)
    at.say({"resumed": ended}, "Uploads are accepted again." if ended else "Uploads were not paused.")


def _seconds(lasts: str, field: str = "") -> float:
    from tidegate.guard import Seconds

    try:
        return float(Seconds(lasts))
    except ValueError as error:
        raise click.UsageError(f"{field}{error}") from error
