"""`tidegate serve` and `tidegate worker`: the server, and workers without it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate import process
from tidegate.cli.database import CONFIG_HELP, CliError, plain_mistakes, say, shown_url
from tidegate.cli.exits import Exit
from tidegate.cli.options import load_settings, needs_models, needs_server
from tidegate.logs import write_log
from tidegate.settings.location import FILE, FILE_VARIABLE

if TYPE_CHECKING:
    from tidegate.jobs.queue import Queue
    from tidegate.jobs.worker import WorkerStats


# -- serve -------------------------------------------------------------------------------------------------------------


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
    from tidegate import __version__, server
    from tidegate.settings import load
    from tidegate.web.connections import PortTaken, listening_at

    process.trim_regularly()
    flags: dict[str, Any] = {"url": url, "server.host": host, "server.port": port, "simulators": simulators or None}
    with plain_mistakes():
        apps, broken = server.there_are()
        set_flags = {key: value for key, value in flags.items() if value is not None}
        loaded = load(file=file, flags=set_flags, apps=apps, broken=broken)
        values = loaded.values
        write_log(values.log.level, values.log.format)
        with server.assembled(loaded, apps) as assembled:
            assembled.queue.store.now()  # fail early if the database is unusable
            try:
                server.check_reach(assembled)
                if assembled.works and not no_work:
                    server.worked_on(assembled)  # before the server reports that it runs
                at = listening_at(values.server.host, values.server.port)
            except (server.NobodyYet, server.WrongQueues, PortTaken) as error:
                raise CliError(str(error), Exit.CONFIGURATION) from error

            def ready(address: str) -> None:
                simulated = {
                    name: {"address": simulator.url, "use": assembled.uses[name], "control": simulator.control_url}
                    for name, simulator in assembled.simulators.items()
                }
                about = {
                    "version": __version__,
                    "address": address,
                    "database": shown_url(values.url),
                    "applications": [app.app.name for app in assembled.apps],
                    "simulators": simulated,
                }
                # One line, because the caller may wait for it and parse it.
                click.echo(json.dumps(about)) if as_json else click.echo("\n".join(_lines(about)))

            server.serve(assembled, at, work=not no_work, ready=ready)
    return Exit.OK


def _lines(about: dict[str, Any]) -> list[str]:
    return [
        f"Tidegate {about['version']} is at {about['address']}",
        f"  database      {about['database']}",
        f"  applications  {', '.join(about['applications']) or 'none'}",
        *(line for name, simulator in about["simulators"].items() for line in _simulated(name, simulator)),
        "  stop with Ctrl-C",
    ]


def _simulated(name: str, about: dict[str, str]) -> Iterator[str]:
    yield f"  simulated     {name} at {about['address']}"
    if about["use"]:
        yield f"                {about['use']}"
    yield f"                controlled at {about['control']}"


_CONCURRENCY = 20


@click.command()
@click.argument("source", metavar="[MODULE[:QUEUE]]", required=False)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    help="Jobs at the same time.  [default: 20, or as the settings say]",
)
@click.option("--queues", metavar="NAMES", help="Only these queues, with commas between them.")
@click.option("--json", "as_json", is_flag=True, help="Print what it did as one JSON document when it ends.")
@click.option("--config", "file", type=click.Path(path_type=Path, dir_okay=False), help=CONFIG_HELP)
def worker(source: str | None, concurrency: int | None, queues: str | None, as_json: bool, file: Path | None) -> int:
    """Works on the jobs that a module declares, or on those of the installed applications, until SIGTERM or SIGINT.

    MODULE:QUEUE names the Queue, such as myapp.jobs:q; the module alone is enough when it has only one. Without it,
    the applications and the database are those of the settings. Run as many workers as you like, on PostgreSQL on as
    many hosts. Concurrency and grace time are those of the settings, too, where there are any.

    The first signal ends it gently: jobs under way may finish, the others are given back. A second one ends it at once.
    """
    names = None if queues is None else {name.strip() for name in queues.split(",") if name.strip()}
    if names is not None and not names:
        raise click.UsageError("--queues: it names no queue; give one such as mail, or leave it out for all")
    if source is not None and file is not None:
        raise click.UsageError("--config is for the applications; a module has its own database, so give one of them")
    process.trim_regularly()
    with plain_mistakes():
        if source is not None:
            tally = _work_for_module(source, concurrency, names)
        else:
            tally = _work_for_apps(file, concurrency, names)
    done = asdict(tally)
    say(
        done,
        as_json,
        lambda: [", ".join(f"{n} {what.replace('_', ' ')}" for what, n in done.items() if n) or "nothing"],
    )
    return Exit.OK


def _work(queue: Queue, concurrency: int, names: AbstractSet[str] | None, **numbers: float) -> WorkerStats:
    with queue:
        queue.store.now()  # fail early if the database is unreachable
        shown = ", ".join(sorted(names or queue.queues()))
        click.echo(f"working on {shown}, {concurrency} at a time; stop with SIGTERM or Ctrl-C", err=True)
        return queue.run_worker(concurrency, queues=names, **numbers)


def _work_for_module(source: str, concurrency: int | None, names: AbstractSet[str] | None) -> WorkerStats:
    """Run the worker of a module, which has its own database. Settings, if any, configure the worker."""
    if not _has_settings() or find_spec("pydantic") is None:
        write_log()
        return _work(queue_of(source), concurrency or _CONCURRENCY, names)
    loaded = load_settings(None)
    settings = loaded.values.worker
    write_log(loaded.values.log.level, loaded.values.log.format)
    return _work(queue_of(source), concurrency or settings.concurrency, names, grace=float(settings.grace))


def _has_settings() -> bool:
    named = any(name.startswith(("TIDEGATE_WORKER_", "TIDEGATE_LOG_")) for name in os.environ)
    return named or FILE_VARIABLE in os.environ or Path(FILE).is_file()


def _work_for_apps(file: Path | None, concurrency: int | None, names: AbstractSet[str] | None) -> WorkerStats:
    needs_models()
    from tidegate import server
    from tidegate.settings import load

    apps, broken = server.there_are()
    loaded = load(file=file, apps=apps, broken=broken)
    settings = loaded.values.worker
    write_log(loaded.values.log.level, loaded.values.log.format)
    with server.assembled(loaded, apps) as assembled:
        if not assembled.works:
            raise CliError(
                "no application that is installed has jobs; name a module, such as myapp.jobs:q", Exit.CONFIGURATION
            )
        try:
            wanted = server.worked_on(assembled) if names is None else names
        except server.WrongQueues as error:
            raise CliError(str(error), Exit.CONFIGURATION) from error
        return _work(assembled.queue, concurrency or settings.concurrency, wanted, grace=settings.grace)


def queue_of(source: str) -> Queue:
    """Return the queue that `module:name` names. Raises CliError if there is none."""
    from tidegate.jobs.queue import Queue

    module_name, _, name = source.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise CliError(f"{source!r} is no module; write it as myapp.jobs:q", Exit.USAGE)
    if os.getcwd() not in sys.path:  # noqa: PTH109 - as `python -m` does
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if f"{module_name}.".startswith(f"{error.name}."):
            raise CliError(f"there is no module {module_name!r}", Exit.CONFIGURATION) from error
        raise CliError(
            f"{module_name}: it needs the module {error.name!r}, which is not there", Exit.CONFIGURATION
        ) from error
    except Exception as error:
        raise CliError(
            f"{module_name}: it cannot be imported ({type(error).__name__}: {error})", Exit.CONFIGURATION
        ) from error
    queues = {label: value for label, value in vars(module).items() if isinstance(value, Queue)}
    if name:
        if name not in queues:
            raise CliError(f"{module_name} has no Queue called {name!r}{_known(queues)}", Exit.CONFIGURATION)
        return queues[name]
    if len({id(value) for value in queues.values()}) != 1:
        how_many = "more than one Queue" if queues else "no Queue"
        raise CliError(f"{module_name} has {how_many}{_known(queues)}", Exit.CONFIGURATION)
    return next(iter(queues.values()))


def _known(queues: dict[str, Queue]) -> str:
    return f"; it has: {', '.join(sorted(queues))}" if queues else ""
