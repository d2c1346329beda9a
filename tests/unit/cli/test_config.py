"""`tidegate config` and `tidegate init`: what they print, what they write, and how each mistake ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.text import names, numbers
from tests.unit.cli.conftest import Command
from tidegate.cli.exits import Exit

APP = """
from pydantic import BaseModel, Field, SecretStr
from tidegate.apps import App

class Settings(BaseModel):
    station: str = Field(default="north", description="Which station it asks.")
    api_key: SecretStr | None = Field(default=None, description="The key of the service.")
    url: str = Field(default="http://127.0.0.1:9/v1", description="Where the service is.")

weather = App(name="weather", about="Asks for the weather.", settings=Settings)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no variables of ours."""
    here = tmp_path / "work"
    here.mkdir()
    monkeypatch.chdir(here)
    for name in os.environ:
        if name.startswith("TIDEGATE_"):
            monkeypatch.delenv(name)
    return here


@pytest.fixture
def weather(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application that is installed."""
    about = tmp_path / "site" / "weather_app-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: weather-app\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[tidegate.apps]\nweather = weather_app_for_tests:weather\n")
    (tmp_path / "site" / "weather_app_for_tests.py").write_text(APP)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


def test_every_value_is_shown_with_its_origin(command: Command, weather: None, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("tidegate.toml").write_text("[server]\nport = 1001\n[weather]\napi_key = 'quite-secret'\n")
    monkeypatch.setenv("TIDEGATE_WEATHER_STATION", "south")

    run = command("config")

    rows = {line.split()[0]: line.split()[1:] for line in run.out.splitlines()}
    assert run.code == 0
    assert rows["KEY"] == ["VALUE", "FROM"]
    assert rows["db"] == ["sqlite:///tidegate.db", "default"]
    assert rows["server.port"] == ["1001", "tidegate.toml"]
    assert rows["weather.station"] == ["south", "TIDEGATE_WEATHER_STATION"]
    assert rows["weather.api_key"] == ["********", "tidegate.toml"]
    assert "quite-secret" not in run.out + command("config", "--json").out + command("config", "weather.api_key").out


def test_a_section_and_a_key_can_be_asked_for(command: Command, weather: None) -> None:
    section = command("config", "server")
    assert [line.split()[0] for line in section.out.splitlines()] == [
        "KEY", "server.host", "server.port", "server.names", "server.trusted_proxies",
    ]  # fmt: skip
    lines = command("config", "show", "weather.station").out.splitlines()
    assert (lines[0], lines[2].split()[-1]) == ("weather.station = north", "default")
    assert names(lines[3], "station", "[weather]", "tidegate.toml", "TIDEGATE_WEATHER_STATION")
    assert names(command("config", "db").out.splitlines()[-1], "tidegate.toml", "TIDEGATE_DB")


def test_json_has_the_same(command: Command) -> None:
    every = json.loads(command("config", "--json").out)
    one = json.loads(command("config", "server.port", "--json").out)

    assert one in every
    assert one == {
        "key": "server.port", "value": "8321", "origin": "default", "about": one["about"], "secret": False,
        "variable": "TIDEGATE_SERVER_PORT",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("key", "meant"),
    [("server.prot", "'server.port'"), ("port", "'server.port'"), ("sever", "'server'"), ("chekc", "'check'"),
     ("zzzz", ": tidegate config")],
)  # fmt: skip
def test_an_unknown_key_gets_a_suggestion(command: Command, key: str, meant: str) -> None:
    run = command("config", key)

    assert (run.code, run.out) == (Exit.NOT_FOUND, "")
    assert run.err.count("\n") == 1
    assert names(run.err, repr(key), meant)


def test_mistakes_are_a_line_each_and_exit_code_3(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("tidegate.toml").write_text("[server]\nprot = 1\n")
    monkeypatch.setenv("TIDEGATE_LOG_LEVEL", "loud")

    tokens = [("tidegate.toml", "server.prot", "port"), ("TIDEGATE_LOG_LEVEL", "'loud'", "'debug'", "'error'")]
    run = command("config")
    assert (run.code, run.out) == (Exit.CONFIGURATION, "")
    lines = [line.removeprefix("tidegate: ") for line in run.err.splitlines()]
    assert [names(line, *each) for line, each in zip(lines, tokens, strict=True)] == [True, True]

    check = command("config", "check")
    assert (check.code, check.out.splitlines()) == (Exit.CONFIGURATION, lines)
    document = json.loads(command("config", "check", "--json").out)
    assert (document["ok"], [f"{each['where']}: {each['what']}" for each in document["problems"]]) == (False, lines)


def test_a_check_of_good_settings_says_what_is_given(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert numbers(command("config", "check").out) == []
    Path("my.toml").write_text("simulators = true\n[server]\nport = 1001\n")
    monkeypatch.setenv("TIDEGATE_LOG_LEVEL", "error")

    run = command("config", "check", "--config", "my.toml")

    assert names(run.out, 3, "my.toml (2)", "TIDEGATE_LOG_LEVEL (1)")
    assert json.loads(command("config", "check", "--json").out)["ok"] is True


def test_an_application_that_cannot_be_imported_is_a_mistake_of_the_settings(
    command: Command, weather: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "weather_app_for_tests", raising=False)
    (tmp_path / "site" / "weather_app_for_tests.py").write_text("import no_such_module_at_all\n")

    run = command("config")
    assert run.code == Exit.CONFIGURATION
    assert names(run.err, "'weather'", "ModuleNotFoundError")
    for wrong, says in (("1 / 0", "ZeroDivisionError: division by zero"), ("{}['sky']", "KeyError: 'sky'")):
        monkeypatch.delitem(sys.modules, "weather_app_for_tests", raising=False)
        (tmp_path / "site" / "weather_app_for_tests.py").write_text(f"{wrong}\n")
        run = command("weather", "--help")
        assert (run.code, run.err.count("\n")) == (Exit.USAGE, 1)
        assert names(run.err, "'weather'", says)
    Path("tidegate.toml").write_text("apps = []\n")
    assert command("config").code == 0


@pytest.mark.parametrize(
    ("verb", "missing"),
    [("config", "pydantic"), ("worker", "pydantic"), ("serve", "pydantic"), ("user add ada --role admin", "argon2"),
     ("serve", "uvicorn")],
)  # fmt: skip
def test_without_a_package_of_the_server_there_is_a_hint(verb: str, missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['tidegate', *{verb.split()!r}]\n"
        "from tidegate.cli import main; main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (run.returncode, run.stdout) == (Exit.CONFIGURATION, "")
    assert run.stderr.count("\n") == 1
    assert run.stderr.endswith(": pip install 'tidegate[server]'\n")
    assert list(Path().iterdir()) == []


# -- init --------------------------------------------------------------------------------------------------------------


def test_init_writes_a_file_that_is_fine_and_says_what_comes_next(command: Command, weather: None) -> None:
    run = command("init")

    assert run.code == 0
    assert re.findall(r"^  (tidegate \w+)  ", run.out, re.MULTILINE) == [
        "tidegate config", "tidegate serve", "tidegate doctor",
    ]  # fmt: skip
    text = Path("tidegate.toml").read_text()
    assert '\n#station = "north"\n' in text
    assert Path("tidegate.toml").stat().st_mode & 0o777 == 0o600
    assert command("config", "check").code == 0


def test_init_writes_over_nothing_unless_it_is_told_to(command: Command) -> None:
    Path("tidegate.toml").write_text("simulators = true\n")
    Path("tidegate.toml").chmod(0o644)

    run = command("init")
    assert (run.code, run.out) == (Exit.REFUSED, "")
    assert names(run.err, "tidegate.toml", "--force")
    assert Path("tidegate.toml").read_text() == "simulators = true\n"
    assert command("init", "--force").code == 0
    assert "#simulators = false" in Path("tidegate.toml").read_text()
    assert Path("tidegate.toml").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("path", "file"), [("my.toml", "my.toml"), ("sub", "sub/tidegate.toml")])
def test_init_may_write_elsewhere(command: Command, path: str, file: str) -> None:
    Path("sub").mkdir()

    document = json.loads(command("init", path, "--json").out)

    assert document == {
        "file": file, "next": [f"tidegate {verb} --config {file}" for verb in ("config", "serve", "doctor")],
    }  # fmt: skip
    assert Path(file).exists()


def test_what_comes_next_can_be_copied_into_a_shell(command: Command) -> None:
    document = json.loads(command("init", "my own.toml", "--json").out)
    assert document["next"][0] == "tidegate config --config 'my own.toml'"


def test_init_where_nothing_can_be_written_is_one_line(command: Command) -> None:
    run = command("init", "none/my.toml")

    assert run.code == Exit.CONFIGURATION
    assert (run.err.count("\n"), "none/my.toml" in run.err) == (1, True)
