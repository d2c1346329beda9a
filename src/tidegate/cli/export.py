"""`tidegate export`: what Prometheus and Grafana need to watch a server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from tidegate.cli.at_store import CliError, say
from tidegate.cli.exits import Exit
from tidegate.cli.groups import CommandGroup


@click.group(cls=CommandGroup)
def export() -> None:
    """Writes rules for alerts and dashboards over the metrics of a server."""


_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@export.command()
@click.option("--page", default="http://127.0.0.1:8321", show_default=True, help="Where people reach the server.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The file to write, instead of standard output.")
@_AS_JSON
def alerts(page: str, out: Path | None, as_json: bool) -> int:
    """Writes the rules for alerts, as Prometheus loads them (rule_files)."""
    from tidegate.ops.monitoring.alerts import document, rules_file

    if not page.startswith(("http://", "https://")):
        raise CliError(f"--page: {page!r} is no address; give one such as https://tidegate.example.org", Exit.USAGE)
    if out is not None:
        _write({out: rules_file(page)}, as_json)
    else:
        say(document(page), as_json, lambda: rules_file(page).splitlines())
    return Exit.OK


@export.command()
@click.argument("name", required=False)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The folder to write all dashboards to.")
@_AS_JSON
def grafana(name: str | None, out: Path | None, as_json: bool) -> int:
    """Writes a dashboard for Grafana: targets, queues or workers; with --out, all of them or the one that is named."""
    from tidegate.ops.monitoring.dashboards import BOARDS, as_text, board

    if name is not None and name not in BOARDS:
        raise CliError(f"there is no dashboard {name!r}; there are: {', '.join(BOARDS)}", Exit.USAGE)
    if out is not None:
        _write({out / f"tidegate-{each}.json": as_text(each) for each in ([name] if name else BOARDS)}, as_json)
    elif name is None:
        raise CliError(f"say which dashboard ({', '.join(BOARDS)}), or give a folder with --out", Exit.USAGE)
    else:
        say(board(name), as_json, lambda: as_text(name).splitlines())
    return Exit.OK


def _write(texts: Mapping[Path, str], as_json: bool) -> None:
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CliError(f"{path} cannot be written: {error.strerror}", Exit.NEGATIVE) from error
    say({"files": [str(path) for path in texts]}, as_json, lambda: [f"wrote {path}" for path in texts])
