"""Where the verbs find their database: the option, the variable, the settings, or the one that was made here."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.text import names
from tests.unit.cli.conftest import Command
from tidegate.cli.exits import Exit
from tidegate.jobs.queue import Queue
from tidegate.settings import load


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("TIDEGATE_"):
            monkeypatch.delenv(name)
    return tmp_path


def made(name: str) -> str:
    """A database with a queue that has its name."""
    url = f"sqlite:///{name}.db"
    with Queue(url) as queue:

        @queue.job(queue=name, name="send")
        def send(n: int) -> None: ...

        send.enqueue(1)
    return url


def queue_seen(command: Command, *options: str) -> str:
    run = command("jobs", "list", *options)
    assert run.code == 0, run
    return run.out.splitlines()[1].split()[2]


def test_the_nearest_source_wins(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tidegate", "file", "other", "variable", "flag"):
        made(name)
    assert queue_seen(command) == "tidegate"
    Path("tidegate.toml").write_text("db = 'sqlite:///file.db'\n[nobody]\nknows = 'this'\n")
    assert queue_seen(command) == "file"
    Path("other.toml").write_text("db = 'env:OTHER'\n")
    monkeypatch.setenv("OTHER", "sqlite:///other.db")
    assert queue_seen(command, "--config", "other.toml") == "other"
    monkeypatch.setenv("TIDEGATE_CONFIG", "other.toml")
    assert queue_seen(command) == "other"
    monkeypatch.setenv("TIDEGATE_DB", "sqlite:///variable.db")
    assert queue_seen(command) == "variable"
    assert queue_seen(command, "--db", "sqlite:///flag.db") == "flag"


def test_a_reference_may_stand_in_the_variable(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_DB", "file:where.txt")
    Path("where.txt").write_text(made("far"))

    assert queue_seen(command) == "far"


def test_a_reference_starts_where_the_command_does_as_it_does_for_the_server(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("etc").mkdir()
    Path("etc/tidegate.toml").touch()
    Path("where.txt").write_text(made("near"))
    Path("etc/where.txt").write_text(made("far"))

    assert queue_seen(command, "--config", "etc/tidegate.toml", "--db", "file:where.txt") == "near"
    monkeypatch.setenv("TIDEGATE_DB", "file:where.txt")
    assert queue_seen(command, "--config", "etc/tidegate.toml") == "near"
    assert load(file="etc/tidegate.toml").values.db == "sqlite:///near.db"


def test_a_wrong_reference_is_named_as_it_was_given(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    run = command("jobs", "list", "--db", "env:NOBODY")
    assert run.code == Exit.CONFIGURATION
    assert names(run.err, "--db: ", "NOBODY")

    monkeypatch.setenv("TIDEGATE_DB", "env:NOBODY")
    assert names(command("jobs", "list").err, "TIDEGATE_DB: ", "NOBODY")


def test_without_any_of_them_it_is_asked_for(command: Command) -> None:
    run = command("jobs", "list")

    assert (run.code, run.out, run.err.count("\n")) == (Exit.USAGE, "", 1)
    assert names(run.err, "--db", "TIDEGATE_DB", "tidegate init")


def test_settings_that_cannot_be_read_are_exit_code_3(command: Command) -> None:
    Path("tidegate.toml").write_text("db = \n")

    run = command("jobs", "list")

    assert run.code == Exit.CONFIGURATION
    assert names(run.err, "tidegate.toml", "line 1, column 6")
    assert command("jobs", "list", "--config", "none.toml").code == Exit.CONFIGURATION
    assert command("jobs", "list", "--db", "sqlite:///none.db").code == Exit.NOT_FOUND


@pytest.mark.parametrize("options", [[], ["--db", "sqlite:///tidegate.db"]], ids=["of the settings", "given"])
def test_no_model_is_needed_to_find_the_database(options: list[str]) -> None:
    made("tidegate")
    Path("tidegate.toml").touch()
    code = (
        f"import sys; from tidegate.cli.root import run; code = run(['jobs', 'queues', *{options!r}])\n"
        "print(code, 'pydantic' in sys.modules, 'rich' in sys.modules, file=sys.stderr)"
    )

    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert run.stderr == "0 False False\n"


def test_a_test_of_a_channel_says_that_it_makes_the_database(command: Command) -> None:
    Path("tidegate.toml").write_text("[channels.ops]\nkind = 'webhook'\nurl = 'http://127.0.0.1:1/x'\n")

    first = command("channels", "test", "ops")
    assert (first.err.count("\n"), "tidegate.db" in first.err) == (1, True)
    assert command("channels", "test", "ops").err == ""


def test_a_folder_of_another_user_is_one_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def exists(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", exists)  # what it does there, but not to root
    for verb in (("jobs", "list"), ("db", "status"), ("user", "add", "ada", "--role", "admin")):
        run = command(*verb, "--db", "sqlite:////var/lib/tidegate/tidegate.db")
        assert (run.code, run.out, run.err.count("\n")) == (Exit.CONFIGURATION, "", 1)
        assert "/var/lib/tidegate/tidegate.db" in run.err
