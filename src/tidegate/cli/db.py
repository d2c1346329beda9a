"""`tidegate db`: the schema, copies and the health of a database."""

from __future__ import annotations

from pathlib import Path

import click

from tidegate.cli.database import CliError, command_at_store, many, pending, say, shown_url, sqlite_path, store_at
from tidegate.cli.exits import Exit
from tidegate.cli.output import InterruptibleWork, long_work
from tidegate.cli.root import CommandGroup
from tidegate.clock import SYSTEM
from tidegate.jobs import reports
from tidegate.jobs import restore as job_restore
from tidegate.store.base import Store
from tidegate.store.migrate import applied, core_migrations
from tidegate.store.migrate import migrate as apply
from tidegate.store.open import check_url, identify, open_store
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite_files import remove_marker


@click.group(
    cls=CommandGroup,
    epilog="""
    tidegate db status
    tidegate db backup copy.db
    """,
)
def db() -> None:
    """Migrate, check, back up and restore the database."""


@db.command(epilog="tidegate db migrate --db sqlite:///jobs.db")
@click.option(
    "--new",
    is_flag=True,
    help="SQLite: use the existing file, or create an empty one, although another one is expected.",
)
@command_at_store
def migrate(new: bool, url: str, driver: str | None, as_json: bool) -> int:
    """Create the database if it is missing, and update its schema."""
    check_url(url, driver)
    path = sqlite_path(url)
    if new and path is not None:
        remove_marker(str(path))
    store = open_store(url, now=SYSTEM.now, driver=driver)
    try:
        with long_work(_steps_done, as_json=as_json) as work:
            done = [
                f"{migration.number:04} {migration.name}"
                for migration in apply(store, core_migrations(), work("Migrating"))
            ]
        identify(store)
    finally:
        store.close()
    say(
        {"applied": done},
        as_json,
        lambda: [f"applied {migration}" for migration in done] or ["The schema is up to date."],
    )
    return Exit.OK


def _steps_done(work: InterruptibleWork) -> str:
    return f"{work.done} of {many(work.total, 'migration')} applied; run the command again for the others"


@db.command(epilog="tidegate db status")
@command_at_store
def status(url: str, driver: str | None, as_json: bool) -> int:
    """Show the database, whether its schema is up to date, and its contents. Exit code 1: it is not up to date."""
    with store_at(url, driver, bare=True) as store:
        missing = pending(store)
        about: dict[str, object] = {
            "url": shown_url(url),
            "database": str(store.dialect),
            **({"library": store.driver} if isinstance(store, SqliteStore) else {}),
            "applied": [f"{migration.app} {migration.number:04} {migration.name}" for migration in applied(store)],
            "pending": missing,
            **({} if missing else _contents(store)),
        }
    say(about, as_json, lambda: _lines(about))
    return Exit.NEGATIVE if missing else Exit.OK


def _contents(store: Store) -> dict[str, object]:
    epoch = store.read(lambda tx: tx.scalar_or_none(int, "store_value", {"name": "epoch"}))
    queues = store.read(reports.queues)
    workers = [worker for worker in store.read(reports.workers) if worker.there]
    return {
        "epoch": epoch or 0,
        "queues": {queue.name: queue.jobs for queue in queues},
        "workers": len(workers),
    }


def _lines(about: dict[str, object]) -> list[str]:
    lines = []
    for name, value in about.items():
        if isinstance(value, dict):
            rows = [
                f"{queue}: {', '.join(f'{n} {s}' for s, n in jobs.items() if n) or 'empty'}"
                for queue, jobs in value.items()
            ]
            lines += [f"{name:<9} {row}" for row in rows or ["none"]]
        else:
            lines.append(f"{name:<9} {', '.join(value) or 'none' if isinstance(value, list) else value}")
    return lines


@db.command(epilog="tidegate db backup copy.db")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--replace", is_flag=True, help="Overwrite an existing file.")
@command_at_store
def backup(file: Path, replace: bool, url: str, driver: str | None, as_json: bool) -> int:
    """Copy a SQLite database to FILE. The copy is consistent even while other processes write."""
    watched = long_work(lambda _: "no copy was written", as_json=as_json)
    with store_at(url, driver, bare=True) as store, watched as work:
        job_restore.backup(store, file, replace=replace, stages=work)
    say({"file": str(file), "bytes": file.stat().st_size}, as_json, lambda: [f"{file}: {file.stat().st_size} bytes"])
    return Exit.OK


@db.command(epilog="tidegate db restore copy.db --yes")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.option("--yes", is_flag=True, help="Confirm that the current data is discarded.")
@command_at_store
def restore(file: Path | None, yes: bool, url: str, driver: str | None, as_json: bool) -> int:
    """Replace a SQLite database by a copy, or finish a restore of PostgreSQL.

    Restore PostgreSQL with its own tools. Then run this command without FILE, before a worker starts.

    Earlier leases are refused. Jobs that ran when the copy was made are queued again. Open breakers are half-open.
    """
    check_url(url, driver)
    path = sqlite_path(url)
    if path is None and file is not None:
        raise CliError(
            f"{file} cannot be restored into PostgreSQL by this command; use pg_restore, then run this without FILE",
            Exit.REFUSED,
        )
    if path is not None and file is None:
        raise click.UsageError("no FILE was given; give the copy to restore")
    if not yes:
        lost = f"this replaces all data in {path}"
        taken = "this ends the lease of every running job and queues it again"
        raise CliError(f"{taken if path is None else lost}; confirm with --yes", Exit.REFUSED)
    if path is not None and file is not None:
        with long_work(lambda _: "the database is as it was", as_json=as_json) as work:
            result = job_restore.restore(path, file, SYSTEM.now, driver, stages=work)
    else:
        with store_at(url, driver) as store:
            result = store.write(lambda tx: job_restore.restored(tx, store.dialect))
    say(
        {"epoch": result.epoch, "requeued": result.requeued},
        as_json,
        lambda: [f"Restored (epoch {result.epoch}). Queued again: {many(result.requeued, 'running job')}."],
    )
    return Exit.OK


@db.command(epilog="tidegate db check")
@command_at_store
def check(url: str, driver: str | None, as_json: bool) -> int:
    """Check the database for damage, and count every job. Exit code 1: something is wrong."""
    with store_at(url, driver) as store:
        wrong = job_restore.wrong_with(store)
    say({"ok": not wrong, "wrong": wrong}, as_json, lambda: wrong or ["No problems found."])
    return Exit.NEGATIVE if wrong else Exit.OK
