"""`tidegate bulk`: bulk actions, their progress, and the result of each job."""

from __future__ import annotations

from dataclasses import asdict

import click

from tidegate.cli.database import NUMBER, by_option, command_at_store, many, say, store_at, table, when
from tidegate.cli.exits import Exit
from tidegate.cli.root import CommandGroup
from tidegate.jobs.bulk import service
from tidegate.jobs.bulk.table import BulkItem, BulkOperation
from tidegate.store.base import Tx


@click.group(
    cls=CommandGroup,
    epilog="""
    tidegate bulk list
    tidegate bulk show 7
    """,
)
def bulk() -> None:
    """List, show and cancel bulk actions: one action on many jobs."""


@bulk.command("list", epilog="tidegate bulk list --limit 5")
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="Maximum number of bulk actions."
)
@command_at_store
def list_(limit: int, url: str, driver: str | None, as_json: bool) -> int:
    """List bulk actions, newest first."""
    with store_at(url, driver) as store:
        operations = store.read(lambda tx: service.list_operations(tx, limit=limit)).items
    say([_document(operation) for operation in operations], as_json, lambda: _rows(operations))
    return Exit.OK


def _rows(operations: list[BulkOperation]) -> list[str]:
    head = ("ID", "ACTION", "STATE", "DONE", "REFUSED", "BY", "FROM", "STARTED")
    rows = [
        (
            str(operation.id),
            operation.action,
            operation.state,
            f"{operation.done:,} of {operation.expected:,}",
            f"{operation.refused:,}",
            operation.actor,
            operation.origin,
            when(operation.started_at),
        )
        for operation in operations
    ]
    return table(rows, head) or ["No bulk actions in the last 30 days."]


@bulk.command(epilog="tidegate bulk show 7 --all")
@click.argument("bulk_id", type=NUMBER, metavar="ID")
@click.option("--all", "everything", is_flag=True, help="Also list the changed jobs, not only the refused ones.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 20_000), help="Maximum number of jobs.")
@command_at_store
def show(bulk_id: int, everything: bool, limit: int, url: str, driver: str | None, as_json: bool) -> int:
    """Show the progress of a bulk action, and which jobs it refused and why."""

    def read(tx: Tx) -> tuple[BulkOperation, list[BulkItem]]:
        return service.require(tx, bulk_id), service.items(tx, bulk_id, refused_only=not everything, limit=limit).items

    with store_at(url, driver) as store:
        operation, items = store.read(read)
    document = {**_document(operation), "items": [asdict(item) for item in items]}
    say(document, as_json, lambda: _detail(operation, items))
    return Exit.OK


def _detail(operation: BulkOperation, items: list[BulkItem]) -> list[str]:
    about = [
        ("action", operation.action),
        ("state", operation.state),
        ("says", operation.says),
        ("jobs", _words(operation)),
        ("done", f"{operation.done:,} of {operation.expected:,}"),
        ("changed", f"{operation.changed:,}"),
        ("refused", f"{operation.refused:,}"),
        ("by", f"{operation.actor} ({operation.origin})"),
        ("reason", operation.reason),
        ("started", when(operation.started_at)),
        ("ended", when(operation.ended_at)),
        ("ended by", operation.ended_by or ""),
    ]
    lines = [f"bulk action {operation.id}", *(f"  {name:<10} {text}" for name, text in about if text)]
    rows = [(str(item.job), item.outcome, item.why) for item in items]
    return [*lines, "", *table(rows, ("JOB", "OUTCOME", "WHY"))] if rows else lines


def _words(operation: BulkOperation) -> str:
    return ", ".join(f"{name} {value}" for name, value in operation.filter.items()) or "any"


@bulk.command(epilog="tidegate bulk cancel 7 --reason 'wrong queue'")
@click.argument("bulk_id", type=NUMBER, metavar="ID")
@by_option
@command_at_store
def cancel(bulk_id: int, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Cancel a running bulk action. Jobs that it already changed stay changed."""
    with store_at(url, driver) as store:
        operation = store.write(lambda tx: service.cancel(tx, bulk_id, by))
        store.announce()
    say(_document(operation), as_json, lambda: [f"Cancelled after {many(operation.done, 'job')}; {operation.says}."])
    return Exit.OK


def _document(operation: BulkOperation) -> dict[str, object]:
    return {**asdict(operation), "filter": dict(operation.filter), "done": operation.done}
