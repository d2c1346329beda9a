"""Copies of the database that are made under fire: each is put back somewhere else, and worked on to its end."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import psycopg

from tests.acceptance.checker import integrity, rows
from tests.acceptance.pg_server import Server
from tests.processes import COMMAND

_LEASED = "select count(*) from tg_job where state = 'running' or lease_by is not null"
_PATIENCE = 600  # seconds for one command
_JUMP = 1_000_000_000


@dataclass
class Copies:
    """Those of one database."""

    url: str
    folder: Path
    server: Server | None = None  # of PostgreSQL, whose own tools copy it
    made: list[tuple[Path, int]] = field(default_factory=list)  # file, and the highest id that was there before
    failed: list[str] = field(default_factory=list)
    begun: int = 0
    harmed: int = 0  # grows when the database is harmed, and when it is restored
    environment: Callable[[], dict[str, str]] = dict  # of the version that is rolled out
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def make(self) -> bool:
        """One copy, while everybody works; False when the database would not have it."""
        self.begun += 1
        harmed = self.harmed
        file = self.folder / f"copy-{next(self._numbers)}"
        try:
            newest = int(rows(self.url, "select coalesce(max(id), 0) from tg_job where state = 'done'")[0][0])
            if self.server is None:
                self._tidegate("db", "backup", str(file), "--db", self.url)
            else:
                self.server.tool("pg_dump", "-Fc", "-f", str(file), self.url)
        except (apsw.Error, psycopg.Error, subprocess.SubprocessError, RuntimeError) as error:
            # The disk is full, or the database restarts: it is made when it can be.
            self.failed.append(str(getattr(error, "stderr", None) or error))
            return False
        if harmed != self.harmed:
            self.failed.append("the database was harmed meanwhile")
            return False
        self.made.append((file, newest))
        return True

    def back_up(self, file: Path) -> bool:
        """A backup of SQLite's file that `restore` puts back; False when the database would not have it."""
        try:
            self._tidegate("db", "backup", str(file), "--db", self.url)
        except (RuntimeError, subprocess.SubprocessError):
            return False
        return True

    def restore(self, file: Path) -> None:
        self._tidegate("db", "restore", str(file), "--yes", "--db", self.url)

    def _tidegate(self, *args: str) -> dict[str, Any]:
        return tidegate(*args, environment=self.environment())

    def make_one(self, over: threading.Event, pause: float = 3.0) -> None:
        """One copy; while there is none at all, it is tried again after *pause* seconds, until the fire is *over*."""
        # A short run draws only one, which may meet a restart.
        while not self.make() and not self.made and not over.wait(pause):
            pass

    def unmade(self) -> list[str]:
        """Why each of them failed, if none was made."""
        return [] if self.made else [" ".join(why.split())[:300] for why in self.failed]

    def wrong(self) -> list[str]:
        """What is wrong with any of them; they are made in threads, whose exceptions nobody else would hear of."""
        silent = self.begun - len(self.made) - len(self.failed)
        found = [f"{file.name}: {each}" for file, newest in self.made for each in self.put_back(file, newest)[1]]
        return [*([f"copies that ended without a word: {silent}"] if silent else []), *found]

    def put_back(self, file: Path, newest: int) -> tuple[str, list[str]]:
        """The URL of one that was put back in a place of its own, and what is wrong with it."""
        url = self._restored(file)
        found = [f"damaged: {each}" for each in integrity(url)]
        checked = self._tidegate("db", "check", "--json", "--db", url)
        if not checked["ok"]:
            found += [f"db check: {each}" for each in checked["wrong"]]
        if not rows(url, f"select 1 from tg_job where id = {newest} and state = 'done'") and newest:
            found.append(f"job {newest} was done before the copy was begun, and is not done in it")
        if left := rows(url, _LEASED)[0][0]:
            found.append(f"{left} leases of before are still good")
        if rows(url, f"select 1 from tg_job where fence < {_JUMP} limit 1"):
            found.append("a fence did not jump: a worker of before could settle")
        return url, found

    def _restored(self, file: Path) -> str:
        if self.server is None:
            url = f"sqlite:///{file}.db"
            self._tidegate("db", "restore", str(file), "--yes", "--db", url)
            return url
        name = file.name.replace("-", "_")
        self.server.tool("createdb", "--maintenance-db", self.url, name)
        url = self.server.url_of(name)
        self.server.tool("pg_restore", "--no-owner", "-d", url, str(file))
        self._tidegate("db", "migrate", "--db", url)  # the copy may be older than the version that is rolled out
        self._tidegate("db", "restore", "--yes", "--db", url)
        return url


def tidegate(*args: str, environment: Mapping[str, str] = {}) -> dict[str, Any]:
    """What a command answers as JSON."""
    named = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    named |= environment
    command = [COMMAND, *args, *(() if "--json" in args else ("--json",))]
    run = subprocess.run(command, env=named, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    if run.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(args)}: {run.stderr.strip()}")
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer
