"""The page about tautulli says what is true."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from fastapi import FastAPI

from tests.apps.tautulli.building import Desk, samples
from tidegate_apps.tautulli.api import routes
from tidegate_apps.tautulli.cli import tautulli
from tidegate_apps.tautulli.settings import TautulliSettings
from tidegate_demo.simulators.tautulli import STATES

PAGE = Path("docs/how-to/run-tautulli.md").read_text(encoding="utf-8")


def test_the_settings_are_all_there_with_their_defaults() -> None:
    shown = tomllib.loads(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[-1])["tautulli"]
    assert TautulliSettings(**shown) == TautulliSettings()
    assert set(shown) == set(TautulliSettings.model_fields)


def test_every_command_and_every_route_is_told_of(quick: Desk) -> None:
    for name in tautulli.commands:
        assert f"tidegate tautulli {name} " in PAGE
    told = set(re.findall(r"`(?:GET|POST) (/api/v1/tautulli/\w+)", PAGE))
    server = FastAPI()
    server.include_router(routes(quick.there))
    assert told == set(server.openapi()["paths"])
    states = re.search(r"curl -d database \S+ +# or (.*)", PAGE)
    assert states is not None
    assert set(states[1].split(", ")) <= set(STATES)


@pytest.mark.req("BRK-08")
def test_the_alert_rules_ask_for_numbers_that_are_there(quick: Desk) -> None:
    assert quick.breaker.name == "tautulli-api"
    there = {name.split()[0] for name in samples()}
    rules = re.findall(r"expr: '([^']+)'", PAGE)
    asked = re.findall(r"circuit_breaker_(\w+)\{name=\"tautulli-api\"", " ".join(rules))
    assert sorted(asked) == ["consecutive_failures", "requests_total", "state", "state_transitions_total"]
    assert set(asked) == there
    assert re.findall(r"for: \dm", PAGE) == ["for: 5m", "for: 2m"]
