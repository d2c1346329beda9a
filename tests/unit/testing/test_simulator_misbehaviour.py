"""Every misbehaviour of a simulator reaches a real client, and the classifier knows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.testing.clients import CLIENTS, PATIENCE, with_httpx2
from tidegate import classify
from tidegate.testing import Hang, Simulator, Status, Step

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "simulate-a-service.md"
DATA = {"items": list(range(1000))}
NAMES = {"Step": Step, "Status": Status, "Hang": Hang, "page": DATA}
FINE = ("the response", "")


@pytest.fixture(scope="module")
def sim() -> Iterator[Simulator]:
    with Simulator() as running:
        yield running


def rows() -> list[tuple[str, str, str]]:
    """The lines of the page's table: a step, what the client gets, what the classifier says."""
    found = re.findall(r"^\| `((?:Step|Hang)\(.*?\))` \| (.*?) \| ?(.*?) \|$", PAGE.read_text(), re.MULTILINE)
    return [(step, gets.strip("`"), code.strip("` ")) for step, gets, code in found]


def seen(get: Callable[..., object], url: str, code: str = "") -> tuple[str, str]:
    """What the client gets and the classifier says; *code* is what should come of it."""
    try:
        found = get(url, 0.5 if code == "timeout" else PATIENCE)
    except Exception as error:
        fault = classify(error)
        assert fault is not None
        return type(error).__name__, fault.code
    assert found == DATA
    return FINE


def test_the_page_has_a_line_for_each_way_to_misbehave() -> None:
    steps = " ".join(step for step, _, _ in rows())

    assert len(rows()) == 20
    for name in ("delay=", "drip=", "cut=", "length=", "framing=", "gzip=", "reset=", "hang=", "raw=", "retry_after="):
        assert name in steps


@pytest.mark.parametrize(("step", "gets", "code"), rows(), ids=[step for step, _, _ in rows()])
def test_a_client_gets_what_the_page_says(sim: Simulator, step: str, gets: str, code: str) -> None:
    sim.on("GET /", eval(step, dict(NAMES)))  # what the page says is run

    assert seen(with_httpx2, f"{sim.url}/", code) == (gets, code)


# What all four make of it, where the page shows one.
VERDICTS: list[tuple[object, str]] = [
    (DATA, ""),
    (Step(body=DATA, framing="chunked"), ""),
    (Step(body=DATA, framing="close"), ""),
    (Step(body=DATA, framing="chunked", drip="10ms", piece=1000), ""),
    (Status(503), "overloaded"),
    (Hang("1m"), "timeout"),
    (ConnectionResetError, "network"),
    (Step(raw=b""), "network"),
    (Step(raw=b"220 mail.test ESMTP\r\n\r\n"), "network"),
    (Step(raw=b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 200_000 + b"\r\n\r\n"), "network"),
    (Step(body=DATA, cut=0), "cut_short"),
    (Step(body=DATA, cut=100), "cut_short"),
    (Step(body=DATA, cut=100, framing="chunked"), "cut_short"),
    (Step(body=DATA, cut=100, hang="1m"), "timeout"),
    (Step(302, headers={"Location": "/"}), "redirected"),
]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("step", "code"), VERDICTS)
def test_every_client_is_understood(sim: Simulator, client: str, step: object, code: str) -> None:
    sim.on("GET /", step)

    assert seen(CLIENTS[client], f"{sim.url}/", code)[1] == code


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_is_refused_while_it_is_down(sim: Simulator, client: str) -> None:
    sim.on("GET /", DATA)
    sim.outage("1h down")
    try:
        assert seen(CLIENTS[client], f"{sim.url}/")[1] == "network"
        assert sim.count("GET /") == 0
    finally:
        sim.outage(None)

    assert seen(CLIENTS[client], f"{sim.url}/") == FINE


def test_a_connection_that_is_not_taken_times_out() -> None:
    with Simulator(slow_accept="1m") as slow:
        slow.on("GET /", DATA)

        assert seen(with_httpx2, f"{slow.url}/", "timeout") == ("ReadTimeout", "timeout")
        assert slow.count() == 0


def test_a_connection_that_is_taken_slowly_is_served() -> None:
    with Simulator(slow_accept="50ms") as slow:
        slow.on("GET /", DATA)

        assert seen(with_httpx2, f"{slow.url}/") == FINE
        assert seen(with_httpx2, f"{slow.url}/") == FINE


def test_a_step_that_waits_for_less_than_the_client_is_an_answer(sim: Simulator) -> None:
    sim.on("GET /", Step(body=DATA, delay="50ms"))

    assert seen(with_httpx2, f"{sim.url}/") == FINE
