"""`tidegate tautulli`, as somebody types it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.text import numbers
from tidegate.cli.root import run
from tidegate_demo.simulators.tautulli import TautulliSimulator


@pytest.fixture(scope="module")
def running() -> Iterator[TautulliSimulator]:
    with TautulliSimulator(rows=300) as sim:
        yield sim


@pytest.fixture
def sim(running: TautulliSimulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TautulliSimulator:
    running.reset()
    settings = f"""
        db = "sqlite:///{tmp_path / "plays.db"}"
        apps = ["tautulli"]
        [tautulli]
        url = "{running.url}"
        api_key = "env:KEY_OF_TAUTULLI"
        timeout = "60s"
        total = "60s"
    """
    (tmp_path / "tidegate.toml").write_text(settings)
    monkeypatch.setenv("KEY_OF_TAUTULLI", running.key)
    monkeypatch.chdir(tmp_path)
    return running


def test_a_sync_says_what_it_found_and_the_status_how_fresh_that_is(
    sim: TautulliSimulator, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tautulli", "status", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["url"], found["plays"], found["synced_at"]) == (sim.url, 0, None)

    assert run(["tautulli", "sync"]) == 0
    assert numbers(capsys.readouterr().out) == [300, 0, 300]
    assert run(["tautulli", "sync", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["new"] == 0

    assert run(["tautulli", "status"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"{sim.url}: 300 plays stored, synced 20")
    assert said[1].startswith("breaker tautulli-api: closed (0 ")


def test_a_ping_says_whether_it_is_there(sim: TautulliSimulator, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tautulli", "ping"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{sim.url} responded in ")
    assert "Plex" in said
    assert run(["tautulli", "ping", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plex_connected"] is True


def test_an_old_tautulli_answers_too(
    sim: TautulliSimulator, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with TautulliSimulator(rows=1, old=True) as old:
        monkeypatch.setenv("TIDEGATE_TAUTULLI_URL", old.url)
        assert run(["tautulli", "ping", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plex_connected"] is None


@pytest.mark.parametrize(
    ("state", "code", "words"),
    [
        ("internal", 4, "(upstream_failure"),
        ("login", 4, "(html_answer"),
        ("bad_key", 5, "tautulli.api_key"),
        ("api_off", 5, "(api_off"),
    ],
)
@pytest.mark.parametrize("command", ["ping", "sync"])
def test_what_goes_wrong_is_one_plain_line_with_its_exit_code(
    sim: TautulliSimulator, capsys: pytest.CaptureFixture[str], command: str, state: str, code: int, words: str
) -> None:
    run(["tautulli", "status"])  # says that it makes a database
    capsys.readouterr()
    sim.now(state)
    assert run(["tautulli", command]) == code
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert words in said.err
    assert sim.key not in said.err


def test_nobody_there_is_unreachable(sim: TautulliSimulator, capsys: pytest.CaptureFixture[str]) -> None:
    sim.outage("5m down")
    assert run(["tautulli", "ping"]) == 4
    assert "(network" in capsys.readouterr().err


def test_an_empty_history_after_a_full_one_is_doubted(
    sim: TautulliSimulator, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tautulli", "sync"]) == 0
    sim.now("database")
    assert run(["tautulli", "sync"]) == 1
    assert "30 s" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["sync", "ping"])
def test_without_an_address_it_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["tautulli", command, "--db", f"sqlite:///{tmp_path / 'a.db'}"]) == 3
    assert "set tautulli.url" in capsys.readouterr().err
    assert run(["tautulli", "status", "--db", f"sqlite:///{tmp_path / 'a.db'}"]) == 1
    assert "tautulli.url" in capsys.readouterr().out
