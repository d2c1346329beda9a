"""One call of the gateway: how long it may take, how much may come, and what the settings allow."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.apps.convert.building import XML
from tests.apps.convert.building import place as made
from tests.databases import database
from tidegate import net
from tidegate.guard import Seconds
from tidegate.testing import Hang, Simulator, Step
from tidegate_apps.convert.client import ConvertRequest, Gateway, limits_of
from tidegate_apps.convert.codes import BadAnswer
from tidegate_apps.convert.gateway import GatewayLimits
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.storage import FileDraft

# It would take an hour; each byte comes long before any client is tired of waiting for it.
DRIPPING: dict[str, Any] = {"body": b"<a>" + b"x" * 72_000 + b"</a>", "drip": "0.05s", "piece": 1}


@contextmanager
def dripping_head() -> Iterator[str]:
    """The address of a server whose answers never get beyond their headers, of which a byte comes now and then."""
    ended = threading.Event()

    def drip(server: socket.socket) -> None:
        with server.accept()[0] as client, contextlib.suppress(ConnectionError):
            client.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
            while not ended.wait(0.05):
                client.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(drip, server)
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()


@pytest.fixture
def sim() -> Iterator[Simulator]:
    with Simulator("gateway") as found:
        yield found


def asked(url: str, folder: Path, stop: Any = lambda: False, patience: float = 1.0, **more: Any) -> int:
    with ExitStack() as stack, FileDraft(folder) as draft:
        gateway = Gateway(ConvertSettings(gateway_url=url, gateway_timeout=Seconds(patience)), stack, **more)
        return gateway.convert(ConvertRequest(BytesIO(b"%PDF-"), "text", "7"), draft, stop)


def test_it_says_who_asks(sim: Simulator, tmp_path: Path) -> None:
    sim.on("POST /process", Step(200, body=XML, headers={"Content-Type": "application/xml"}))
    asked(sim.url, tmp_path, patience=60)
    assert sim.asked("POST /process")[0].headers["user-agent"] == net.user_agent()


@pytest.mark.req("CNV-04")
@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_that_only_drips_is_a_timeout(sim: Simulator, tmp_path: Path, status: int) -> None:
    sim.on("POST /process", Step(status, **DRIPPING))
    with pytest.raises(httpx2.ReadTimeout):
        asked(sim.url, tmp_path)


@pytest.mark.req("CNV-04")
def test_headers_that_only_drip_are_a_timeout_too(tmp_path: Path) -> None:
    with dripping_head() as url, pytest.raises(httpx2.ReadTimeout):
        asked(url, tmp_path)


@pytest.mark.req("CNV-08")
def test_a_probe_ends_however_slowly_its_answer_comes() -> None:
    with dripping_head() as url, ExitStack() as stack, pytest.raises(httpx2.ReadTimeout):
        Gateway(ConvertSettings(gateway_url=url), stack, probe=0.5).probe()


@pytest.mark.req("CNV-07")
def test_whoever_lost_its_lease_does_not_wait_for_a_silent_gateway(sim: Simulator, tmp_path: Path) -> None:
    sim.on("POST /process", Hang("1h"))
    with pytest.raises(net.CallStopped):
        asked(sim.url, tmp_path, lambda: sim.count("POST /process") > 0, patience=3000)


@pytest.mark.req("CNV-07")
def test_whoever_lost_its_lease_does_not_wait_for_the_rest_of_an_answer(sim: Simulator, tmp_path: Path) -> None:
    sim.on("POST /process", Step(200, **DRIPPING))
    looks = itertools.count()
    with pytest.raises(net.CallStopped):
        asked(sim.url, tmp_path, lambda: next(looks) > 5, patience=3000)


@pytest.mark.req("CNV-04")
def test_more_xml_than_anybody_keeps_is_a_bad_answer(sim: Simulator, tmp_path: Path) -> None:
    sim.on("POST /process", XML)
    assert asked(sim.url, tmp_path, patience=60, most_result=len(XML)) == 200
    with pytest.raises(BadAnswer, match="more than"):
        asked(sim.url, tmp_path, patience=60, most_result=len(XML) - 1)


def test_the_gateway_that_is_built_in_works_as_long_as_somebody_waits() -> None:
    usual = GatewayLimits()
    short, long = (limits_of(ConvertSettings(gateway_timeout=Seconds(waits))) for waits in ("3m", "30m"))
    assert (short.cpu, short.time) == (usual.cpu, usual.time)
    assert (long.cpu, long.time) == (600, 1500)
    assert limits_of(ConvertSettings(most_bytes=2048)).pdf_bytes == 2048


@pytest.mark.parametrize(
    "wrong",
    [
        {"gateway_timeout": "0s"}, {"gateway_timeout": "5h"}, {"probe_every": "0s"}, {"upload_time": "0s"},
        {"gateway_url": "http://"}, {"gateway_url": "http://gateway/path?x=1"}, {"gateway_url": "gateway:8400"},
        {"gateway_url": "http://gateway/#part"},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_could_not_work_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="give"):
        ConvertSettings(**wrong)  # type: ignore[arg-type]


@pytest.mark.req("CNV-16")
def test_a_job_is_kept_for_as_long_as_its_files(tmp_path: Path) -> None:
    with database("sqlite-apsw", tmp_path) as db, made(db, tmp_path, keep_xml="200d") as place:
        job = place.new()
        place.work(1)
        place.clock.advance(150 * 86400)
        place.work(120)  # the worker removes old jobs
        assert place.client.get(f"/api/jobs/{job}/download").content == XML
