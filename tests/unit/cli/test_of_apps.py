"""What the commands of applications get from `tidegate.commands`."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.text import names
from tidegate.cli.root import APPS, run
from tidegate.commands import AtServer, CliError, Exit, at_server


@click.group()
def weather() -> None:
    """Stands for the commands of an application."""


@weather.command()
@click.argument("city")
@at_server
def look(at: AtServer, city: str) -> int:
    """Says where it looks."""
    if city == "Atlantis":
        raise CliError("there is no Atlantis", Exit.NOT_FOUND)
    at.say({"city": city, "config": str(at.config), "db": at.db}, f"{city} at {at.db}")
    return Exit.NEGATIVE


def asked(*args: str) -> click.testing.Result:
    return CliRunner().invoke(weather, ["look", *args], obj=AtServer("weather"))


def test_the_options_reach_the_command_in_one_value_before_its_own() -> None:
    found = asked("Oslo", "--config", "there.toml", "--db", "sqlite:///there.db", "--json")
    assert json.loads(found.output) == {"city": "Oslo", "config": "there.toml", "db": "sqlite:///there.db"}
    assert asked("Oslo").output == "Oslo at None\n"


def test_a_terminal_does_not_obey_what_an_application_says() -> None:
    assert asked("Os\x1b[31mlo").output == "Os\\x1b[31mlo at None\n"


def test_a_mistake_is_one_line_with_its_own_exit() -> None:
    found = asked("Atlantis")
    assert (found.exit_code, found.output.count("\n"), "Atlantis" in found.output) == (Exit.NOT_FOUND, 1, True)


def test_the_words_of_a_command_stay_in_its_help() -> None:
    said = asked("--help").output
    assert "Says where it looks." in said
    assert "--config FILE" in said


def test_names_that_strangers_gave_a_feed_are_not_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    here = ["--db", f"sqlite:///{tmp_path / 'feeds.db'}"]
    (tmp_path / "in.opml").write_text(
        '<opml version="2.0"><body><outline text="a&#x9b;31mb" xmlUrl="http://feed.example/a"/></body></opml>'
    )
    assert run(["feeds", "import", "in.opml", *here]) == 0
    assert run(["feeds", "list", *here]) == 0
    said = capsys.readouterr().out
    assert "feed.example" in said
    assert "\x9b" not in said


def test_an_application_that_is_not_to_run_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tidegate.toml").write_text('apps = ["music"]\n')
    assert run(["feeds", "list"]) == Exit.CONFIGURATION
    assert names(capsys.readouterr().err, "feeds", "apps")


def test_a_database_that_a_command_makes_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run(["feeds", "list"])
    assert "tidegate.db" in capsys.readouterr().err
    run(["feeds", "list"])
    assert "tidegate.db" not in capsys.readouterr().err


@pytest.mark.parametrize("app", APPS)
def test_the_list_of_verbs_says_of_an_application_what_it_says_itself(
    app: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([app, "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert APPS[app] in said
    assert "... " not in said.removeprefix(f"Usage: tidegate {app} [OPTIONS] COMMAND [ARGS]...")
    assert run(["--help"]) == 0
    assert APPS[app] in " ".join(capsys.readouterr().out.split())
