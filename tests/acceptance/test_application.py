"""The application of the docs, built as the page says, installed, and run by a real server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-an-application.md"
FILE = re.compile(r"^`([\w/.]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = Path(sys.executable).with_name("tidegate")


class Weather:
    """The package as the page lays it out, and commands that are run beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = dict(FILE.findall(PAGE.read_text()))
        (folder / "weather").mkdir()
        (folder / "weather" / "__init__.py").touch()
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        # What pip would write, without asking an index for what the package needs to be built.
        about = folder / "weather-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: weather\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("[tidegate.apps]\nweather = weather.app:app\n")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
        self.environment = {**kept, "PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1"}

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [COMMAND, *args], cwd=self.folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *args: str) -> str:
        process = self.start(*args)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        return out


@pytest.fixture
def weather(tmp_path: Path) -> Weather:
    return Weather(tmp_path)


@pytest.fixture
def served(weather: Weather) -> Iterator[tuple[str, str]]:
    """Its address, and that of the simulator's control."""
    process = weather.start("serve", "--simulators", "--port", "0")
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if "stop with" in line:
            break
    try:
        address = re.search(r"is running at (http\S+)", said)
        control = re.search(r"weather\b[^\n]*http\S+\s+[^\n]*?(http\S+)", said)
        assert address is not None, process.communicate(timeout=60)[1]
        assert control is not None, said
        yield address[1], control[1]
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            _, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    assert "Traceback" not in errors


def until(what: Callable[[], Any], seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return found


def of_city(client: httpx2.Client, name: str) -> list[float]:
    """What is known of one city; of others its schedule tells, every five minutes."""
    return [each["degrees"] for each in client.get("/api/weather").json() if each["city"] == name]


@pytest.mark.full
def test_the_settings_that_are_shown_know_of_the_flag(served: tuple[str, str]) -> None:
    page = httpx2.get(f"{served[0]}/settings", timeout=60).text
    shown = re.search(r"<code>simulators</code>.*?</tr>", page, re.DOTALL)
    assert shown is not None
    assert "true" in shown[0]
    simulator = served[1].rpartition("/control")[0]
    assert f"<code>{simulator}" in page


def test_it_is_served_with_its_jobs_routes_page_and_simulator(weather: Weather, served: tuple[str, str]) -> None:
    address, _ = served
    with httpx2.Client(base_url=address, timeout=60) as client:
        assert of_city(client, "Paris") == []
        assert client.post("/api/weather/Paris").json()["created"] is True
        assert until(lambda: of_city(client, "Paris")) == [7.5]
        page = client.get("/weather")
        assert page.status_code == 200
        assert '<th scope="row">Paris</th><td>7.5</td>' in page.text
        assert 'href="/weather"' in page.text
        assert "weather" in client.get("/targets").text
        assert "NO_CITY" in client.get("/help").text
    assert "Paris  7.5" in weather.run("weather", "cities", "--db", "sqlite:///tidegate.db").splitlines()


@pytest.mark.full
def test_an_outage_holds_its_jobs_and_loses_none(served: tuple[str, str]) -> None:
    address, control = served
    with httpx2.Client(base_url=address, timeout=60) as client, httpx2.Client(base_url=control, timeout=60) as weather:
        assert weather.post("/outage", json={"text": "10m down"}).is_success
        job = client.post("/api/weather/Lima").json()["job"]

        def held() -> bool:
            whys = client.get(f"/api/v1/jobs/{job}").json()["waits_for"]
            return bool({why["reason"] for why in whys} & {"backoff", "scheduled", "capacity", "breaker"})

        until(held, 150)
        assert of_city(client, "Lima") == []
        assert weather.delete("/outage").is_success
        assert until(lambda: of_city(client, "Lima"), 120) == [7.5]


@pytest.mark.full
def test_its_settings_are_among_all_others_and_its_token_is_masked(weather: Weather) -> None:
    weather.environment["TIDEGATE_WEATHER_TOKEN"] = "hunter2"
    shown = weather.run("config", "--json")
    assert "hunter2" not in shown
    keys = {each["key"]: each for each in json.loads(shown)}
    assert keys["weather.token"]["origin"] == "TIDEGATE_WEATHER_TOKEN"
    assert keys["weather.most"]["value"] == "50"


def test_its_verb_is_in_the_help(weather: Weather) -> None:
    assert "weather" in weather.run("--help")
    assert "List the cities." in weather.run("weather", "--help")
