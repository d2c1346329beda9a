"""`tidegate activity`: who did what, from where, and how it was before and after."""

from __future__ import annotations

import click

from tidegate.cli.at_store import command_at_store, show_what, table, when
from tidegate.cli.numbers import duration
from tidegate.ops import activity as ops
from tidegate.ops.activity import ACTIONS, ORIGINS, SUBJECTS, AuditLine
from tidegate.store.activity_rows import AuditFilter
from tidegate.store.now import now_of
from tidegate.store.tx import Tx


@click.command()
@click.option("--actor", default="", help="By this one.")
@click.option("--action", type=click.Choice(list(ACTIONS)), metavar="ACTION", help="What they did, as queue_paused.")
@click.option("--origin", type=click.Choice(list(ORIGINS)), metavar="ORIGIN", help=f"From: {', '.join(ORIGINS)}.")
@click.option("--subject", type=click.Choice(list(SUBJECTS)), metavar="SUBJECT", help=f"To a: {', '.join(SUBJECTS)}.")
@click.option("--name", default="", help="To the one with this name.")
@click.option("--older", metavar="TIME", callback=duration, help="At least so long ago, such as 1h.")
@click.option("--younger", metavar="TIME", callback=duration, help="At most so long ago, such as 1d.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="At most so many.")
@command_at_store
def activity(
    actor: str,
    action: str | None,
    origin: str | None,
    subject: str | None,
    name: str,
    older: float | None,
    younger: float | None,
    limit: int,
    url: str,
    driver: str | None,
    as_json: bool,
) -> int:
    """Shows who did what, on the page, through the API, at the command line or in a program; the newest first."""

    def read(tx: Tx) -> list[AuditLine]:
        now = now_of(tx)
        wanted = AuditFilter(
            actor=actor, action=action or "", origin=origin or "", subject=subject or "", name=name, accounts=True,
            earliest=0.0 if younger is None else now - younger, latest=1e18 if older is None else now - older,
        )  # fmt: skip
        return ops.list_activity(tx, wanted, limit=limit).items

    return show_what(read, _activity_lines, url, driver, as_json=as_json)


def _activity_lines(found: list[AuditLine]) -> list[str]:
    rows = [
        (when(each.deed.at), each.deed.actor, each.deed.origin, each.what, _change(each), each.deed.reason)
        for each in found
    ]
    return table(rows, ("AT", "WHO", "FROM", "WHAT", "BEFORE -> AFTER", "REASON")) or ["Nobody did anything like that."]


def _change(line: AuditLine) -> str:
    before, after = line.before(when), line.after(when)
    return f"{before} -> {after}" if before else after
