"""The page use-in-fastapi.md, followed to the letter: a real server, a service that fails, hangs and comes back."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tidegate.testing import Hang, Simulator, Step

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-in-fastapi.md"
PATIENCE = 60.0  # seconds
SOONER = {'deadline="3s"': 'deadline="1s"'}  # a reader has more patience than a test
ROUTE = "GET /forecast/{city}"


@pytest.fixture
def sim() -> Iterator[Simulator]:
    with Simulator("forecasts") as found:
        found.on(ROUTE, {"rain": True})
        yield found


@contextmanager
def served(folder: Path, sim: Simulator) -> Iterator[httpx2.Client]:
    """The program of the page behind uvicorn, on a port that it takes itself."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for said, sooner in SOONER.items():
        assert said in code
        code = code.replace(said, sooner)
    (folder / "main.py").write_text(code)
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "main:app", "--port", "0"], cwd=folder, text=True, stderr=subprocess.PIPE,
        env={**os.environ, "FORECASTS": sim.url},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        address = next(found[0] for line in process.stderr if (found := re.search(r"http://[\d.:]+", line)))
        with httpx2.Client(base_url=address, timeout=PATIENCE) as client:
            yield client
    finally:
        process.kill()
        process.communicate()


def test_a_shut_gate_is_answered_with_503_and_when_to_come_back(tmp_path: Path, sim: Simulator) -> None:
    with served(tmp_path, sim) as client:
        assert client.get("/trips/oslo").json() == {"city": "oslo", "pack": "an umbrella"}
        sim.then(ROUTE, Step(503, headers={"Retry-After": "3600"}))

        failed, held = client.get("/trips/oslo"), client.get("/trips/oslo")

    assert (failed.status_code, "Retry-After" in failed.headers) == (502, False)
    assert (held.status_code, held.json()["detail"].split()[0]) == (503, "forecasts")
    assert 3000 < int(held.headers["Retry-After"]) <= 3600
    assert len(sim.asked()) == 2  # the service was left alone


@pytest.mark.full
def test_it_comes_back_by_itself_and_one_refused_call_holds_no_other(tmp_path: Path, sim: Simulator) -> None:
    with served(tmp_path, sim) as client:
        sim.then(ROUTE, Hang())
        assert client.get("/trips/oslo").status_code == 504
        end = time.monotonic() + PATIENCE
        while (again := client.get("/trips/oslo")).status_code == 503 and time.monotonic() < end:
            time.sleep(float(again.headers["Retry-After"]))
        assert again.status_code == 200
        sim.then(ROUTE, Step(401))

        refused, other = client.get("/trips/oslo"), client.get("/trips/oslo")

    assert refused.status_code == 502
    assert other.status_code == 200, "without a key nobody knows whose credentials were refused"
    assert sim.count(ROUTE) == 4
