"""A real PgBouncer in transaction mode, in front of a PostgreSQL of the tests.

Each transaction gets another server connection, so whatever a session would remember is lost at once.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests import postgres

MISSING = "PgBouncer is not installed, so nothing was tested behind a pooler: run `make pgbouncer`, or set PGBOUNCER"
_PATIENCE = 60.0  # seconds for a start


def executable() -> str | None:
    """$PGBOUNCER, or the one of the system; Debian keeps it where only root looks."""
    return os.environ.get("PGBOUNCER") or shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


def require() -> None:
    """Skips the test without PgBouncer; fails it in CI."""
    if executable() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(MISSING)


class PgBouncer:
    """One PgBouncer on loopback. Any user may log in: it logs in to the server as *server_url* says."""

    def __init__(self, folder: Path, server_url: str, settings: str = "", pool_size: int = 20) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._folder = folder
        self._ini = folder / "pgbouncer.ini"
        self._user = _owner(_login(server_url).get("host", ""))
        self._settings = (
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\nauth_type = any\n"
            f"pool_mode = transaction\ndefault_pool_size = {pool_size}\nmax_client_conn = 500\n"
            f"server_round_robin = 1\nserver_login_retry = 0.2\n{settings}\n"
        )
        self._write(server_url)
        # Another user reads it.
        folder.chmod(0o755)
        self._ini.chmod(0o644)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def _write(self, server_url: str) -> None:
        login = " ".join(f"{name}={value}" for name, value in _login(server_url).items())
        self._ini.write_text(f"[databases]\n* = {login}\n{self._settings}")

    def move_to(self, server_url: str) -> None:
        """Sends what comes from now on to another server; nobody's connection to the pooler is closed."""
        assert self._process is not None
        self._write(server_url)
        self._process.send_signal(signal.SIGHUP)

    def start(self) -> None:
        found, limited = executable(), shutil.which("setpriv")
        assert found is not None
        command = [found, "-q", str(self._ini)]
        if limited is not None:  # it never outlives the tests, and never runs as root
            command = [limited, "--pdeathsig", "TERM", *self._user, *command]
        with (self._folder / "pgbouncer.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + _PATIENCE
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            assert self._process.poll() is None, (self._folder / "pgbouncer.log").read_text()
            assert time.monotonic() < end, "PgBouncer does not start"
            time.sleep(0.02)

    def kill(self) -> None:
        """Cuts every connection at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_PATIENCE)
            self._process = None

    def url(self, direct: str, **parameters: str) -> str:
        """The way to the database of the URL *direct* through this pooler."""
        given = conninfo_to_dict(direct)
        kept = {name: str(given[name]) for name in ("options", "application_name") if given.get(name)}
        query = urlencode({"pooled": "true", **kept, **parameters}, quote_via=quote)
        return f"postgresql://{given.get('user', 'postgres')}@127.0.0.1:{self.port}/{given['dbname']}?{query}"

    def without_setting(self, direct: str) -> str:
        """The same for somebody who does not know that there is a pooler."""
        return self.url(direct).replace("pooled=true&", "").replace("?pooled=true", "")


def _login(url: str) -> dict[str, object]:
    given = conninfo_to_dict(url)
    return {name: given[name] for name in ("host", "port", "user", "password") if given.get(name)}


def _owner(host: object) -> list[str]:
    """Options of setpriv that leave root: PgBouncer refuses to be root, and the server's socket is private."""
    if os.getuid() != 0:
        return []
    there = Path(str(host)).stat() if str(host).startswith("/") else None
    user, group = ("nobody", "nogroup") if there is None or not there.st_uid else (there.st_uid, there.st_gid)
    return ["--reuid", str(user), "--regid", str(group), "--clear-groups"]


@contextlib.contextmanager
def running(server_url: str, settings: str = "", pool_size: int = 20) -> Iterator[PgBouncer]:
    require()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-pgbouncer-"))
    made = PgBouncer(folder, server_url, settings, pool_size)
    try:
        yield made
    finally:
        made.kill()
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def shared() -> PgBouncer:
    """The one of this process, in front of the server that all tests share."""
    kept = contextlib.ExitStack()
    atexit.register(kept.close)
    return kept.enter_context(running(postgres.server_url()))


def backends(url: str, application: str) -> int:
    """How many server connections serve *application* now, as PostgreSQL itself sees them."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("select count(*) from pg_stat_activity where application_name = %s", (application,))
        return int((found.fetchone() or (0,))[0])
