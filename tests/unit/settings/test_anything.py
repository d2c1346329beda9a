"""Whatever somebody writes: settings, or mistakes in one line each, and never anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.settings.weather import WEATHER
from tidegate.settings import SettingsError, load
from tidegate.settings.sample_file import toml

NAMES = st.sampled_from([
    "db", "apps", "simulators", "server", "worker", "log", "retention", "weather", "host", "port", "names", "radar",
    "api_key", "more_keys", "limits", "every", "grace", "done", "mail", "level", "zzz",
])  # fmt: skip
PLAIN = st.one_of(
    st.integers(-10, 10**6), st.booleans(), st.text(max_size=8), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["3m", "env:X", "file:/x", "localhost", "*", "sqlite:///a.db"]),
)  # fmt: skip
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2), max_leaves=4
)
FILES = st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES, max_size=3), max_size=4)
VARIABLES = st.dictionaries(
    st.sampled_from([
        "TIDEGATE_DB", "TIDEGATE_APPS", "TIDEGATE_SERVER_PORT", "TIDEGATE_RETENTION_DONE", "TIDEGATE_WEATHER_LIMITS",
        "TIDEGATE_WEATHER_API_KEY", "TIDEGATE_X", "TIDEGATE_WEATHER_STATIONS", "METEO_EVERY", "TIDEGATE_",
        "TIDEGATE_CONFIG",
    ]),
    st.text(max_size=8).filter(lambda text: "\0" not in text), max_size=2,
)  # fmt: skip


@pytest.mark.full
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(FILES, VARIABLES)
def test_there_are_settings_or_lines(content: dict[str, Any], environ: dict[str, str]) -> None:
    text = "\n".join(f"{name} = {toml(value)}" for name, value in content.items())
    Path("tidegate.toml").write_text(text, encoding="utf-8", errors="replace")
    told: list[str] = []
    try:
        found = load(environ=environ, apps=[WEATHER])
    except SettingsError as error:
        told = [str(each) for each in error.problems]
    else:
        found.values.retention.by_queue()
        told = [each.value for each in found.effective()]

    assert told
    assert all(each.isprintable() for each in told)
