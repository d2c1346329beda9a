"""Where the database is, and the port of the server, found without the models."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.settings.weather import settings
from tidegate.settings import SettingsError, store_url
from tidegate.settings.location import server_port


@pytest.mark.parametrize(
    ("text", "environ", "url"),
    [
        (None, {}, None),
        ("", {}, "sqlite:///tidegate.db"),
        ("db = 'sqlite:///mine.db'\n", {}, "sqlite:///mine.db"),
        ("db = 'sqlite:///mine.db'\nwrong = 1\n[nobody]\nx = 1\n", {}, "sqlite:///mine.db"),
        ("db = 'sqlite:///mine.db'\n", {"TIDEGATE_DB": "sqlite:///other.db"}, "sqlite:///other.db"),
        ("db = 'env:DB'\n", {"DB": "postgresql://host/db"}, "postgresql://host/db"),
    ],
)
def test_the_file_says_where_the_database_is(
    folder: Path, text: str | None, environ: dict[str, str], url: str | None
) -> None:
    if text is not None:
        (folder / "tidegate.toml").write_text(text)

    assert store_url(environ=environ) == url


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("db = 5\n", r"tidegate\.toml: .*5.*://.*jobs\.db.*://"),
        ("db = 'env:DB'\n", "tidegate.toml: db: the variable DB is not set; set it"),
        ("db = \n", r"tidegate\.toml: .*TOML.*1.*6"),
    ],
)
def test_a_database_that_is_none_is_a_mistake_of_the_file(folder: Path, text: str, line: str) -> None:
    (folder / "tidegate.toml").write_text(text)

    with pytest.raises(SettingsError) as raised:
        store_url(environ={})
    assert re.match(line, str(raised.value))


@pytest.mark.parametrize(
    ("text", "environ", "port"),
    [
        ("", {}, 8321),
        ("[server]\nhost = '::1'\n", {}, 8321),
        ("[server]\nport = 9000\n", {}, 9000),
        ("[server]\nport = 9000\n", {"TIDEGATE_SERVER_PORT": ""}, 9000),
        ("[server]\nport = 9000\n", {"TIDEGATE_SERVER_PORT": "9001"}, 9001),
        ("[server]\nport = 9000\n", {"TIDEGATE_SERVER_PORT": "tcp://10.0.0.7:8321"}, 9000),
    ],
)
def test_the_port_is_the_one_that_the_server_takes(text: str, environ: dict[str, str], port: int) -> None:
    loaded = settings(text, environ)

    assert server_port(environ=environ) == port == loaded.values.server.port


def test_the_port_is_found_whatever_else_is_wrong(folder: Path) -> None:
    (folder / "other.toml").write_text("wrong = 1\n[server]\nport = 9000\n[nobody]\nx = 1\n")

    assert server_port(environ={"TIDEGATE_CONFIG": "other.toml", "TIDEGATE_QQQ": "1"}) == 9000


@pytest.mark.parametrize(
    ("text", "environ", "line"),
    [
        ("[server]\nport = 'many'\n", {}, r"tidegate\.toml: .*server\.port.*'many'"),
        ("[server]\nport = []\n", {}, r"tidegate\.toml: .*server\.port"),
        ("", {"TIDEGATE_SERVER_PORT": "many"}, r"TIDEGATE_SERVER_PORT: .*'many'"),
    ],
)
def test_a_port_that_is_none_is_a_mistake(folder: Path, text: str, environ: dict[str, str], line: str) -> None:
    (folder / "tidegate.toml").write_text(text)

    with pytest.raises(SettingsError) as raised:
        server_port(environ=environ)
    assert re.match(line, str(raised.value))


@pytest.mark.parametrize(
    ("module", "name"), [("tidegate.settings", "store_url"), ("tidegate.settings.location", "server_port")]
)
def test_it_needs_no_pydantic(module: str, name: str) -> None:
    code = f"import sys; from {module} import {name}; {name}(); print('pydantic' in sys.modules)"

    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "False\n"
