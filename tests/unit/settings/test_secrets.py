"""Secrets: from a variable or a file, and never shown."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from tests.unit.settings.weather import origins, settings
from tidegate.apps import App
from tidegate.settings import SettingsError, store_url

KEY = "kx7-Qwertz-91"


def key_of(found: Any) -> str:
    return str(found.app("weather").api_key.get_secret_value())


@pytest.mark.parametrize("given", [KEY, "env:METEO_KEY", "file:key.txt", "file: {folder}/key.txt"])
@pytest.mark.parametrize("source", ["file", "variable", "flag"])
def test_a_secret_may_be_kept_in_a_variable_or_a_file(folder: Path, given: str, source: str) -> None:
    (folder / "key.txt").write_text(KEY + "\r\n")
    given = given.format(folder=folder)
    environ = {"METEO_KEY": KEY}
    match source:
        case "file":
            found = settings(f"[weather]\napi_key = '{given}'\n", environ)
        case "variable":
            found = settings("", {**environ, "TIDEGATE_WEATHER_API_KEY": given})
        case _:
            found = settings("", environ, {"weather.api_key": given})

    assert key_of(found) == KEY
    shown = origins(found)["weather.api_key"][0]
    assert shown == ("********" if given == KEY else f"******** from {given}")


def test_a_path_starts_where_the_settings_file_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "etc").mkdir()
    (folder / "etc" / "key.txt").write_text(KEY)
    (folder / "etc" / "tidegate.toml").write_text("[weather]\napi_key = 'file:key.txt'\n")

    assert key_of(settings("", {"TIDEGATE_CONFIG": "etc/tidegate.toml"})) == KEY


def test_each_of_many_secrets_may_be_kept_elsewhere() -> None:
    found = settings("[weather]\nmore_keys = ['env:ONE', 'plain-and-long']\n", {"ONE": KEY})

    assert [key.get_secret_value() for key in found.app("weather").more_keys] == [KEY, "plain-and-long"]
    assert origins(found)["weather.more_keys"][0] == "******** from env:ONE"


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("env:NOT_THERE", "the variable NOT_THERE is not set; set it"),
        ("env:EMPTY", "the variable EMPTY is empty; set it"),
        ("env:", r"env: .*NAME"),
        ("file:", r"file: .*PATH"),
        ("file:none.txt", r"none\.txt"),
        ("file:empty.txt", r"empty\.txt"),
        ("file:/dev/zero", "/dev/zero"),
        ("file:odd.bin", r"odd\.bin.*UTF.*8"),
    ],
)
def test_a_secret_that_is_not_there_is_said_plainly(folder: Path, given: str, what: str) -> None:
    (folder / "empty.txt").write_text("\n")
    (folder / "odd.bin").write_bytes(b"\xff\xfe")

    with pytest.raises(SettingsError) as raised:
        settings(f"[weather]\napi_key = '{given}'\n", {"EMPTY": ""})

    assert re.match(rf"tidegate\.toml: weather\.api_key: .*{what}", str(raised.value))


@pytest.mark.parametrize("text", ["[weather]\napi_key = '{}'\n", "[weather]\napi_key = 'env:METEO_KEY'\n"])
def test_no_secret_is_in_what_is_printed(text: str) -> None:
    found = settings(text.format(KEY), {"METEO_KEY": KEY})

    for printed in (repr(found), str(found.values), repr(found.app("weather")), repr(found.effective())):
        assert KEY not in printed
    assert repr(found.effective()).count("********") == 1


@pytest.mark.parametrize("given", ["env:K", "qzj"])
def test_no_secret_is_in_the_message_about_it(given: str) -> None:
    environ = {"TIDEGATE_WEATHER_API_KEY": given, "K": "qzj"}
    with pytest.raises(SettingsError) as raised:
        settings("", environ)

    assert str(raised.value).startswith("TIDEGATE_WEATHER_API_KEY: ")
    assert "qzj" not in "".join(traceback.format_exception(raised.value))


def test_a_secret_of_the_wrong_kind_is_not_printed_either() -> None:
    with pytest.raises(SettingsError) as raised:
        settings("[weather]\napi_key = 47114712\n")

    assert "47114712" not in str(raised.value)
    assert "weather.api_key" in str(raised.value)


def test_a_password_in_an_address_is_masked() -> None:
    found = settings("db = 'env:DB'\n", {"DB": "postgresql://ada:geheim@db.lan/tide"})

    assert found.values.db == "postgresql://ada:geheim@db.lan/tide"
    assert origins(found)["db"] == ("postgresql://***@db.lan/tide from env:DB", "tidegate.toml")
    assert "geheim" not in repr(found) + repr(found.effective())


def test_only_secrets_and_the_database_are_looked_up() -> None:
    found = settings("[weather]\nstations = ['env:HOME']\n", {"HOME": "/root"})

    assert found.app("weather").stations == ("env:HOME",)
    assert store_url(environ={"TIDEGATE_DB": "env:DB", "DB": "sqlite:///a.db"}) == "sqlite:///a.db"


def test_not_even_the_beginning_of_a_long_secret_is_in_the_message_about_it() -> None:
    class Settings(BaseModel):
        api_key: SecretStr = Field(default=SecretStr(""), max_length=100)

    with pytest.raises(SettingsError) as error:
        settings(f"[long]\napi_key = '{KEY * 12}'\n", apps=(App(name="long", settings=Settings),))

    assert re.match(r"tidegate\.toml: long\.api_key: .*100", str(error.value))
    assert KEY not in str(error.value)


def test_a_key_with_which_the_server_would_not_start_is_a_mistake_of_the_settings() -> None:
    with pytest.raises(SettingsError) as error:
        settings("secret_key = 'short'\n[jwt]\npublic_key = 'none'\n")

    first, second = map(str, error.value.problems)
    assert re.match(r"tidegate\.toml: secret_key: .*5 ", first)
    assert re.match(r"tidegate\.toml: jwt\.public_key: .*PEM", second)
