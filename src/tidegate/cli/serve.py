"""`tidegate serve`: page, API, workers and the enabled applications, in one process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tidegate.cli.at_store import CONFIG_HELP, CliError, plain_mistakes, shown_url
from tidegate.cli.configured import needs_server
from tidegate.cli.exits import Exit


@click.command()
@click.option("--config", "file", type=click.Path(path_type=Path, dir_okay=False), help=CONFIG_HELP)
@click.option("--url", help="The database: sqlite:///tidegate.db or postgresql://user@host/database.")
@click.option("--host", help="The address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 takes a free one.  [default: 8321]")
@click.option("--simulators", is_flag=True, help="Let the applications call simulated services.")
@click.option("--json", "as_json", is_flag=True, help="Print where it is as one line of JSON.")
@click.option("--no-work", is_flag=True, help="Serve only; workers run elsewhere.")
def serve(
    file: Path | None,
    url: str | None,
    host: str | None,
    port: int | None,
    simulators: bool,
    as_json: bool,
    no_work: bool,
) -> int:
    """Serves the page and the API, and works on the jobs of the applications, until SIGTERM or SIGINT.

    Everything it needs is one SQLite file, which it makes. With a postgresql:// URL, more workers may run on other
    machines: `tidegate worker`.
    """
    needs_server()
    from tidegate import __version__, assembly
    from tidegate.runtime import heaps
    from tidegate.runtime.log_lines import write_log
    from tidegate.settings import load
    from tidegate.web.serving import PortTaken, listening_at

    heaps.trim_regularly()
    flags: dict[str, Any] = {"url": url, "server.host": host, "server.port": port, "simulators": simulators or None}
    with plain_mistakes():
        apps, broken = assembly.there_are()
        given = {key: value for key, value in flags.items() if value is not None}
        loaded = load(file=file, flags=given, apps=apps, broken=broken)
        values = loaded.values
        write_log(values.log.level, values.log.format)
        with assembly.assembled(loaded, apps) as there:
            there.queue.store.now()  # a database that cannot be used is said at once
            try:
                assembly.check_reach(there)
                if there.works and not no_work:
                    assembly.worked_on(there)  # before anybody is told that it runs
                at = listening_at(values.server.host, values.server.port)
            except (assembly.NobodyYet, assembly.WrongQueues, PortTaken) as error:
                raise CliError(str(error), Exit.CONFIGURATION) from error

            def ready(address: str) -> None:
                simulated = {
                    name: {"address": simulator.url, "use": there.uses[name], "control": simulator.control_url}
                    for name, simulator in there.simulators.items()
                }
                about = {
                    "version": __version__, "address": address, "database": shown_url(values.url),
                    "applications": [app.app.name for app in there.apps], "simulators": simulated,
                }  # fmt: skip
                # In one line: whoever started it reads that, and goes on.
                click.echo(json.dumps(about)) if as_json else click.echo("\n".join(_lines(about)))

            assembly.serve(there, at, work=not no_work, ready=ready)
    return Exit.OK


def _lines(about: dict[str, Any]) -> list[str]:
    return [
        f"Tidegate {about['version']} is at {about['address']}",
        f"  database      {about['database']}",
        f"  applications  {', '.join(about['applications']) or 'none'}",
        *(line for name, each in about["simulators"].items() for line in _simulated(name, each)),
        "  stop with Ctrl-C",
    ]


def _simulated(name: str, about: dict[str, str]) -> Iterator[str]:
    yield f"  simulated     {name} at {about['address']}"
    if about["use"]:
        yield f"                {about['use']}"
    yield f"                controlled at {about['control']}"
