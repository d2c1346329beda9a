"""`tidegate serve --simulators`, with the applications that are installed here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tidegate import server
from tidegate.apps import simulated as simulated_services
from tidegate.settings import load
from tidegate.web.pages.notices import place_of

# Target and key, and the page where that is seen.
TOLD = {
    ("convert-gateway", ""): "/convert",
    ("feeds", "7"): "/feeds/7",
    ("feeds", "unclassified"): "/feeds/unclassified",
    ("feeds", "host a.example:443"): "/feeds/host%20a.example%3A443",
    ("lidarr", ""): "/lidarr",
    ("spotify", "7"): "/music",
    ("tautulli-api", ""): "/tautulli",
    ("somebody's", ""): "/targets/somebody%27s",
}


@dataclass(frozen=True)
class Told:
    """What a notice is about."""

    name: str
    key: str
    kind: str = "fatal"
    subject: str = "target"
    operation: str = ""


def test_every_application_can_be_run_on_its_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    apps, broken = server.there_are()
    assert broken == {}
    loaded = load(environ={}, apps=apps)

    with server.assembled(loaded, apps, simulators=True) as there:
        assert [each.app.name for each in there.apps] == [app.name for app in apps]
        assert set(there.simulators) == {app.name for app in apps if simulated_services(app) is not None} != set()
        # Whoever starts it is told what to do with them, where that is not plain.
        address = there.simulators["feeds"].url
        assert f"{address}/feed/1 to {address}/feed/12" in there.uses["feeds"]
        assert "{url}" not in "".join(there.uses.values())
        # What is told of a target of theirs leads to their own pages.
        assert {each: place_of(Told(*each), there.apps) for each in TOLD} == TOLD


def test_whoever_runs_the_applications_keeps_to_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    apps = [app for app in server.there_are()[0] if app.name == "tautulli"]
    for value, simulated in (("true", {"tautulli"}), ("false", set())):
        loaded = load(environ={"TIDEGATE_SIMULATORS": value}, apps=apps)
        with server.assembled(loaded, apps) as there:
            assert set(there.simulators) == simulated


def test_what_a_simulator_says_nothing_of_stays_as_it_was_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    apps = [app for app in server.there_are()[0] if app.name == "music"]
    (tmp_path / "tidegate.toml").write_text('[music]\nreprobe = "5m"\n[music.spotify]\nevery = "17s"\n')

    with server.assembled(load(environ={}, apps=apps), apps, simulators=True) as there:
        settings = there.apps[0].settings

        assert (float(settings.reprobe), float(settings.spotify.every)) == (300.0, 17.0)
        assert settings.spotify.url.startswith("http://127.0.0.1:")
