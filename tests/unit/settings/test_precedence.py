"""Flags before variables before the file before defaults, for every kind of value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tests.unit.settings.weather import WEATHER, Radar, origins, settings
from tidegate.apps import App
from tidegate.errors import NotFound
from tidegate.settings import Seconds, load

FILE = "[server]\nport = 1001\n[weather]\nqueue_max = 11\nevery = '11s'\n"
VARIABLES = {"TIDEGATE_SERVER_PORT": "1002", "TIDEGATE_WEATHER_QUEUE_MAX": "12", "TIDEGATE_WEATHER_EVERY": "12s"}
FLAGS = {"server.port": 1003, "weather.queue_max": 13, "weather.every": "13s"}


@pytest.mark.parametrize(
    ("text", "environ", "flags", "port", "every"),
    [
        ("", {}, {}, ("8321", "default"), ("3m", "default")),
        (FILE, {}, {}, ("1001", "tidegate.toml"), ("11s", "tidegate.toml")),
        ("", VARIABLES, {}, ("1002", "TIDEGATE_SERVER_PORT"), ("12s", "TIDEGATE_WEATHER_EVERY")),
        ("", {}, FLAGS, ("1003", "--port"), ("13s", "--every")),
        (FILE, VARIABLES, {}, ("1002", "TIDEGATE_SERVER_PORT"), ("12s", "TIDEGATE_WEATHER_EVERY")),
        (FILE, {}, FLAGS, ("1003", "--port"), ("13s", "--every")),
        ("", VARIABLES, FLAGS, ("1003", "--port"), ("13s", "--every")),
        (FILE, VARIABLES, FLAGS, ("1003", "--port"), ("13s", "--every")),
    ],
)
def test_the_nearest_source_wins(
    text: str, environ: dict[str, str], flags: dict[str, Any], port: tuple[str, str], every: tuple[str, str]
) -> None:
    found = settings(text, environ, flags)

    assert origins(found)["server.port"] == port
    assert origins(found)["weather.every"] == every
    assert str(found.values.server.port) == port[0]
    assert found.app("weather").every == Seconds(every[0])


def test_a_source_gives_only_what_it_says(folder: Path) -> None:
    found = settings("[server]\nport = 1001\n", {"TIDEGATE_SERVER_NAMES": "a.lan"}, {"server.host": "::1"})

    assert found.values.server.model_dump() == {
        "host": "::1", "port": 1001, "names": ("a.lan",), "trusted_proxies": ("127.0.0.1", "::1"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("environ", "every"),
    [
        ({"METEO_EVERY": "4m"}, ("4m", "METEO_EVERY")),
        ({"METEO_INTERVAL": "5m"}, ("5m", "METEO_INTERVAL")),
        ({"METEO_INTERVAL": "5m", "METEO_EVERY": "4m"}, ("4m", "METEO_EVERY")),
        ({"METEO_EVERY": "4m", "TIDEGATE_WEATHER_EVERY": "6m"}, ("6m", "TIDEGATE_WEATHER_EVERY")),
        ({"METEO_EVERY": ""}, ("11s", "tidegate.toml")),
    ],
)
def test_the_names_that_an_application_also_takes_come_after_ours_and_before_the_file(
    environ: dict[str, str], every: tuple[str, str]
) -> None:
    assert origins(settings(FILE, environ))["weather.every"] == every


@pytest.mark.parametrize(
    ("variable", "text", "key", "value", "shown"),
    [
        ("TIDEGATE_SERVER_NAMES", "a.lan, B.lan,", "server.names", ("a.lan", "b.lan"), "a.lan, b.lan"),
        ("TIDEGATE_SERVER_NAMES", '["a.lan"]', "server.names", ("a.lan",), "a.lan"),
        ("TIDEGATE_WEATHER_STATIONS", "[]", "weather.stations", (), ""),
        ("TIDEGATE_WEATHER_LIMITS", '{"north": 3}', "weather.limits", {"north": 3}, '{"north": 3}'),
        ("TIDEGATE_WEATHER_ON", "false", "weather.on", False, "false"),
        ("TIDEGATE_WEATHER_ON", "1", "weather.on", True, "true"),
        ("TIDEGATE_WEATHER_RADAR_RADIUS", "2.5", "weather.radar.radius", 2.5, "2.5"),
        ("TIDEGATE_SIMULATORS", "yes", "simulators", True, "true"),
        ("TIDEGATE_WORKER_GRACE", "90", "worker.grace", 90.0, "90"),
        ("TIDEGATE_WEATHER_MODE", "stale", "weather.mode", "stale", "stale"),
    ],
)
def test_text_becomes_a_value_of_its_kind(variable: str, text: str, key: str, value: object, shown: str) -> None:
    found = settings("", {variable: text})

    assert value_at(found, key) == value
    assert origins(found)[key] == (shown, variable)


def value_at(found: Any, key: str) -> object:
    first, *rest = key.split(".")
    value = found.app(first) if first == "weather" else getattr(found.values, first)
    for name in rest:
        value = getattr(value, name)
    return value


def test_an_empty_variable_is_none() -> None:
    assert origins(settings(FILE, {"TIDEGATE_SERVER_PORT": ""}))["server.port"] == ("1001", "tidegate.toml")


def test_a_flag_that_was_not_given_is_none_and_an_unknown_one_is_misuse() -> None:
    assert origins(settings(FILE, {}, {"server.port": None}))["server.port"] == ("1001", "tidegate.toml")
    with pytest.raises(ValueError, match=r"'server\.prot'.*\bserver\.port\b"):
        settings("", {}, {"server.prot": 1})


def test_the_file_may_lie_elsewhere(folder: Path) -> None:
    (folder / "tidegate.toml").write_text("simulators = true\n")
    other = folder / "other.toml"
    other.write_text("[server]\nport = 7\n")

    by_flag = load(file="other.toml", environ={})
    by_variable = load(environ={"TIDEGATE_CONFIG": str(other)})

    assert (by_flag.file, by_flag.values.simulators) == (Path("other.toml"), False)
    assert origins(by_flag)["server.port"] == ("7", "other.toml")
    assert origins(by_variable)["server.port"] == ("7", str(other))
    assert load(file="tidegate.toml", environ={"TIDEGATE_CONFIG": str(other)}).values.simulators


def test_without_a_file_there_are_defaults() -> None:
    found = settings()

    assert found.file is None
    assert {origin for _, origin in origins(found).values()} == {"default"}
    assert found.values.db == "sqlite:///tidegate.db"


def test_retention_is_by_queue() -> None:
    found = settings("[retention]\nfailed = '60d'\n[retention.mail]\ndone = '1d'\n[retention.'my queue']\ndone = 5\n")

    day = 86400
    assert found.values.retention.by_queue() == {
        "*": {"done": 7 * day, "failed": 60 * day, "cancelled": 30 * day},
        "mail": {"done": 1 * day},
        "my queue": {"done": 5},
    }
    shown = origins(found)
    assert shown["retention.mail.done"] == ("1d", "tidegate.toml")
    assert "retention.mail.failed" not in shown


class Site(BaseModel):
    height: int = 0
    radar: Radar = Radar()


class Sites(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Site] = Field(init=False)


def test_a_table_in_a_table_with_a_name_of_the_user_s_choice_counts() -> None:
    text = "[sites.north]\nheight = 7\n[sites.north.radar]\nradius = 3\n[sites.south.radar]\nradius = 4\n"

    found = settings(text, apps=(App(name="sites", settings=Sites),))

    north, south = Site(height=7, radar=Radar(radius=3)), Site(radar=Radar(radius=4))
    assert found.app("sites").model_extra == {"north": north, "south": south}
    assert origins(found)["sites.north.radar.radius"] == ("3.0", "tidegate.toml")


def test_values_are_frozen() -> None:
    with pytest.raises(ValidationError):
        settings().values.server.port = 1


@pytest.mark.parametrize(
    ("text", "names"),
    [("", ["weather", "other"]), ("apps = ['other']", ["other"]), ("apps = []", []),
     ("apps = ['other', '*']", ["other", "weather"])],
)  # fmt: skip
def test_the_applications_that_run_are_those_that_are_named(text: str, names: list[str]) -> None:
    found = settings(text or "simulators = false", apps=(WEATHER, App(name="other")))

    assert list(found.apps) == names
    assert [name for name in ("weather", "other") if any(key.startswith(name) for key in origins(found))] == [
        name for name in names if name == "weather"
    ]
    for name in {"weather", "other"} - set(names):
        with pytest.raises(NotFound):
            found.app(name)
    if "other" in names:
        assert found.app("other") is None
