"""Every mistake is one line that says where, what and what to give; all of them come together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_settings import BaseSettings

from tests.text import names
from tests.unit.settings.weather import WEATHER, settings
from tidegate.apps import App
from tidegate.settings import SettingsError, load


def mistakes(text: str = "", environ: dict[str, str] | None = None, flags: dict[str, Any] | None = None) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        settings(text, environ, flags)
    assert str(raised.value).splitlines() == [str(each) for each in raised.value.problems]
    return str(raised.value).splitlines()


# What is written into the file, and what the line about it must name.
MISTAKES = [
    ("[server]\nprot = 1", r"server\.prot: .* port\?"),
    ("port = 1", r"port: .*server\.port"),
    ("[sever]\nport = 1", "sever: .* server"),
    ("[lidarr]\nx = 1", "lidarr: "),
    ("[log]\nxyz = 1", r"log\.xyz: .* level, format"),
    ("server = 1", r"server: .*\[server\]"),
    ("[weather.radar]\nradios = 1", r"weather\.radar\.radios: .* radius"),
    ("[retention]\ndoen = '1d'", r"retention\.doen: .* done"),
    ("[retention.mail]\ndoen = '1d'", r"retention\.mail\.doen: .* done"),
    ("[server]\nport = 65536", r"server\.port: .*65536.*65535"),
    ("[server]\nport = 'x'", r"server\.port: .*'x'"),
    ("[server]\ntrusted_proxies = ['10.0.0.1/8']", r"server\.trusted_proxies: .*'10\.0\.0\.1/8'.*10\.0\.0\.0/8"),
    ("[server]\ntrusted_proxies = ['proxy.lan']", r"server\.trusted_proxies: .*'proxy\.lan'"),
    ("[server]\nnames = 'a.lan'", r"server\.names: .*'a\.lan'"),
    ("[server]\nnames = ['a.lan:80']", r"server\.names: .*'a\.lan:80'.*tidegate\.lan"),
    ("[server]\nhost = 'here'", r"server\.host: .*'here'.*127\.0\.0\.1.*0\.0\.0\.0.*1"),
    ("[worker]\ngrace = 'soon'", r"worker\.grace: .*'soon'.*30s.*5m.*1h30m.*7d"),
    ("[worker]\ngrace = -1", r"worker\.grace: .*1.*0"),
    ("[worker]\nqueues = [' mail']", r"worker\.queues: .*' mail'.*1.*200"),
    ("[weather]\nevery = '0s'", r"weather\.every: .*'0s'.*0"),
    ("[log]\nlevel = 'loud'", r"log\.level: .*'loud'.*'debug'.*'info'.*'warning'.*'error'"),
    ("simulators = 'perhaps'", r"simulators: .*'perhaps'"),
    ("[retention.mail]\ndone = 'x'", r"retention\.mail\.done: .*'x'.*30s.*5m.*1h30m.*7d"),
    ("apps = ['wether']", r"apps: .*'wether'.* weather"),
    ("apps = ['xyz']", r"apps: .*'xyz'.* weather"),
    ("db = 'mysql://ada:geheim@host/db'", r"db: .*'mysql'.*://.*jobs\.db.*://"),
    ("db = 'ada:geheim@host/db'", r"db: .*://.*jobs\.db.*://"),
    ("db = 5", r"db: .*5"),
    ("[weather.limits]\nnorth = 'x'", r"weather\.limits: .*'x'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line"), MISTAKES)
def test_a_mistake_in_the_file_is_one_line(text: str, line: str) -> None:
    (found,) = mistakes(text)
    assert re.match(rf"tidegate\.toml: {line}", found)


@pytest.mark.parametrize(
    ("variable", "value", "what"),
    [
        ("TIDEGATE_SERVER_PROT", "1", "TIDEGATE_SERVER_PORT"),
        ("TIDEGATE_QQQ", "1", ""),
        ("TIDEGATE_SERVER_PORT", "many", "'many'"),
        ("TIDEGATE_WEATHER_LIMITS", "{", r"'\{'.*JSON"),
        ("TIDEGATE_WEATHER_STATIONS", "[1", r"'\[1'.*JSON"),
        ("METEO_EVERY", "soon", r"'soon'.*30s.*5m.*1h30m.*7d"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_variable_names_the_variable(variable: str, value: str, what: str) -> None:
    (found,) = mistakes("", {variable: value})
    assert re.match(f"{variable}: .*{what}", found)


def test_a_mistake_in_a_flag_names_the_flag() -> None:
    assert [each.startswith("--concurrency: 0 ") for each in mistakes("", {}, {"worker.concurrency": 0})] == [True]


def test_all_mistakes_come_together() -> None:
    found = mistakes(
        "prot = 1\napps = ['wether']\n[server]\nport = -1\nhost = 'example.org'\n[weather]\nqueue_max = 0\n",
        {"TIDEGATE_LOG_LEVEL": "loud", "TIDEGATE_DBB": "x", "TIDEGATE_WEATHER_API_KEY": "env:NOT_THERE"},
        {"worker.concurrency": 0},
    )

    assert [line.partition(":")[0] if line[0] in "T-" else line.split(": ")[1] for line in found] == [
        "prot", "TIDEGATE_DBB", "TIDEGATE_WEATHER_API_KEY", "server.host", "server.port", "--concurrency",
        "TIDEGATE_LOG_LEVEL", "apps", "weather.queue_max",
    ]  # fmt: skip


def test_a_file_that_is_no_toml_says_where_and_hides_no_other_mistake() -> None:
    found = mistakes("[server\nport = 1\n", {"TIDEGATE_DBB": "x"})

    assert found[0].startswith("tidegate.toml: ")
    assert "line 1" in found[0]
    assert found[1].startswith("TIDEGATE_DBB: ")


@pytest.mark.parametrize(
    ("content", "what"),
    [(None, r"my\.toml"),
     (b"\xff", r"UTF.*8"), ("folder", "Is a directory")],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_a_mistake_if_it_was_asked_for(
    folder: Path, content: bytes | str | None, what: str
) -> None:
    if isinstance(content, bytes):
        (folder / "my.toml").write_bytes(content)
    elif content:
        (folder / "my.toml").mkdir()

    with pytest.raises(SettingsError) as by_flag:
        load(file="my.toml", environ={})
    with pytest.raises(SettingsError) as by_variable:
        load(environ={"TIDEGATE_CONFIG": "my.toml"})

    assert re.match(rf"my\.toml: .*{what}", str(by_flag.value))
    assert str(by_variable.value) == f"TIDEGATE_CONFIG: {by_flag.value}"


def test_what_must_be_given_and_is_not_is_said_with_its_variable() -> None:
    class Needy(BaseModel):
        station: str

    needy = App(name="needy", settings=Needy)
    with pytest.raises(SettingsError) as raised:
        load(environ={}, apps=[needy])

    assert names(str(raised.value), "tidegate.toml: needy.station: ", "TIDEGATE_NEEDY_STATION")
    assert load(environ={"TIDEGATE_APPS": "[]"}, apps=[needy]).apps == ()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TIDEGATE_SERVICE_HOST", "10.0.0.7"), ("TIDEGATE_SERVICE_PORT", "8321"),
        ("TIDEGATE_SERVICE_PORT_HTTP", "8321"), ("TIDEGATE_PORT", "tcp://10.0.0.7:8321"),
        ("TIDEGATE_PORT_8321_TCP", "tcp://10.0.0.7:8321"), ("TIDEGATE_PORT_8321_TCP_ADDR", "10.0.0.7"),
        ("TIDEGATE_SERVER_PORT", "tcp://10.0.0.7:8321"), ("TIDEGATE_WEB_SERVICE_HOST", "10.0.0.7"),
        ("TIDEGATE_CONFIG", ""), ("TIDEGATE_SECRET_KEY", "x" * 32), ("TIDEGATE", "x"), ("tidegate_url", "x"),
    ],
)  # fmt: skip
def test_what_kubernetes_puts_in_and_what_others_read_is_no_mistake(variable: str, value: str) -> None:
    assert settings("", {variable: value}).values.server.port == 8321


def test_an_application_that_cannot_be_used_matters_only_if_it_is_to_run() -> None:
    text = "[broken]\nx = 1\n"
    Path("tidegate.toml").write_text(text)
    environ = {"TIDEGATE_BROKEN_X": "1"}
    why = {"broken": "it needs the module 'sky'"}

    with pytest.raises(SettingsError) as raised:
        load(environ=environ, apps=[WEATHER], broken=why)
    assert names(str(raised.value), "apps: ", "'broken'", "'sky'")
    assert load(environ={**environ, "TIDEGATE_APPS": "weather"}, apps=[WEATHER], broken=why).apps == ("weather",)


class ReadsByItself(BaseSettings):
    pass


class Twice(BaseModel):
    class Inner(BaseModel):
        url: str = ""

    gateway: Inner = Inner()
    gateway_url: str = ""


@pytest.mark.parametrize(
    ("app", "says"),
    [
        (App(name="server", settings=BaseModel), "'server'"),
        (App(name="wild", settings=dict), "pydantic"),
        (App(name="wild", settings=ReadsByItself), "environment"),
        (App(name="wild", settings=Twice), "TIDEGATE_WILD_GATEWAY_URL"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_an_application_whose_settings_cannot_work_is_misuse(app: App[Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        load(environ={}, apps=[app])
