"""`tidegate explain`: why a job is not running, or what stands before a target; who ends it, and when."""

from __future__ import annotations

import click

from tidegate.cli.at_store import NUMBER, command_at_store, say, store_at, when
from tidegate.cli.exits import Exit
from tidegate.cli.groups import CommandGroup
from tidegate.ops import explain as ask
from tidegate.ops import reports
from tidegate.ops.whys import WaitReason

_ENDED_BY = {
    "time": "by itself",
    "person": "by a person",
    "probe": "when a probe succeeds",
    "call": "when a call comes back",
    "job": "when that job is done",
    "worker": "by a worker",
}


def lines_of(reasons: list[WaitReason]) -> list[str]:
    """Each reason in three lines: what, since and until when, who ends it."""
    found: list[str] = []
    for n, why in enumerate(reasons, 1):
        times = [f"since {when(why.since)}"] if why.since is not None else []
        times += [f"until {when(why.until)}"] if why.until is not None else []
        ends = _ENDED_BY[str(why.ended_by)]
        found += [
            f"{n}. {why.reason} ({why.subject})",
            f"   {why.message}",
            f"   {', '.join([*times, f'ends {ends}'])}",
        ]
    return found


@click.group(cls=CommandGroup)
def explain() -> None:
    """Says why a job is not running, or what stands before a target."""


@explain.command()
@click.argument("job_id", type=NUMBER, metavar="ID")
@command_at_store
def job(job_id: int, url: str, driver: str | None, as_json: bool) -> int:
    """Says why a job is not running, the first reason first."""
    with store_at(url, driver) as store:
        found = store.read(lambda tx: reports.job(tx, job_id))
    about = found.job

    def lines() -> list[str]:
        head = f"job {about.id} ({about.kind}, queue {about.queue}) is {about.state}"
        return [f"{head}." if not found.reasons else f"{head}, and not running:", *lines_of(found.reasons)]

    document = {"job": about.id, "state": str(about.state), "reasons": [why.as_json() for why in found.reasons]}
    say(document, as_json, lines)
    return Exit.OK


@explain.command()
@click.argument("name")
@click.option("--key", help="One key of it, such as a user or a feed.")
@command_at_store
def target(name: str, key: str | None, url: str, driver: str | None, as_json: bool) -> int:
    """Says what stands before the jobs of a target, or of one key of it."""
    with store_at(url, driver) as store:
        whys = store.read(lambda tx: ask.target(tx, name, "" if key is None else key))
    who = name if key is None else f"key {key} of {name}"
    say(
        {"target": name, "key": key, "reasons": [why.as_json() for why in whys]},
        as_json,
        lambda: [f"Nothing stands before {who}."] if not whys else [f"before {who}:", *lines_of(whys)],
    )
    return Exit.OK
