"""The simulated gateway answers as the real one does, and fails as it is told."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from tests.apps.convert import pdfs
from tests.apps.convert.asking import process, valid
from tidegate_apps.convert.gateway import MAPPINGS, Embedded
from tidegate_demo.simulators.convert import FAILURES, PROCESS, GatewaySimulator, simulated

_SILENT = {"hangs", "resets", "cut_off"}


@pytest.fixture
def sim() -> Iterator[GatewaySimulator]:
    with GatewaySimulator() as found:
        yield found


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_the_simulator_answers_with_xml_that_is_valid(sim: GatewaySimulator, mapping: str) -> None:
    root = valid(process(sim.url, pdfs.text(), mapping, job_id="7", pretty="1"), mapping)

    assert root.find("summary") is not None
    assert sim.forms() == [{"mapping": mapping, "job_id": "7", "pretty": "1", "file": str(len(pdfs.text()))}]


def test_the_simulator_refuses_what_the_gateway_refuses(sim: GatewaySimulator) -> None:
    with Embedded() as real:
        for url in (real, sim.url):
            assert refusal_of(process(url, pdfs.text(), "none")) == (400, "unknown_mapping")
            assert refusal_of(process(url, pdfs.zip_renamed())) == (400, "not_pdf")
            assert refusal_of(process(url, pdfs.text(), accept="text/html")) == (406, "not_acceptable")


def refusal_of(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize("name", sorted(set(FAILURES) - _SILENT))
def test_a_failure_comes_once_and_then_all_is_well(sim: GatewaySimulator, name: str) -> None:
    sim.fails(name)

    first, second = process(sim.url, pdfs.text()), process(sim.url, pdfs.text())

    assert first.status_code == FAILURES[name].status
    assert first.content != second.content
    assert second.status_code == 200
    assert sim.count(PROCESS) == 2


@pytest.mark.parametrize(("name", "raised"), [("resets", httpx2.ReadError), ("cut_off", httpx2.RemoteProtocolError)])
def test_a_connection_can_end_before_the_answer_does(sim: GatewaySimulator, name: str, raised: type[Exception]) -> None:
    sim.fails(name)

    with pytest.raises(raised):
        process(sim.url, pdfs.text())


def test_it_can_hang(sim: GatewaySimulator) -> None:
    sim.fails("hangs")

    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(f"{sim.url}/process", content=b"", timeout=httpx2.Timeout(60, read=0.5))


def test_a_throttled_request_is_told_when_to_come_back(sim: GatewaySimulator) -> None:
    sim.fails("throttled")

    assert process(sim.url, pdfs.text()).headers["retry-after"] == "2"


def test_its_health_goes_down_and_comes_back(sim: GatewaySimulator) -> None:
    assert httpx2.get(f"{sim.url}/health", timeout=60).json()["mappings"] == list(MAPPINGS)
    sim.health(up=False)
    assert httpx2.get(f"{sim.url}/health", timeout=60).status_code == 503
    sim.health(up=True)
    assert httpx2.get(f"{sim.url}/health", timeout=60).status_code == 200


def test_the_application_is_pointed_at_it() -> None:
    assert simulated().settings("http://127.0.0.1:1") == {"gateway_url": "http://127.0.0.1:1"}


def test_the_simulator_is_ill_from_now_on_and_then_well_again(sim: GatewaySimulator) -> None:
    sim.now("unavailable")
    ill = [process(sim.url, pdfs.text()).status_code for _ in range(2)] + [
        httpx2.get(f"{sim.url}/health", timeout=60).status_code
    ]
    sim.now("well")
    well = [process(sim.url, pdfs.text()).status_code, httpx2.get(f"{sim.url}/health", timeout=60).status_code]

    assert (ill, well) == ([503, 503, 503], [200, 200])
    with pytest.raises(ValueError, match=r"'odd'.* well, malformed"):
        sim.now("odd")
