"""What is done to jobs: to those that are named, each for itself, or to all that match a filter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import click

from tidegate.cli.at_store import NUMBER, by_option, command_at_store, many, say, store_at
from tidegate.cli.exits import Exit
from tidegate.cli.long_work import long_work
from tidegate.cli.numbers import duration
from tidegate.errors import NotFound, Rejected, UniqueTaken
from tidegate.ops import bulk
from tidegate.ops.bulk import BulkOutcome
from tidegate.ops.listing import STATES, Count, Filter
from tidegate.store.bulk_rows import RUNNING
from tidegate.store.tx import Store, Tx

_MAX_NAMED = 20  # ids that are written out for people

FILTERS = (
    click.option("--state", type=click.Choice(STATES), metavar="STATE", callback=lambda ctx, param, value: value or "",
                 help=f"In this state: {', '.join(STATES)}."),
    click.option("--queue", default="", help="Of this queue."),
    click.option("--kind", default="", help="Of this kind."),
    click.option("--target", default="", help="Of this target."),
    click.option("--code", default="", help="Whose last failure has this code."),
    click.option("--older", metavar="TIME", callback=duration, help="Made at least so long ago, such as 1h."),
    click.option("--younger", metavar="TIME", callback=duration, help="Made at most so long ago, such as 1d."),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """What is done, and how it is told."""

    name: str  # one of ops.bulk.ACTIONS
    one: Callable[[Tx, int, str], Any]  # to one job, by whom
    which: str  # the jobs that are meant by a filter
    doing: str
    done: str


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that say which jobs are meant."""
    for option in reversed(FILTERS):
        command = option(command)
    return command


def action_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the ids, the filters, --expect, --by and where the database is."""
    expect = click.option("--expect", type=click.IntRange(0), help="Do it to all that match, if they are so many.")
    ids = click.argument("ids", type=NUMBER, nargs=-1, metavar="[ID]...")
    return ids(filter_options(expect(by_option(command_at_store(command)))))


def act(
    verb: Verb,
    *,
    ids: tuple[int, ...],
    expect: int | None,
    by: str,
    url: str,
    driver: str | None,
    as_json: bool,
    **which: Any,
) -> int:
    """Does it, and returns the exit code."""
    wanted = Filter(**which)
    chosen = wanted != Filter()
    if ids and (chosen or expect is not None):
        raise click.UsageError("give ids, or a filter with --expect, not both")
    if not ids and not chosen:
        raise click.UsageError("give the ids of jobs, or a filter such as --queue or --code")
    if wanted.state:
        verb = replace(verb, which=f"{wanted.state} job")
    with store_at(url, driver) as store:
        if ids:
            return _each(store, verb, ids, by, as_json)
        if expect is None:
            return _counted(verb, store.read(lambda tx: bulk.preview(tx, verb.name, wanted)), as_json)
        with long_work(lambda work: f"{work.done:,} of {work.total:,} {verb.done}", as_json=as_json) as work:
            try:
                found = bulk.run(store, verb.name, wanted, by, expected=expect, progress=work(verb.doing))
            finally:
                store.announce()
    _say(verb, found, as_json, lambda: _outcome(verb, found), dry_run=False)
    return Exit.NEGATIVE if found.refused or not found.matched else Exit.OK


def _counted(verb: Verb, found: Count, as_json: bool) -> int:
    if found.capped:
        line = f"{found} {verb.which}s found; that is too many at once, narrow it down."
    elif not found.n:
        line = _nothing(verb)
    else:
        line = f"{many(found.n, verb.which)} found; to {verb.name}, say --expect {found.n}."
    _say(verb, BulkOutcome(found.n), as_json, lambda: [line], dry_run=True)
    return Exit.OK if found.n else Exit.NEGATIVE


def _outcome(verb: Verb, found: BulkOutcome) -> list[str]:
    if not found.matched:
        return [_nothing(verb)]
    lines = [f"{many(found.changed, 'job')} {verb.done} (bulk action {found.bulk})."]
    if found.left:
        named = ", ".join(map(str, found.left[:_MAX_NAMED]))
        others = found.refused - _MAX_NAMED
        lines.append(f"Left as they are: {named}{f' and {others:,} more' if others > 0 else ''}.")
        lines.append(f"Why: tidegate bulk show {found.bulk}")
    if found.state == RUNNING:
        lines.append(f"Somebody else goes on with it; how far it is: tidegate bulk show {found.bulk}")
    return lines


def _nothing(verb: Verb) -> str:
    return f"Nothing to {verb.name}: no {verb.which} matches."


def _say(verb: Verb, found: BulkOutcome, as_json: bool, lines: Callable[[], list[str]], *, dry_run: bool) -> None:
    say({"action": verb.name, **found.as_json(), "dry_run": dry_run}, as_json, lines)


def _each(store: Store, verb: Verb, ids: tuple[int, ...], by: str, as_json: bool) -> int:
    """Each job in a transaction of its own; the exit code is that of the first mistake."""
    found: list[dict[str, Any]] = []
    code = Exit.OK
    for job in ids:
        said, ended = _one(store, verb, job, by)
        found.append({"job": job, "done": ended is Exit.OK, "says": said})
        code = code or ended
    store.announce()
    say(found, as_json, lambda: [f"job {each['job']}: {each['says'] or verb.done}" for each in found])
    return code


def _one(store: Store, verb: Verb, job: int, by: str) -> tuple[str, Exit]:
    try:
        said = store.write(lambda tx: verb.one(tx, job, by))
    except NotFound as error:
        return str(error), Exit.NOT_FOUND
    except Rejected as error:
        return str(error), Exit.REFUSED
    except UniqueTaken:
        return "another job has taken its place", Exit.REFUSED
    return "it runs, and was told to stop" if said == "asked" else "", Exit.OK
