"""`tidegate bulk`: bulk actions, their progress, and the result of each job."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from tidegate.cli.database import NUMBER, by_option, command_at_store, many, say, store_at, table, when
from tidegate.cli.exits import Exit
from tidegate.cli.root import CommandGroup
from tidegate.jobs.bulk import service
from tidegate.jobs.bulk.table import BulkItem, BulkOperation
from tidegate.store.base import Tx


@click.group(cls=CommandGroup)
def bulk() -> None:
    """Lists and shows what was done to many jobs at once, and cancels what is under way."""


@bulk.command("list")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="At most so many.")
@command_at_store
def list_(limit: int, url: str, driver: str | None, as_json: bool) -> int:
    """Lists them, the newest first."""
    with store_at(url, driver) as store:
        found = store.read(lambda tx: service.list_operations(tx, limit=limit)).items
    say([_document(each) for each in found], as_json, lambda: _rows(found))
    return Exit.OK


def _rows(found: list[BulkOperation]) -> list[str]:
    head = ("ID", "ACTION", "STATE", "DONE", "REFUSED", "BY", "FROM", "STARTED")
    rows = [
        (
            str(each.id),
            each.action,
            each.state,
            f"{each.done:,} of {each.expected:,}",
            f"{each.refused:,}",
            each.actor,
            each.origin,
            when(each.started_at),
        )
        for each in found
    ]
    return table(rows, head) or ["Nothing was done to many jobs at once in the last 30 days."]


@bulk.command()
@click.argument("bulk_id", type=NUMBER, metavar="ID")
@click.option("--all", "everything", is_flag=True, help="Also jobs that were changed, not only the refused ones.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 20_000), help="At most so many jobs.")
@command_at_store
def show(bulk_id: int, everything: bool, limit: int, url: str, driver: str | None, as_json: bool) -> int:
    """Shows how far one is, and which jobs were refused and why."""

    def read(tx: Tx) -> tuple[BulkOperation, list[BulkItem]]:
        return service.require(tx, bulk_id), service.items(tx, bulk_id, refused_only=not everything, limit=limit).items

    with store_at(url, driver) as store:
        one, items = store.read(read)
    document = {**_document(one), "items": [asdict(item) for item in items]}
    say(document, as_json, lambda: _detail(one, items))
    return Exit.OK


def _detail(one: BulkOperation, items: list[BulkItem]) -> list[str]:
    about = [
        ("action", one.action),
        ("state", one.state),
        ("says", one.says),
        ("jobs", _words(one)),
        ("done", f"{one.done:,} of {one.expected:,}"),
        ("changed", f"{one.changed:,}"),
        ("refused", f"{one.refused:,}"),
        ("by", f"{one.actor} ({one.origin})"),
        ("reason", one.reason),
        ("started", when(one.started_at)),
        ("ended", when(one.ended_at)),
        ("ended by", one.ended_by or ""),
    ]
    lines = [f"bulk action {one.id}", *(f"  {name:<10} {text}" for name, text in about if text)]
    rows = [(str(item.job), item.outcome, item.why) for item in items]
    return [*lines, "", *table(rows, ("JOB", "OUTCOME", "WHY"))] if rows else lines


def _words(one: BulkOperation) -> str:
    return ", ".join(f"{name} {value}" for name, value in one.filter.items()) or "any"


@bulk.command()
@click.argument("bulk_id", type=NUMBER, metavar="ID")
@by_option
@command_at_store
def cancel(bulk_id: int, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Ends one that is under way: what is done stays done, the rest is not."""
    with store_at(url, driver) as store:
        one = store.write(lambda tx: service.cancel(tx, bulk_id, by))
        store.announce()
    say(_document(one), as_json, lambda: [f"Cancelled after {many(one.done, 'job')}; {one.says}."])
    return Exit.OK


def _document(one: BulkOperation) -> dict[str, Any]:
    return {**asdict(one), "filter": dict(one.filter), "done": one.done}
