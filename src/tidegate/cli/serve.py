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
from typing import TYPE_CHECKING

import click

from tidegate import process
from tidegate.cli.database import CONFIG_HELP, DB_HELP, CliError, plain_mistakes, say, shown_url
from tidegate.cli.exits import Exit
from tidegate.cli.options import load_settings, needs_models, needs_server
from tidegate.cli.root import Command
from tidegate.logs import write_log
from tidegate.settings.location import FILE, FILE_VARIABLE
from tidegate.validation import JsonObject

if TYPE_CHECKING:
    from tidegate.jobs.queue import Queue
    from tidegate.jobs.worker import WorkerStats


# -- serve -------------------------------------------------------------------------------------------------------------


@click.command(
    cls=Command,
    epilog="""
    tidegate serve
    tidegate serve --port 8400 --simulators
    tidegate serve --db postgresql://tidegate@db.lan/tidegate --no-work
    """,
)
@click.option("--config", "file", type=click.Path(path_type=Path, dir_okay=False), help=CONFIG_HELP)
@click.option("--db", "url", help=DB_HELP)
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 for a free one.  [default: 8321]")
@click.option("--simulators", is_flag=True, help="Let the applications call simulated services.")
@click.option("--json", "as_json", is_flag=True, help="Print the URL as one line of JSON when ready.")
@click.option("--no-work", is_flag=True, help="Run no jobs; workers run elsewhere.")
def serve(
    file: Path | None,
    url: str | None,
    host: str | None,
    port: int | None,
    simulators: bool,
    as_json: bool,
    no_work: bool,
) -> int:
    """Serve the page and the API, and run the jobs of the applications, until SIGTERM or SIGINT.

    It needs one SQLite file, which it creates. With a postgresql:// URL, you can run more workers on other
    machines: `tidegate worker`.
    """
    needs_server()
    from tidegate import __version__, server
    from tidegate.settings import load
    from tidegate.web.connections import PortTaken, listening_at

    process.trim_regularly()
    flags: JsonObject = {"db": url, "server.host": host, "server.port": port, "simulators": simulators or None}
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
                    "database": shown_url(values.db),
                    "applications": [app.app.name for app in assembled.apps],
                    "simulators": simulated,
                }
                # One line, because the caller may wait for it and parse it.
                click.echo(json.dumps(about)) if as_json else click.echo("\n".join(_lines(about)))

            server.serve(assembled, at, work=not no_work, ready=ready)
    return Exit.OK


def _lines(about: JsonObject) -> list[str]:
    return [
        f"Tidegate {about['version']} is running at {about['address']}",
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


@click.command(
    cls=Command,
    epilog="""
    tidegate worker
    tidegate worker --db postgresql://tidegate@db.lan/tidegate
    tidegate worker myapp.jobs:q --concurrency 50 --queues mail,reports
    """,
)
@click.argument("source", metavar="[MODULE[:QUEUE]]", required=False)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    help="Maximum number of concurrent jobs.  [default: 20, or that of the settings]",
)
@click.option("--queues", metavar="NAMES", help="Only these queues, separated by commas.")
@click.option("--json", "as_json", is_flag=True, help="Print the totals as one JSON document at the end.")
@click.option("--config", "file", type=click.Path(path_type=Path, dir_okay=False), help=CONFIG_HELP)
@click.option("--db", "url", help=DB_HELP)
def worker(
    source: str | None, concurrency: int | None, queues: str | None, as_json: bool, file: Path | None, url: str | None
) -> int:
    """Run the jobs that a module declares, or those of the installed applications, until SIGTERM or SIGINT.

    MODULE:QUEUE names the Queue, such as myapp.jobs:q. The module is enough if it has only one. Without a module,
    the settings name the applications and the database. Run as many workers as you like, with PostgreSQL on any
    number of hosts.

    After the first signal, running jobs may finish and the others are released. A second signal stops the worker
    immediately.
    """
    names = None if queues is None else {name.strip() for name in queues.split(",") if name.strip()}
    if names is not None and not names:
        raise click.UsageError(
            f"--queues: {queues!r} names no queue; give names such as mail,reports, or leave it out for all queues"
        )
    if source is not None and (file is not None or url is not None):
        option = "--config" if file is not None else "--db"
        raise click.UsageError(
            f"{option} is for applications, and {source} has its own database; leave one of them out"
        )
    process.trim_regularly()
    with plain_mistakes():
        if source is not None:
            tally = _work_for_module(source, concurrency, names)
        else:
            tally = _work_for_apps(file, url, concurrency, names)
    done = asdict(tally)
    say(
        done,
        as_json,
        lambda: [", ".join(f"{n} {what.replace('_', ' ')}" for what, n in done.items() if n) or "no jobs"],
    )
    return Exit.OK


def _work(queue: Queue, concurrency: int, names: AbstractSet[str] | None, **numbers: float) -> WorkerStats:
    with queue:
        queue.store.now()  # fail early if the database is unreachable
        shown = ", ".join(sorted(names or queue.queues()))
        click.echo(
            f"Running the jobs of {shown}, up to {concurrency} at the same time. Stop with SIGTERM or Ctrl-C.", err=True
        )
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


def _work_for_apps(
    file: Path | None, url: str | None, concurrency: int | None, names: AbstractSet[str] | None
) -> WorkerStats:
    needs_models()
    from tidegate import server
    from tidegate.settings import load

    apps, broken = server.there_are()
    loaded = load(file=file, flags={"db": url} if url else None, apps=apps, broken=broken)
    settings = loaded.values.worker
    write_log(loaded.values.log.level, loaded.values.log.format)
    with server.assembled(loaded, apps) as assembled:
        if not assembled.works:
            raise CliError("no installed application has jobs; name a module, such as myapp.jobs:q", Exit.CONFIGURATION)
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
        raise CliError(f"{source!r} is not the name of a module; give one such as myapp.jobs:q", Exit.USAGE)
    if os.getcwd() not in sys.path:  # noqa: PTH109 - as `python -m` does
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if f"{module_name}.".startswith(f"{error.name}."):
            raise CliError(
                f"the module {module_name!r} was not found; run this in the folder that contains it, or install it",
                Exit.CONFIGURATION,
            ) from error
        raise CliError(
            f"{module_name} imports the module {error.name!r}, which is not installed; install it", Exit.CONFIGURATION
        ) from error
    except Exception as error:
        raise CliError(
            f"{module_name} cannot be imported ({type(error).__name__}: {error}); fix the module", Exit.CONFIGURATION
        ) from error
    queues = {label: value for label, value in vars(module).items() if isinstance(value, Queue)}
    if name:
        if name not in queues:
            raise CliError(f"{module_name} has no Queue {name!r}; {_known(queues)}", Exit.CONFIGURATION)
        return queues[name]
    if len({id(value) for value in queues.values()}) != 1:
        how_many = "more than one Queue" if queues else "no Queue"
        raise CliError(f"{module_name} has {how_many}; {_known(queues)}", Exit.CONFIGURATION)
    return next(iter(queues.values()))


def _known(queues: dict[str, Queue]) -> str:
    return (
        f"name one of: {', '.join(sorted(queues))}" if queues else "define one, such as q = Queue('sqlite:///jobs.db')"
    )
