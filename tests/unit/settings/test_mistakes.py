"""Every mistake is one line that says where, what and what to give; all of them come together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_settings import BaseSettings

from tests.unit.settings.weather import WEATHER, settings
from tidegate.face.app import App
from tidegate.settings import SettingsError, load


def mistakes(text: str = "", environ: dict[str, str] | None = None, flags: dict[str, Any] | None = None) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        settings(text, environ, flags)
    assert str(raised.value).splitlines() == [str(each) for each in raised.value.problems]
    return str(raised.value).splitlines()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[server]\nprot = 1", "server.prot: there is no such key; did you mean port?"),
        ("port = 1", "port: there is no such key; did you mean server.port?"),
        ("[sever]\nport = 1", "sever: there is no such section; did you mean server?"),
        ("[lidarr]\nx = 1", ("lidarr: there is no such section, and no application of that name is installed; "
         "install it, or take it out")),
        ("[log]\nxyz = 1", "log.xyz: there is no such key; there are: level, format"),
        ("server = 1", "server: it is a section, not a value; write [server] above its keys"),
        ("[weather.radar]\nradios = 1", "weather.radar.radios: there is no such key; did you mean radius?"),
        ("[retention]\ndoen = '1d'", "retention.doen: there is no such key; did you mean done?"),
        ("[retention.mail]\ndoen = '1d'", "retention.mail.doen: there is no such key; did you mean done?"),
        ("[server]\nport = 65536", "server.port: 65536 is not allowed; give 65535 or less"),
        ("[server]\nport = 'x'", "server.port: 'x' is not allowed; give a whole number"),
        ("[server]\nnames = 'a.lan'", "server.names: 'a.lan' is not allowed; give a list such as [\"one\", \"two\"]"),
        ("[server]\nnames = ['a.lan:80']", ("server.names: 'a.lan:80' is no host name; give a name such as "
         "tidegate.lan, without a port")),
        ("[server]\nhost = 'here'", ("server.host: 'here' is no address; give 127.0.0.1, 0.0.0.0, ::1 or another of "
         "this machine")),
        ("[worker]\ngrace = 'soon'", "worker.grace: 'soon' is no duration; give one such as 30s, 5m, 1h30m or 7d"),
        ("[worker]\ngrace = -1", ("worker.grace: -1 is not allowed; give 0 seconds or more, and finite (a hundred "
         "years)")),
        ("[worker]\nqueues = [' mail']", ("worker.queues: ' mail' is not allowed; give 1 to 200 printable characters, "
         "no space at the ends")),
        ("[weather]\nevery = '0s'", "weather.every: '0s' is not allowed; give more than 0"),
        ("[log]\nlevel = 'loud'", "log.level: 'loud' is not allowed; give 'debug', 'info', 'warning' or 'error'"),
        ("simulators = 'perhaps'", "simulators: 'perhaps' is not allowed; give true or false"),
        ("[retention.mail]\ndone = 'x'", ("retention.mail.done: 'x' is no duration; give one such as 30s, 5m, 1h30m or "
         "7d")),
        ("apps = ['wether']", "apps: there is no application 'wether'; did you mean weather?"),
        ("apps = ['xyz']", "apps: there is no application 'xyz'; there are: weather"),
        ("url = 'mysql://ada:geheim@host/db'", ("url: 'mysql' is not allowed; give sqlite:///jobs.db or "
         "postgresql://user@host/database")),
        ("url = 'ada:geheim@host/db'", "url: it is not allowed; give sqlite:///jobs.db or postgresql://user@host/database"),
        ("url = 5", "url: 5 is not allowed; give a text"),
        ("[weather.limits]\nnorth = 'x'", "weather.limits: 'x' is not allowed; give a whole number"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_one_line(text: str, line: str) -> None:
    assert mistakes(text) == [f"tidegate.toml: {line}"]


@pytest.mark.parametrize(
    ("variable", "value", "what"),
    [
        ("TIDEGATE_SERVER_PROT", "1", "there is no such setting; did you mean TIDEGATE_SERVER_PORT?"),
        ("TIDEGATE_QQQ", "1", "there is no such setting; unset it"),
        ("TIDEGATE_SERVER_PORT", "many", "'many' is not allowed; give a whole number"),
        ("TIDEGATE_WEATHER_LIMITS", "{", "'{' is no JSON; give a table such as {\"name\": \"value\"}"),
        ("TIDEGATE_WEATHER_STATIONS", "[1", ("'[1' is no JSON; give names with commas between them, or [\"one\", "
         "\"two\"]")),
        ("METEO_EVERY", "soon", "'soon' is no duration; give one such as 30s, 5m, 1h30m or 7d"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_variable_names_the_variable(variable: str, value: str, what: str) -> None:
    assert mistakes("", {variable: value}) == [f"{variable}: {what}"]


def test_a_mistake_in_a_flag_names_the_flag() -> None:
    assert mistakes("", {}, {"worker.concurrency": 0}) == ["--concurrency: 0 is not allowed; give 1 or more"]


def test_all_mistakes_come_together() -> None:
    found = mistakes(
        "prot = 1\napps = ['wether']\n[server]\nport = -1\nhost = 'example.org'\n[weather]\nqueue_max = 0\n",
        {"TIDEGATE_LOG_LEVEL": "loud", "TIDEGATE_URLL": "x", "TIDEGATE_WEATHER_API_KEY": "env:NOT_THERE"},
        {"worker.concurrency": 0},
    )

    assert [line.partition(":")[0] if line[0] in "T-" else line.split(": ")[1] for line in found] == [
        "prot", "TIDEGATE_URLL", "TIDEGATE_WEATHER_API_KEY", "server.host", "server.port", "--concurrency",
        "TIDEGATE_LOG_LEVEL", "apps", "weather.queue_max",
    ]  # fmt: skip


def test_a_file_that_is_no_toml_says_where_and_hides_no_other_mistake() -> None:
    found = mistakes("[server\nport = 1\n", {"TIDEGATE_URLL": "x"})

    assert found[0].startswith("tidegate.toml: it is no TOML: ")
    assert "line 1" in found[0]
    assert found[1].startswith("TIDEGATE_URLL: ")


@pytest.mark.parametrize(
    ("content", "what"),
    [(None, "there is no such file; write one with: tidegate init my.toml"),
     (b"\xff", "it cannot be read (it is no text in UTF-8)"), ("folder", "it cannot be read (Is a directory)")],
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

    assert str(by_flag.value) == f"my.toml: {what}"
    assert str(by_variable.value) == f"TIDEGATE_CONFIG: my.toml: {what}"


def test_what_must_be_given_and_is_not_is_said_with_its_variable() -> None:
    class Needy(BaseModel):
        station: str

    needy = App(name="needy", settings=Needy)
    with pytest.raises(SettingsError) as raised:
        load(environ={}, apps=[needy])

    assert str(raised.value) == (
        "tidegate.toml: needy.station: it is missing; give it there, or as TIDEGATE_NEEDY_STATION"
    )
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
    assert str(raised.value) == "apps: the application 'broken' cannot be used: it needs the module 'sky'"
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
        (App(name="server", settings=BaseModel), "may not be called 'server'"),
        (App(name="wild", settings=dict), "its settings are no pydantic model"),
        (App(name="wild", settings=ReadsByItself), "read the environment by themselves"),
        (App(name="wild", settings=Twice), "TIDEGATE_WILD_GATEWAY_URL would mean both"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_an_application_whose_settings_cannot_work_is_misuse(app: App[Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        load(environ={}, apps=[app])
