"""`tidegate convert`: convert files from a terminal, pause uploads, and run the gateway by itself."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tidegate_apps.convert.gateway.command import gateway
from tidegate_apps.convert.mapping_names import MAPPING, is_mapping

SERVER = "http://127.0.0.1:8321"
_NEGATIVE = 1


class Unreachable(click.ClickException):
    exit_code = 4


class NotAuthorised(click.ClickException):
    exit_code = 5


class Refused(click.ClickException):
    exit_code = 6


@click.group()
def convert() -> None:
    """Turns PDF files into XML."""


convert.add_command(gateway)


def _server(required: bool) -> click.Option:
    default = SERVER if required else None
    return click.Option(
        ["--url"], default=default, show_default=required, envvar="TIDEGATE_SERVER",
        help="The address of a server." if required else "A server that does it; without one, it is done here.",
    )  # fmt: skip


def _token() -> click.Option:
    return click.Option(
        ["--token"], envvar="TIDEGATE_TOKEN", help="What to show to that server: `tidegate token create`."
    )


@convert.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
)
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), default=Path(), show_default="this folder",
    help="The folder for the XML files.",
)  # fmt: skip
@click.option("--mapping", default="text", show_default=True, help="How the XML looks: text or layout.")
@click.option("--force", is_flag=True, help="Write over XML files that are there.")
@click.option("--json", "as_json", is_flag=True, help="Print what became of each file as one JSON document.")
def run(
    files: tuple[Path, ...], output: Path, mapping: str, force: bool, as_json: bool, url: str | None, token: str | None
) -> int:
    """Converts FILES, and writes the XML of each into a folder.

    \b
    tidegate convert run *.pdf -o xml
    tidegate convert run big.pdf --mapping layout --url http://127.0.0.1:8321
    """  # noqa: D301 - the mark keeps the lines of an example apart
    from tidegate_apps.convert.by_server import server
    from tidegate_apps.convert.running import here, report

    if not is_mapping(mapping):
        raise click.UsageError(f"--mapping: give {MAPPING}")
    output.mkdir(parents=True, exist_ok=True)
    places = _places(files, output, force)
    with here() if url is None else server(url, token) as office:
        done = report(office, places, mapping, as_json)
    if as_json:
        click.echo(json.dumps([each.as_json() for each in done], indent=2))
    return 0 if all(each.ok for each in done) else _NEGATIVE


run.params.extend((_server(required=False), _token()))


def _places(files: tuple[Path, ...], folder: Path, force: bool) -> dict[Path, Path]:
    """Where the XML of each file goes; of two with the same name, the second one gets a number."""
    found: dict[Path, Path] = {}
    for file in files:
        stem, n = file.stem, 1
        while (place := folder / f"{stem}.xml") in found.values():
            n += 1
            stem = f"{file.stem}-{n}"
        if place.exists() and not force:
            raise click.UsageError(f"{place} is there already; choose another folder, or give --force")
        found[file] = place
    return found


@convert.group()
def uploads() -> None:
    """Stops taking files for a time, and takes them again."""


@uploads.command()
@click.argument("lasts", metavar="DURATION")
def pause(lasts: str, url: str, token: str | None) -> None:
    """Takes no file for a time, such as 30m or 2h."""
    from tidegate import Seconds
    from tidegate_apps.convert.by_server import server

    try:
        seconds = float(Seconds(lasts))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    with server(url, token) as there:
        there.asked("POST", "/api/convert/uploads/pause", json={"seconds": seconds})
    click.echo(f"no file is taken for {lasts}; end it sooner with: tidegate convert uploads resume")


@uploads.command()
def resume(url: str, token: str | None) -> None:
    """Takes files again."""
    from tidegate_apps.convert.by_server import server

    with server(url, token) as there:
        told = there.asked("POST", "/api/convert/uploads/resume")
    click.echo("files are taken again" if told.get("resumed") else "files were taken already")


for _command in (pause, resume):
    _command.params.extend((_server(required=True), _token()))
