"""Which URLs open a store, and what is said of those that do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.databases import APSW, BOTH
from tests.postgres import server_url
from tests.store.jobs import Clock, Jobs
from tidegate.errors import StoreBusy, StoreError
from tidegate.store.open import core_statements, open_store
from tidegate.store.postgres import PostgresStore
from tidegate.store.sql import Dialect, Statement


@pytest.mark.parametrize(
    "url",
    [
        "", "jobs.db", "sqlite", "sqlite:", "sqlite://", "sqlite:///", "sqlite://jobs.db", "sqlite:///:memory:",
        "sqlite:///folder/", "sqlite:///jobs.db?mode=ro", "mysql://root@localhost/x", "redis://localhost",
        "postgresql+psycopg://localhost/x", "http://example.org",
    ],
)  # fmt: skip
def test_a_url_that_names_no_database_is_refused(url: str, clock: Clock) -> None:
    with pytest.raises(ValueError, match="url: "):
        open_store(url, now=clock)


@pytest.mark.parametrize(
    "url", ["postgresql://u:s3cret@h:port/x", "postgresql://u:s3cret@h/x?nonsense=1", "mysql://u:s3cret@h"]
)
def test_a_refused_url_does_not_give_away_its_password(url: str, clock: Clock) -> None:
    with pytest.raises(ValueError, match="url: ") as refused:
        open_store(url, now=clock)

    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_driver_is_one_of_two_and_only_for_sqlite(clock: Clock, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'apsw' or 'sqlite3'"):
        open_store(f"sqlite:///{tmp_path}/x.db", now=clock, driver="pysqlite3")
    with pytest.raises(ValueError, match="for SQLite only"):
        open_store("postgresql://localhost/x", now=clock, driver="apsw")
    assert list(tmp_path.iterdir()) == []


def test_missing_folders_are_made_and_a_folder_is_no_database(clock: Clock, tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path}/a/b%20c/jobs.db", now=clock).close()
    assert (tmp_path / "a" / "b c" / "jobs.db").exists()
    with pytest.raises(StoreError):
        open_store(f"sqlite:///{tmp_path}/a", now=clock)


@pytest.mark.parametrize("name", ["jobs.db", "new/jobs.db"])
def test_a_folder_that_may_not_be_written_is_named_and_later_it_may(clock: Clock, tmp_path: Path, name: str) -> None:
    url = f"sqlite:///{tmp_path}/{name}"
    tmp_path.chmod(0o500)
    child = os.fork()
    if not child:
        if os.getuid() == 0:
            os.setuid(65534)  # root may write everywhere
        try:
            open_store(url, now=clock)
        except StoreError as error:
            os._exit(7 if str(tmp_path) in str(error) else 8)
        finally:
            os._exit(9)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    tmp_path.chmod(0o700)
    open_store(url, now=clock).close()


def test_a_file_that_is_no_database_is_left_alone(clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but something that somebody wrote " * 50)
    before = path.read_bytes()

    with pytest.raises(StoreError):
        Jobs(open_store(f"sqlite:///{path}", now=clock), clock).migrate()

    assert path.read_bytes() == before


def test_a_database_that_is_not_there_is_said_at_once(clock: Clock) -> None:
    url = server_url().replace("/postgres?", "/no_such_database?")
    if url == server_url():
        pytest.skip("the server's URL is of another form")

    with pytest.raises(StoreError, match="does not exist") as raised:
        open_store(url, now=clock)

    assert not isinstance(raised.value, StoreBusy)


def test_a_server_that_is_not_there_is_busy_after_a_while(clock: Clock, tmp_path: Path) -> None:
    with pytest.raises(StoreBusy, match="cannot be reached"):
        PostgresStore(f"postgresql:///x?host={tmp_path}", [], clock, patience=0.2)


def test_what_the_url_says_counts_more_than_our_settings(clock: Clock) -> None:
    joint = "&" if "?" in server_url() else "?"
    url = f"{server_url()}{joint}application_name=mine&options=-c%20search_path%3Dpg_temp"
    store = PostgresStore(url, core_statements(Dialect.POSTGRES), clock)
    store.add([
        Statement("s", "select current_setting('application_name'), current_setting('search_path'), "
                       "current_setting('lock_timeout')")
    ])  # fmt: skip

    assert store.read(lambda tx: tx.query("s")) == [("mine", "pg_temp", "5s")]
    store.close()


@pytest.mark.parametrize("name", BOTH)
def test_importing_the_stores_of_one_database_does_not_load_the_other(name: str) -> None:
    module, other = ("sqlite", "psycopg") if name == APSW else ("postgres", "apsw")
    code = f"import sys, tidegate.store.{module}; sys.exit('{other}' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
