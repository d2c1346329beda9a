"""Documents that are made to harm: the gateway says no and goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.apps.convert import pdfs
from tests.apps.convert.asking import process, refusal, valid
from tests.apps.convert.waiting import until
from tidegate_apps.convert.gateway import Embedded, GatewayLimits


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Embedded(GatewayLimits(conversions=2, memory_mb=256, cpu=1.0)) as found:
        yield found


@pytest.mark.full
def test_a_document_that_never_ends_is_refused_and_meanwhile_all_is_well(url: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        hostile = pool.submit(process, url, pdfs.endless_pages(), "text")
        until(lambda: httpx2.get(f"{url}/health", timeout=60).json()["active"] == 1 or hostile.done())
        valid(process(url, pdfs.text()))

        assert refusal(hostile.result()) == (422, "too_hard")
    assert httpx2.get(f"{url}/health", timeout=60).json()["active"] == 0


@pytest.mark.full
def test_forms_in_forms_in_forms_are_refused_and_the_next_document_is_converted(url: str) -> None:
    status, code = refusal(process(url, pdfs.endless()))

    assert status == 422
    assert code in {"crashed", "too_much_memory", "too_hard"}  # which limit it meets first is the machine's affair
    valid(process(url, pdfs.text()))


def test_a_small_file_that_wants_a_lot_of_memory_is_refused_and_the_next_one_is_converted() -> None:
    with Embedded(GatewayLimits(conversions=1, memory_mb=256, cpu=60)) as url:
        status, code = refusal(process(url, pdfs.bomb()))

        assert status == 422
        assert code in {"crashed", "too_much_memory"}  # the library ends its process, or Python says no first
        valid(process(url, pdfs.text()))


@pytest.mark.full
def test_a_child_that_somebody_kills_costs_nobody_a_document() -> None:
    with Embedded(GatewayLimits(conversions=1, cpu=60)) as url, ThreadPoolExecutor(1) as pool:
        before = children()
        answer = pool.submit(process, url, pdfs.many_pages(), "text")
        until(lambda: children() - before or answer.done())
        for pid in children() - before:
            os.kill(pid, signal.SIGKILL)

        assert len(valid(answer.result(), "text").findall("page")) == 500


def test_a_conversion_that_is_not_done_in_time_may_be_tried_again(tmp_path: Path) -> None:
    with Embedded(GatewayLimits(time=0.001, folder=tmp_path)) as url:
        answer = process(url, pdfs.text())

        assert refusal(answer) == (504, "took_too_long")
        assert not list(tmp_path.rglob("result-*"))


def test_what_a_killed_gateway_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from tidegate_apps.convert.gateway import Embedded, GatewayLimits;"
        "Embedded(GatewayLimits(folder=Path(sys.argv[1]))).start(); print('ready', flush=True); time.sleep(600)"
    )
    killed = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    with killed:
        assert killed.stdout is not None
        killed.stdout.readline()
        (left,) = tmp_path.iterdir()
        with Embedded(GatewayLimits(folder=tmp_path)):
            assert len(list(tmp_path.iterdir())) == 2  # that of a gateway that runs is left alone
        killed.kill()
    with Embedded(GatewayLimits(folder=tmp_path)):
        assert not left.exists()
    assert not list(tmp_path.iterdir())


def children() -> set[int]:
    return {each.pid for each in psutil.Process().children()}
