"""`tidegate worker`: works on the jobs of a program, until it is told to stop."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING

import click

from tidegate.cli.at_store import Stopped, plain_mistakes, say
from tidegate.cli.exits import Exit

if TYPE_CHECKING:
    from tidegate.face.queue import Queue


@click.command()
@click.argument("source", metavar="MODULE[:QUEUE]")
@click.option(
    "--concurrency", default=20, show_default=True, type=click.IntRange(1, 10_000), help="Jobs at the same time."
)
@click.option("--queues", metavar="NAMES", help="Only these queues, with commas between them.")
@click.option("--json", "as_json", is_flag=True, help="Print what it did as one JSON document when it ends.")
def worker(source: str, concurrency: int, queues: str | None, as_json: bool) -> int:
    """Works on the jobs that a module declares, until SIGTERM or SIGINT.

    MODULE:QUEUE names the Queue, such as myapp.jobs:q; the module alone is enough when it has only one. Run as many
    workers as you like, on PostgreSQL on as many hosts.

    The first signal ends it gently: jobs under way may finish, the others are given back. A second one ends it at once.
    """
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    queue = queue_of(source)
    names = None if queues is None else {name.strip() for name in queues.split(",") if name.strip()}
    with plain_mistakes():
        queue.store.now()  # a database that cannot be reached is said at once
        shown = ", ".join(sorted(names or queue.queues()))
        click.echo(f"working on {shown}, {concurrency} at a time; stop with SIGTERM or Ctrl-C", err=True)
        tally = queue.run_worker(concurrency, queues=names)
    queue.close()
    done = asdict(tally)
    say(
        done,
        as_json,
        lambda: [", ".join(f"{n} {what.replace('_', ' ')}" for what, n in done.items() if n) or "nothing"],
    )
    return Exit.OK


def queue_of(source: str) -> Queue:
    """The queue that `module:name` means; Stopped with one line when there is none."""
    from tidegate.face.queue import Queue

    module_name, _, name = source.partition(":")
    if os.getcwd() not in sys.path:  # noqa: PTH109 - as `python -m` does
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise Stopped(f"there is no module {module_name!r}", Exit.CONFIGURATION) from error
        raise Stopped(
            f"{module_name}: it needs the module {error.name!r}, which is not there", Exit.CONFIGURATION
        ) from error
    except (ValueError, TypeError) as error:
        raise Stopped(f"{source!r} is no module; write it as myapp.jobs:q", Exit.USAGE) from error
    except Exception as error:
        raise Stopped(
            f"{module_name}: it cannot be imported ({type(error).__name__}: {error})", Exit.CONFIGURATION
        ) from error
    found = {label: value for label, value in vars(module).items() if isinstance(value, Queue)}
    if name:
        if name not in found:
            raise Stopped(f"{module_name} has no Queue called {name!r}{_known(found)}", Exit.CONFIGURATION)
        return found[name]
    if len({id(value) for value in found.values()}) != 1:
        how_many = "more than one Queue" if found else "no Queue"
        raise Stopped(f"{module_name} has {how_many}{_known(found)}", Exit.CONFIGURATION)
    return next(iter(found.values()))


def _known(found: dict[str, Queue]) -> str:
    return f"; it has: {', '.join(sorted(found))}" if found else ""
