"""The page use-in-celery.md, followed to the letter: a real worker, a broker of files, a service that fails."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidegate.testing import RecordedRequest, Simulator, Step

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-in-celery.md"
CONFIG = """
broker_url = "filesystem://"
broker_transport_options = {"data_folder_in": "broker", "data_folder_out": "broker", "control_folder": "control"}
result_backend = "file://results"
result_extended = True
"""
PATIENCE = 100.0  # seconds
PUT = "import sys, shop; [shop.send.apply_async((int(n),), task_id=n) for n in sys.argv[1:]]"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "shop.py").write_text(code)
    (tmp_path / "celeryconfig.py").write_text(CONFIG)
    for folder in ("broker", "control", "results"):
        (tmp_path / folder).mkdir()
    return tmp_path


@contextmanager
def worker(shop: Path, environment: dict[str, str]) -> Iterator[None]:
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "shop",
        "worker",
        "--pool",
        "solo",
        "--without-mingle",
        "-l",
        "INFO",
    ]
    with (shop / "worker.log").open("w") as log:
        process = subprocess.Popen(command, cwd=shop, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.kill()
            process.wait()


def results(shop: Path) -> dict[str, tuple[str, int]]:
    """The tasks that have ended, by id: their states, and the retries that they have used."""
    found = {}
    for path in (shop / "results").glob("celery-task-meta-*"):
        try:
            kept = json.loads(path.read_text())
        except ValueError:
            continue  # it is being written
        if kept["status"] in ("SUCCESS", "FAILURE"):
            found[kept["task_id"]] = (kept["status"], kept["retries"])
    return found


def until(what: Callable[[], bool], shop: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, (shop / "worker.log").read_text()
        time.sleep(0.2)


@pytest.mark.full
def test_the_retries_of_a_task_follow_what_the_failure_means(shop: Path) -> None:
    ill = True
    refused: list[float] = []  # when

    def answer(asked: RecordedRequest) -> Step:
        if ill:
            refused.append(asked.at)
            return Step(503, headers={"Retry-After": "3"})
        return Step(200, f"sent {asked.params['n']}")

    with Simulator("invoices") as sim:
        sim.on("POST /invoices/{n}", answer)
        sim.on("POST /invoices/404", Step(404))
        environment = {**os.environ, "INVOICES": sim.url}
        command = [sys.executable, "-c", PUT, "1", "2", "3", "404"]
        subprocess.run(command, cwd=shop, env=environment, timeout=PATIENCE, check=True)

        with worker(shop, environment):
            until(lambda: "Held('invoices'" in (shop / "worker.log").read_text(), shop)
            ill = False
            until(lambda: len(results(shop)) == 4, shop)

        done, calls, log = results(shop), sim.asked(), (shop / "worker.log").read_text()
    states = {id_: status for id_, (status, _) in done.items()}
    assert states == {"1": "SUCCESS", "2": "SUCCESS", "3": "SUCCESS", "404": "FAILURE"}, log
    assert len(calls) == 4 + len(refused), log  # each went once, and once more for each failure
    assert sum(retries for _, retries in done.values()) == len(refused), log  # a shut gate costs none
    gaps = [after.at - before.at for before, after in itertools.pairwise(calls) if before.at in refused]
    assert len(gaps) == len(refused)
    assert min(gaps) >= 3
    assert sum(each.path == "/invoices/404" for each in calls) == 1
