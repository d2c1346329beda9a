"""The file that `tidegate init` writes: every key, and uncommented it changes nothing."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from tests.unit.settings.weather import WEATHER, origins, settings
from tidegate.apps import App
from tidegate.settings import sample
from tidegate.settings.sample_file import toml


def uncommented(text: str) -> str:
    return re.sub(r"^#(?=\S)", "", text, flags=re.MULTILINE)


def test_as_it_is_written_it_sets_nothing() -> None:
    assert {origin for _, origin in origins(settings(sample([WEATHER]))).values()} == {"default"}


def test_uncommented_it_gives_every_default() -> None:
    defaults = settings()
    found = settings(uncommented(sample([WEATHER])))

    assert found.values == defaults.values
    assert found.app("weather") == defaults.app("weather")
    values = {key: value for key, (value, _) in origins(found).items()}
    assert values == {key: value for key, (value, _) in origins(defaults).items()}
    from_file = {key for key, (_, origin) in origins(found).items() if origin == "tidegate.toml"}
    assert set(values) - from_file == {"secret_key", "weather.api_key", "weather.more_keys"}  # a secret has no default


def test_every_key_is_there_with_what_it_is_for() -> None:
    lines = sample([WEATHER]).splitlines()

    for each in settings().effective():
        at = next(i for i, line in enumerate(lines) if re.match(rf"#? ?{each.key.rpartition('.')[2]} = ", line))
        assert each.about
        assert lines[at - 1] == f"# {each.about}"


def test_a_secret_is_shown_by_an_example_and_what_must_be_given_is_said() -> None:
    class Needy(BaseModel):
        token: SecretStr = SecretStr("built-in-secret")
        station: str

    text = sample([App(name="needy", settings=Needy)])

    assert re.search(r'^# token = "env:NAME"\n(# .*\n)*# station = \.\.\.$', text, re.MULTILINE)
    assert "built-in-secret" not in text


@pytest.mark.parametrize(
    "value",
    ["plain", 'a "quoted" \\ one', "two\nlines\x7f\x00", "ü", True, 3, 2.5, [1, 2], ["a"], {"a b": {"c": 1}}, {}, []],
    ids=repr,
)
def test_a_default_is_written_so_that_toml_reads_it(value: Any) -> None:
    assert tomllib.loads(f"x = {toml(value)}")["x"] == value
