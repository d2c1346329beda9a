"""A simulator starts and stops without leaving anything behind, and lives through its outages."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
from collections.abc import Callable
from itertools import pairwise

import httpx2
import psutil
import pytest

from tidegate.apps import AppSimulator as AnySimulator
from tidegate.testing import Hang, RecordedRequest, Simulator, Status, Step
from tidegate.testing.simulator.connection import ServerConnection

ENDLESS: list[object] = [Hang("1h"), Step(delay="1h"), Step(body=bytes(100), drip="1h"), Step(body=bytes(10**8))]


def left() -> tuple[int, int]:
    """Threads and open files of this process."""
    gc.collect()
    return threading.active_count(), psutil.Process().num_fds()


def raw(sim: Simulator, sent: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", int(sim.url.rpartition(":")[2])), timeout=60)
    made.sendall(sent)
    return made


def test_it_is_what_the_server_calls_a_simulator() -> None:
    sim: AnySimulator = Simulator()
    url = sim.start()
    sim.stop()

    assert url.startswith("http://127.0.0.1:")


def test_nothing_is_left_of_it_whatever_was_under_way() -> None:
    with Simulator():
        pass  # what a first one loads stays
    before = left()

    sim = Simulator()
    sim.start()
    for n, step in enumerate(ENDLESS):
        sim.on(f"GET /{n}", step)
    clients = [raw(sim, f"GET /{n} HTTP/1.1\r\nHost: x\r\n\r\n".encode()) for n in range(len(ENDLESS))]
    clients += [raw(sim), raw(sim, b"GET / HT"), raw(sim, b"no http at all\r\n\r\n")]
    clients[3].shutdown(socket.SHUT_WR)  # it will send no more, and does not read either
    sim.wait_for(n=len(ENDLESS))
    with httpx2.Client(timeout=60) as client:
        client.get(sim.control_url)
        sim.stop()
    for each in clients:
        each.close()

    threads, files = left()
    assert threads <= before[0]  # those of an earlier test may have ended meanwhile
    assert files <= before[1]


@pytest.mark.parametrize("n", range(3))
def test_nothing_is_kept_of_a_client_that_left(n: int) -> None:
    def kept() -> int:
        gc.collect()
        return sum(isinstance(each, ServerConnection) for each in gc.get_objects())

    with Simulator() as sim:
        sim.on("GET /x", ENDLESS[n])
        raw(sim, b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n").close()
        sim.wait_for("GET /x", over=True)
        until = time.monotonic() + 60
        while kept() and time.monotonic() < until:
            pass

        assert kept() == 0


def test_it_can_be_stopped_twice_and_started_again() -> None:
    sim = Simulator()
    sim.on("GET /x", "fine")
    for _ in range(3):
        url = sim.start()
        assert httpx2.get(f"{url}/x", timeout=60).text == "fine"
        sim.stop()
        sim.stop()
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{url}/x", timeout=60)


def test_stopping_frees_those_who_hang_at_once() -> None:
    sim = Simulator()
    sim.on("GET /x", Hang("1h"))
    sim.start()
    ended: list[Exception] = []

    def ask() -> None:
        try:
            httpx2.get(f"{sim.url}/x", timeout=600)
        except httpx2.TransportError as error:
            ended.append(error)

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for each in asking:
        each.start()
    sim.wait_for("GET /x", 3)
    sim.stop()
    for each in asking:
        each.join()

    assert len(ended) == 3
    assert not any(isinstance(each, httpx2.TimeoutException) for each in ended)
    assert [each.gone for each in sim.asked()] == [False] * 3  # they stayed to the end


def test_several_run_side_by_side() -> None:
    with Simulator("one") as one, Simulator("two") as two:
        one.on("GET /x", "one")
        two.on("GET /x", "two")

        assert [httpx2.get(f"{each.url}/x", timeout=60).text for each in (one, two)] == ["one", "two"]
        assert {"one", "two"} <= {thread.name for thread in threading.enumerate()}


async def test_it_works_beside_a_loop() -> None:
    async with Simulator() as sim, httpx2.AsyncClient(base_url=sim.url, timeout=60) as client:
        sim.on("GET /x", "fine")
        answers = await asyncio.gather(*(client.get("/x") for _ in range(20)))

    assert [each.text for each in answers] == ["fine"] * 20


def test_a_port_that_is_taken_is_said_at_the_start() -> None:
    with Simulator() as sim:
        before = left()
        port = int(sim.url.rpartition(":")[2])

        with pytest.raises(OSError, match=f"port: {port} "):
            Simulator(port=port).start()
        assert left() == before


def test_a_port_can_be_chosen() -> None:
    with Simulator() as sim:
        port = int(sim.url.rpartition(":")[2])
    with Simulator(port=port) as sim:
        assert sim.url == f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda sim: sim.url, "running"),
        (lambda sim: sim.control_url, "running"),
        (lambda sim: (sim.start(), sim.start()), "runs already, at http://127.0.0.1:"),
    ],
)
def test_using_it_at_the_wrong_time_is_said(wrong: Callable[[Simulator], object], says: str) -> None:
    sim = Simulator()
    try:
        with pytest.raises(RuntimeError, match=says):
            wrong(sim)
    finally:
        sim.stop()


def test_a_function_of_its_own_cannot_stop_it() -> None:
    with Simulator() as sim:
        sim.on("GET /x", lambda asked: sim.stop())

        refused = httpx2.get(f"{sim.url}/x", timeout=60)
        assert (refused.status_code, "stop" in refused.json()["error"]) == (500, True)


# -- outages ---------------------------------------------------------------------------------------------------------


def test_the_port_stays_its_own_while_nothing_listens() -> None:
    with Simulator(outage="1h down") as sim:
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(sim.url, timeout=60)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", int(sim.url.rpartition(":")[2])))


def test_an_outage_throws_out_who_is_inside() -> None:
    with Simulator() as sim:
        sim.on("GET /hang", Hang("1h"))
        sim.on("GET /x", "fine")
        with raw(sim, b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n") as idle, idle.makefile("rb") as answer:
            while answer.readline() != b"\r\n":
                pass
            assert answer.read(4) == b"fine"
            with raw(sim, b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n") as busy:
                sim.wait_for("GET /hang")
                sim.outage("1h down")

                with pytest.raises(ConnectionResetError):
                    busy.recv(1)
            assert answer.read(1) == b""  # closed as one that is not in use


def test_an_outage_comes_and_goes_by_itself() -> None:
    seen: list[bool] = []
    with Simulator(outage="5s down at 100ms") as sim:
        sim.on("GET /x", "fine")
        until = time.monotonic() + 60
        while seen[-2:] != [False, True] and time.monotonic() < until:
            try:
                fine = httpx2.get(f"{sim.url}/x", timeout=60).status_code == 200
            except httpx2.ConnectError:
                fine = False
            except httpx2.TransportError:  # it was inside when the door was shut
                continue
            if [fine] != seen[-1:]:
                seen.append(fine)

    assert seen in ([True, False, True], [False, True])  # a slow machine may miss the beginning


def test_the_script_waits_while_the_outage_lasts() -> None:
    with Simulator(outage="1h 429 retry-after 5m") as sim, httpx2.Client(base_url=sim.url, timeout=60) as client:
        sim.on("GET /x", Status(404), "fine")
        held = client.get("/x")
        sim.outage(None)

        assert (held.status_code, held.headers["retry-after"]) == (429, "300")
        assert [client.get("/x").status_code for _ in range(2)] == [404, 200]
        assert sim.asked()[0].met == "outage: 429"
        assert sim.count("GET /x") == 3


def test_an_outage_of_one_route_leaves_the_others_alone() -> None:
    with Simulator() as sim, httpx2.Client(base_url=sim.url, timeout=60) as client:
        sim.on("GET /{rest:path}", "fine")
        sim.outage("1h down", "/a/{rest:path}")
        sim.outage("1h 404", "GET /b")

        with pytest.raises(httpx2.ReadError):
            client.get("/a/1")
        assert [client.get(path).status_code for path in ("/b", "/c")] == [404, 200]
        sim.outage(None, "GET /b")
        assert client.get("/b").text == "fine"
        sim.outage(None)
        assert client.get("/a/1").text == "fine"


def test_an_outage_that_hangs_does_not_answer() -> None:
    with Simulator(outage="1h hang") as sim:
        sim.on("GET /x", "fine")
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.get(f"{sim.url}/x", timeout=httpx2.Timeout(60, read=0.5))
        [asked] = sim.wait_for("GET /x", over=True)

    assert (asked.met, asked.gone) == ("outage: hang", True)


def test_an_outage_that_hangs_lets_go_when_it_ends() -> None:
    with Simulator(outage="5s hang") as sim:
        sim.on("GET /x", "fine")
        with pytest.raises(httpx2.RemoteProtocolError, match="disconnected"):
            httpx2.get(f"{sim.url}/x", timeout=60)
        assert httpx2.get(f"{sim.url}/x", timeout=60).text == "fine"


@pytest.mark.parametrize("outage", ["1h 30% errors", "1h 30% down"])
def test_a_share_of_errors_is_the_same_for_the_same_seed(outage: str) -> None:
    def run(seed: int) -> str:
        with Simulator(outage=outage, seed=seed) as sim, httpx2.Client(base_url=sim.url, timeout=60) as client:
            sim.on("GET /x", "fine")
            found = ""
            for _ in range(200):
                try:
                    found += ".x"[client.get("/x").status_code >= 500]
                except httpx2.ReadError:
                    found += "x"
            return found

    assert run(1) == run(1) != run(2)
    assert 35 <= run(1).count("x") <= 85


def test_a_function_may_change_the_weather_and_still_answers() -> None:
    def shut_down(asked: RecordedRequest) -> str:
        sim.outage("1h down")
        return "goodbye"

    with Simulator() as sim:
        sim.on("POST /shutdown", shut_down)

        assert httpx2.post(f"{sim.url}/shutdown", timeout=60).text == "goodbye"
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(sim.url, timeout=60)


# -- bounds ----------------------------------------------------------------------------------------------------------


def test_connections_beyond_the_bound_wait_outside_until_one_leaves() -> None:
    with Simulator(max_connections=2) as sim:
        sim.on("GET /x", "fine")
        inside = [raw(sim, b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(2)]
        sim.wait_for("GET /x", 2)
        with raw(sim, b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n") as outside:
            with pytest.raises(TimeoutError):
                sim.wait_for("GET /x", 3, timeout="100ms")
            for each in inside:
                each.close()
            sim.wait_for("GET /x", 3)
            assert outside.recv(15) == b"HTTP/1.1 200 OK"


def test_each_connection_waits_at_a_slow_door() -> None:
    with Simulator(slow_accept="200ms") as sim:
        sim.on("GET /x", "fine")
        started = time.monotonic()
        both = [raw(sim, b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(2)]
        sim.wait_for("GET /x", 2, timeout=60)
        took = time.monotonic() - started
        for each in both:
            each.close()

    assert took > 0.35  # the second waits until the first is in


def test_requests_on_one_connection_come_in_quick_succession() -> None:
    with Simulator() as sim, httpx2.Client(base_url=sim.url, timeout=60) as client:
        sim.on("GET /x", {"fine": True})
        took = []
        for _ in range(300):
            started = time.perf_counter()
            client.get("/x")
            took.append(time.perf_counter() - started)

        # Where a packet waits for an answer, each takes 40 ms; where the machine is busy, only most of them.
        assert sorted(took)[10] < 0.03
        times = [each.at for each in sim.asked()]
        assert all(a <= b for a, b in pairwise(times))
