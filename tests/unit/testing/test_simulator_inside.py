"""A simulator that is asked without sockets does what it does over them, in the time of its clock."""

from __future__ import annotations

import httpx2
import pytest

from tidegate import classify
from tidegate.testing import Hang, Simulator, Step, VirtualClock

PAGE = [{"id": number} for number in range(200)]
TROUBLES = {
    "timeout": (Hang(), Step(body=PAGE, delay="5m"), Step(body=PAGE, drip="5m"), Step(body=PAGE, cut=10, hang="1h")),
    "network": (Step(reset=True), Step(raw=b"220 mail\r\n"), Step(body=PAGE, cut=10, reset=True), Step(hang="1s")),
    "cut_short": (
        Step(body=PAGE, cut=10),
        Step(body=PAGE, cut=10, framing="close"),
        Step(body="no gzip", headers={"Content-Encoding": "gzip"}),
    ),
    "overloaded": (Step(503, retry_after=7),),
}
CASES = [(code, number) for code, steps in TROUBLES.items() for number in range(len(steps))]


async def judged(client: httpx2.AsyncClient) -> str | None:
    try:
        answer = await client.get("/things")
        answer.raise_for_status()
        answer.json()
    except (httpx2.HTTPError, ValueError) as error:
        fault = classify(error)
        return None if fault is None else fault.code
    return None


@pytest.mark.parametrize(("code", "number"), CASES)
def test_what_it_does_wrong_means_the_same_as_over_a_socket(code: str, number: int) -> None:
    clock = VirtualClock()
    sim = Simulator(clock=clock)
    sim.on("GET /things", TROUBLES[code][number])

    async def ask(transport: httpx2.AsyncBaseTransport | None, url: str, timeout: float) -> str | None:
        async with httpx2.AsyncClient(base_url=url, timeout=timeout, transport=transport, trust_env=False) as client:
            return await judged(client)

    assert clock.run(ask(sim.transport(), "http://sim", 30)) == code
    assert clock.monotonic() == pytest.approx(30 if code == "timeout" else 0, abs=1.5)
    assert sim.count("GET /things") == 1


async def test_answers_are_those_of_the_script_and_the_journal_has_the_requests() -> None:
    sim = Simulator(clock=VirtualClock(1_000_000_000))
    sim.on("POST /album/{id}", lambda asked: Step(201, {"id": asked.params["id"], **asked.json}, {"X-Who": "sim"}))
    sim.on("GET /packed", Step(body=PAGE, gzip=True))
    sim.on("GET /slowly", Step(body=PAGE, framing="chunked"))
    async with httpx2.AsyncClient(transport=sim.transport(), base_url="http://sim") as client:
        made = await client.post("/album/7?a=1&a=2", json={"title": "Blue"})
        assert (made.status_code, made.json(), made.headers["x-who"]) == (201, {"id": "7", "title": "Blue"}, "sim")
        assert made.headers["date"] == "Sun, 09 Sep 2001 01:46:40 GMT"
        assert (await client.get("/packed")).json() == (await client.get("/slowly")).json() == PAGE
        assert (await client.get("/other")).status_code == 404
    [asked] = sim.asked("POST /album/{id}")
    assert (asked.pairs, asked.at, asked.over) == ([("a", "1"), ("a", "2")], 1_000_000_000, True)


def test_an_outage_lasts_as_long_as_the_clock_says() -> None:
    clock = VirtualClock()
    sim = Simulator(clock=clock, outage="5m down")
    sim.on("GET /things", PAGE)

    async def day() -> list[str | None]:
        seen = []
        async with httpx2.AsyncClient(transport=sim.transport(), base_url="http://sim") as client:
            for _ in range(4):
                seen.append(await judged(client))
                await clock.asleep(120)
            sim.outage("10m 503")
            seen.append(await judged(client))
            await clock.asleep(600)
            seen.append(await judged(client))
        return seen

    assert clock.run(day()) == ["network", "network", "network", None, "overloaded", None]
