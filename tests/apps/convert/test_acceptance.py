"""Each line of the acceptance checks, against real processes: server, worker and gateway, and a kill where one dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree  # type: ignore[import-untyped]

from tests.apps.convert import pdfs
from tests.apps.convert.building import XML, code_of, pdf
from tests.apps.convert.processes import Running, Server, gateway, until, worker
from tidegate import Queue
from tidegate.apps import install
from tidegate.guard import Seconds
from tidegate.testing import Step
from tidegate_apps.convert import jobs as convert_jobs
from tidegate_apps.convert.app import app
from tidegate_apps.convert.gateway import Mappings
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_demo.simulators.convert import FAILURES, PROCESS, GatewaySimulator

pytestmark = pytest.mark.req("CNV-19")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("convert")


@pytest.fixture(scope="module")
def sim() -> Iterator[GatewaySimulator]:
    with GatewaySimulator() as found:
        yield found


@pytest.fixture(scope="module")
def running(folder: Path, sim: GatewaySimulator) -> Iterator[Server]:
    numbers = {"retry_after": "0.1", "gateway_timeout": "5s", "probe_every": "0.5s", "breaker": "hold-queue"}
    with Server(folder, gateway_url=sim.url, most_bytes=2_000_000, **numbers) as found:
        yield found


@pytest.fixture
def server(running: Server, sim: GatewaySimulator) -> Iterator[Server]:
    """The server, before a gateway that is well."""
    sim.reset()
    yield running
    sim.reset()


def test_a_bad_type_fails_with_not_pdf_and_400(server: Server) -> None:
    answer = server.upload(b"PK\x03\x04 a zip")
    assert code_of(answer) == (400, "NOT_PDF")
    job = server.get(answer.json()["job"])
    assert (job["status"], job["error_code"]) == ("failed", "NOT_PDF")


def test_a_file_over_the_limit_is_413_with_too_large(server: Server) -> None:
    before = len(server.client.get("/api/jobs").json()["jobs"])
    assert code_of(server.upload(pdf(size=2_000_001))) == (413, "TOO_LARGE")
    assert len(server.client.get("/api/jobs").json()["jobs"]) == before


@pytest.mark.parametrize("answer", ["unknown_mapping", "not_acceptable"])
def test_a_400_or_406_of_the_gateway_fails_with_gw_4xx_and_is_not_retried(
    server: Server, sim: GatewaySimulator, answer: str
) -> None:
    sim.fails(answer)
    job = server.ended(server.new(pdf()))
    assert (job["status"], job["error_code"], job["attempt_count"]) == ("failed", "GW_4XX", 1)
    assert sim.count(PROCESS) == 1


def test_while_the_gateway_is_down_jobs_stay_queued_and_go_on_when_it_is_back(
    server: Server, sim: GatewaySimulator
) -> None:
    sim.outage("1h down")
    jobs = [server.new(pdf()) for _ in range(3)]
    until(lambda: "Gateway busy, paused. Will retry automatically." in server.client.get("/convert").text)
    assert {server.get(job)["status"] for job in jobs} <= {"queued", "processing"}

    sim.outage(None)
    assert [server.ended(job)["status"] for job in jobs] == ["complete"] * 3
    until(lambda: "Gateway busy" not in server.client.get("/convert").text)


@pytest.mark.full
def test_timeouts_are_retried_as_often_as_allowed_and_then_failed(server: Server, sim: GatewaySimulator) -> None:
    sim.fails("hangs", "hangs", "hangs")
    job = server.ended(server.new(pdf()))
    assert (job["status"], job["error_code"], job["attempt_count"]) == ("failed", "GW_TIMEOUT", 3)
    began = [event["at"] for event in job["events"] if event["event"] == "processing"]
    ended = [event["at"] for event in job["events"] if event["event"] == "retry"]
    waits = [later - before for later, before in zip(began[1:], ended, strict=True)]
    assert waits[0] >= 0.08, "the first wait, less a fifth"
    assert waits[1] >= 0.24, "three times that"


def test_a_result_that_cannot_be_written_is_tried_once_more_and_then_an_io_error(
    server: Server, sim: GatewaySimulator, folder: Path
) -> None:
    xml, aside = folder / "tidegate-files/xml", folder / "tidegate-files/xml-aside"
    server.ended(server.new(pdf()))  # there is a folder by now
    xml.rename(aside)
    xml.write_text("in the way")
    try:
        job = server.ended(server.new(pdf()))
    finally:
        xml.unlink()
        aside.rename(xml)
    assert (job["status"], job["error_code"], job["attempt_count"]) == ("failed", "IO_ERROR", 2)


def test_a_download_is_not_ready_and_after_retention_it_is_expired(
    server: Server, sim: GatewaySimulator, folder: Path
) -> None:
    sim.fails("hangs")
    waiting = server.new(pdf())
    assert code_of(server.client.get(f"/api/jobs/{waiting}/download")) == (409, "NOT_READY")

    done = server.new(pdf())
    server.ended(done)
    server.ended(waiting)
    assert server.client.get(f"/api/jobs/{done}/download").status_code == 200
    settings = ConvertSettings(storage=str(folder / "tidegate-files"), keep_xml=Seconds(0.001))
    with Queue(f"sqlite:///{folder / 'tidegate.db'}") as queue:
        there = install(app, queue, settings)
        assert convert_jobs.apply_retention(there, there.jobs.storage)["xml"] >= 1
        there.closing.close()
    assert code_of(server.client.get(f"/api/jobs/{done}/download")) == (404, "EXPIRED")


def test_a_manual_retry_puts_a_failed_job_back_and_it_completes(server: Server, sim: GatewaySimulator) -> None:
    sim.fails("malformed")
    job = server.new(pdf())
    assert server.ended(job)["status"] == "failed"
    sim.outage("1h 503")
    answer = server.client.post(f"/api/jobs/{job}/retry")
    assert answer.status_code == 202
    assert answer.json()["status"] in ("queued", "processing")  # a worker may have it already
    sim.outage(None)
    assert server.ended(job)["status"] == "complete"
    assert server.get(job)["manual_retry_count"] == 1


def test_fail_fast_fails_new_jobs_and_a_retry_succeeds_when_the_gateway_is_back(tmp_path: Path) -> None:
    with (
        GatewaySimulator() as sim,
        Server(tmp_path, gateway_url=sim.url, breaker="fail-fast", probe_every="0.5s", retry_after="0.1") as server,
    ):
        sim.outage("1h down")
        server.new(pdf())
        late = until(lambda: (found := server.ended(server.new(pdf())))["attempt_count"] == 0 and found)
        assert (late["status"], late["error_code"]) == ("failed", "GW_5XX")

        sim.outage(None)
        until(lambda: 'id="gateway"' not in server.client.get("/convert").text)
        server.client.post(f"/api/jobs/{late['id']}/retry")
        assert server.ended(late["id"])["status"] == "complete"


@pytest.mark.req("CNV-07", "CNV-13")
def test_a_worker_that_dies_in_the_middle_is_followed_by_another_and_there_is_one_xml(tmp_path: Path) -> None:
    with (
        GatewaySimulator() as sim,
        Server(tmp_path, "--no-work", gateway_url=sim.url) as server,
        worker(tmp_path, sim.url) as first,
    ):
        sim.stay(PROCESS, FAILURES["hangs"])
        job = server.new(pdf())
        sim.wait_for(PROCESS, 1)
        before = server.get(job)
        assert (before["status"], before["attempt_count"]) == ("processing", 1)
        first.kill()  # -9: it says nothing to anybody
        sim.reset()
        sim.then(PROCESS, Step(200, XML, delay="10s"))  # longer than its lease, which it keeps meanwhile
        with worker(tmp_path, sim.url):
            done = server.ended(job)
        assert (done["status"], done["attempt_count"]) == ("complete", 2), "attempts go on counting"
        assert len(list((tmp_path / "tidegate-files/xml").iterdir())) == 1
        assert sim.forms()[0]["job_id"].startswith("tidegate-")
        starts = [event for event in done["events"] if event["event"] == "processing"]
        assert len(starts) == 2


@pytest.mark.full
@pytest.mark.req("CNV-17")
def test_everything_works_on_one_machine_with_the_gateway_that_comes_with_it(tmp_path: Path) -> None:
    """Also with the plug pulled: the gateway is killed and begun again, and nothing is lost or done twice."""
    with Server(tmp_path, retry_after="0.1") as server:
        job = server.new(pdfs.text(pages=2), mapping="layout")
        assert server.ended(job)["status"] == "complete"
        xml = server.client.get(f"/api/jobs/{job}/download").content
        etree.XMLSchema(etree.fromstring(Mappings().schema("layout"))).assertValid(etree.fromstring(xml))
        unknown = server.ended(server.new(pdfs.text(pages=1), mapping="no-such-mapping"))
        assert unknown["error_code"] == "GW_4XX"
        assert unknown["error_message"].endswith("Unsupported mapping.")

    process, address = gateway(tmp_path)
    with process, Server(tmp_path, gateway_url=address, retry_after="0.1", probe_every="0.5s") as server:
        assert server.ended(server.new(pdfs.text(pages=3)))["status"] == "complete"
        process.kill()
        jobs = [server.new(pdfs.text(pages=n)) for n in (4, 5)]
        until(lambda: "Gateway busy, paused." in server.client.get("/convert").text)
        port = address.rpartition(":")[2]
        command = (*process.process.args[:-3], "--port", port)  # type: ignore[index]
        with Running(tmp_path, *map(str, command)):
            assert [server.ended(job)["status"] for job in jobs] == ["complete", "complete"]
        assert len(list((tmp_path / "tidegate-files/xml").iterdir())) == 4
