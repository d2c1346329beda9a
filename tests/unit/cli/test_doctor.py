"""`tidegate doctor` as a user runs it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.text import names
from tests.unit.cli.conftest import Command
from tidegate.cli.exits import Exit
from tidegate.jobs.queue import Queue
from tidegate.server import there_are

PASSWORD = b"correct horse battery\n"
PRIVATE = 0o600


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a database that is well, and no variables of ours."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("TIDEGATE_"):
            monkeypatch.delenv(name)
    with Queue("sqlite:///tidegate.db") as queue:
        for app in there_are()[0]:
            if app.package is not None:
                queue.db(app.name, app.package)
        queue.store.now()
    Path("tidegate.db").chmod(PRIVATE)
    return tmp_path


def test_when_all_is_well_it_says_so(command: Command) -> None:
    run = command("doctor")

    assert (run.code, run.err) == (0, "")
    assert [line for line in run.out.splitlines() if not line.startswith(" ")] == [
        "Settings", "Store", "Workers", "Targets", "Security", "", "No problems found.",
    ]  # fmt: skip
    assert {line.split()[0] for line in run.out.splitlines() if line.startswith("  ")} == {"ok"}


def test_a_warning_is_exit_code_1_only_if_it_is_strict(command: Command) -> None:
    Path("tidegate.db").chmod(0o644)

    run = command("doctor")
    assert run.code == 0
    assert re.search(r"^  warn  .*tidegate\.db.* 644", run.out, re.MULTILINE)
    assert "fix: chmod 600 tidegate.db\n" in run.out
    assert run.out.endswith("\n1 warning.\n")
    assert command("doctor", "--strict").code == Exit.NEGATIVE


def test_an_error_is_exit_code_1(command: Command) -> None:
    Path("tidegate.db").write_bytes(b"no database")

    run = command("doctor")

    assert run.code == Exit.NEGATIVE
    assert re.search(r"^  error .*sqlite:///tidegate\.db", run.out, re.MULTILINE)
    assert run.out.endswith("\n1 error.\n")


def test_a_mistake_in_the_settings_hides_nothing_else(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("tidegate.toml").write_text("[server]\nprot = 1\n")
    monkeypatch.setenv("TIDEGATE_SERVER_HOST", "here")

    run = command("doctor", "--json")
    document = json.loads(run.out)

    assert (run.code, document["ok"], document["errors"]) == (Exit.NEGATIVE, False, 2)
    first, second, *_ = document["findings"]
    assert [first[name] for name in ("group", "id", "status")] == ["settings", "settings.valid", "error"]
    assert names(first["fact"], "tidegate.toml", "server.prot")
    assert "port" in first["fix"]
    assert "'here'" in second["fact"]
    assert "store.schema" in {each["id"] for each in document["findings"]}


def test_a_database_that_cannot_be_told_is_said_once(command: Command) -> None:
    run = command("doctor", "--db", "mysql://ada:geheim@host/db")

    assert run.code == Exit.NEGATIVE
    assert run.out.count("error") == 2  # of the finding, and in the sum
    assert "geheim" not in run.out


def test_another_database_may_be_asked_for(command: Command) -> None:
    run = command("doctor", "--db", "sqlite:///none.db", "--json")

    reachable = next(each for each in json.loads(run.out)["findings"] if each["id"] == "store.reachable")
    assert (reachable["status"], "none.db" in reachable["fact"]) == ("warn", True)
    assert not Path("none.db").exists()


@pytest.mark.parametrize(
    ("text", "file", "mode", "warned"),
    [("db = 'postgresql://ada:geheim@127.0.0.1:1/x?connect_timeout=1'\n", "tidegate.toml", 0o644, True),
     ("db = 'postgresql://ada:geheim@127.0.0.1:1/x?connect_timeout=1'\n", "tidegate.toml", 0o600, False),
     ("db = 'sqlite:///tidegate.db'\n", "tidegate.toml", 0o644, False),
     ("db = 'file:db.txt'\n", "db.txt", 0o644, True), ("db = 'file:db.txt'\n", "db.txt", 0o600, False)],
)  # fmt: skip
def test_a_file_with_a_secret_that_everybody_can_read_is_a_warning(
    command: Command, text: str, file: str, mode: int, warned: bool
) -> None:
    Path("db.txt").write_text("sqlite:///tidegate.db\n")
    Path("tidegate.toml").write_text(text)
    Path("tidegate.toml").chmod(PRIVATE)
    Path(file).chmod(mode)

    assert (f"fix: chmod 600 {file}\n" in command("doctor").out) is warned


def test_a_server_that_others_reach_needs_somebody_who_can_sign_in(command: Command) -> None:
    Path("tidegate.toml").write_text("[server]\nhost = '0.0.0.0'\n")

    assert "tidegate user add" in command("doctor").out
    assert command("user", "add", "ada", "--role", "admin", "--password-stdin", stdin=PASSWORD).code == Exit.OK
    assert re.search(r"^  ok    .*0\.0\.0\.0", command("doctor").out, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "mode", "line"),
    [(f"{'ab' * 32}\n", 0o600, r"^  ok    .*tidegate\.key"),
     (f"{'ab' * 32}\n", 0o644, r"^  error secret_key_file: .*tidegate\.key"),
     ("\n", 0o600, r"^  error secret_key_file: .*tidegate\.key.* 0 ")],
)  # fmt: skip
def test_a_key_that_the_server_would_not_start_with_is_an_error(
    command: Command, text: str, mode: int, line: str
) -> None:
    Path("tidegate.key").write_text(text)
    Path("tidegate.key").chmod(mode)

    assert re.search(line, command("doctor").out, re.MULTILINE)


def test_simulators_are_not_forgotten(command: Command) -> None:
    Path("tidegate.toml").write_text("simulators = true\n")

    findings = json.loads(command("doctor", "--json").out)["findings"]
    assert "settings.simulators" in [each["id"] for each in findings if each["status"] == "warn"]


def test_the_network_is_asked_only_if_it_is_wanted(command: Command) -> None:
    assert "Network" not in command("doctor").out
    assert "Network\n" in command("doctor", "--network").out


def test_the_reference_names_every_finding() -> None:
    root = Path(__file__).parents[3]
    sources = [root / "src/tidegate/admin/doctor.py", root / "src/tidegate/cli/doctor.py"]
    known = set(re.findall(r'"((?:settings|store|workers|targets|channels|network|security)\.[a-z]+)"', "".join(
        each.read_text() for each in sources
    )))  # fmt: skip
    page = (root / "docs/reference/cli.md").read_text().partition("## tidegate doctor\n")[2]

    assert set(re.findall(r"^\| `([a-z]+\.[a-z]+)` \|", page, re.MULTILINE)) == known
