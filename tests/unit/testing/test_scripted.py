"""A scripted service does what it is told, in every colour, and keeps a record."""

from __future__ import annotations

import asyncio
import gc
from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest

from tidegate import Target, classify
from tidegate.testing import Hang, Outage, ScriptedTarget, Status, StatusError, Step, VirtualClock

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])


def outcomes(service: ScriptedTarget, calls: int) -> list[object]:
    found: list[object] = []
    for _ in range(calls):
        try:
            found.append(service())
        except Exception as error:
            found.append(type(error).__name__)
    return found


def test_steps_are_taken_in_their_order_and_then_the_answer_for_ever() -> None:
    service = ScriptedTarget("a", ConnectionResetError(), ValueError, Status(503), "b", answer="c")

    found = outcomes(service, 7)

    assert found == ["a", "ConnectionResetError", "ValueError", "StatusError", "b", "c", "c"]
    assert [call.failed for call in service.calls] == [False, True, True, True, False, False, False]


def test_steps_can_be_added_later() -> None:
    service = ScriptedTarget(answer="c")
    service.then("a", TimeoutError)

    assert outcomes(service, 3) == ["a", "TimeoutError", "c"]


def test_an_answer_that_can_be_called_gets_the_arguments() -> None:
    service = ScriptedTarget(answer=lambda user, *, after: (user, after))

    assert service(7, after=3) == (7, 3)
    assert (service.calls[0].args, service.calls[0].kwargs) == ((7,), {"after": 3})


def test_a_good_status_is_an_answer_and_a_bad_one_an_error_that_the_classifier_reads(
    virtual_clock: VirtualClock,
) -> None:
    service = ScriptedTarget(Status(204), Status(429, retry_after="2m"))

    assert service().status_code == 204
    with pytest.raises(StatusError) as refused:
        service()
    fault = classify(refused.value)
    assert fault is not None
    assert (fault.code, fault.status, fault.retry_after) == ("rate_limited", 429, 120.0)


@pytest.mark.parametrize(("wait", "said"), [("30d", "2592000"), (1_234_567, "1234567"), (0.5, "0.5"), (0, "0")])
def test_a_long_wait_is_said_in_plain_digits(wait: str | float, said: str) -> None:
    assert Status(429, retry_after=wait).headers == {"Retry-After": said}
    assert Step(429, retry_after=wait).pairs == (("Retry-After", said),)


def test_calls_carry_their_virtual_time(virtual_clock: VirtualClock) -> None:
    service = ScriptedTarget(outage="1h down at 1h", clock=virtual_clock)

    for _ in range(6):
        outcomes(service, 1)
        virtual_clock.advance("30m")

    assert [(call.at, call.failed) for call in service.calls] == [
        (0, False), (1800, False), (3600, True), (5400, True), (7200, False), (9000, False),
    ]  # fmt: skip
    assert (service.count(), service.count(failed=True), service.count(since=3600, until=7200)) == (6, 2, 2)


def test_the_script_waits_while_the_outage_lasts(virtual_clock: VirtualClock) -> None:
    service = ScriptedTarget("first", outage="1h down", clock=virtual_clock)

    assert outcomes(service, 2) == ["ConnectionRefusedError"] * 2
    virtual_clock.advance("1h")
    assert service() == "first"


def test_an_outage_counts_from_the_making_of_the_service(virtual_clock: VirtualClock) -> None:
    virtual_clock.advance("5h")
    service = ScriptedTarget(outage="1h down", clock=virtual_clock)

    assert outcomes(service, 1) == ["ConnectionRefusedError"]


def test_a_share_of_errors_is_the_same_for_the_same_seed() -> None:
    def run(seed: int) -> list[bool]:
        service = ScriptedTarget(outage=Outage.parse("1h 30% errors", lead=0), clock=VirtualClock(), seed=seed)
        outcomes(service, 2000)
        return [call.failed for call in service.calls]

    assert run(1) == run(1) != run(2)
    assert 0.25 < sum(run(1)) / 2000 < 0.35


def test_a_hang_takes_its_time_and_ends_in_a_timeout(virtual_clock: VirtualClock) -> None:
    service = ScriptedTarget(Hang("90s"), clock=virtual_clock)

    with pytest.raises(TimeoutError):
        service()

    assert virtual_clock.monotonic() == 90


def test_an_awaited_hang_can_be_cut(virtual_clock: VirtualClock) -> None:
    service = ScriptedTarget(Hang("1d"), "back", clock=virtual_clock)

    async def main() -> object:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(service.acall(), 5)
        return await service.acall()

    assert virtual_clock.run(main()) == "back"
    assert virtual_clock.monotonic() == 5


def test_an_exception_that_is_raised_often_keeps_no_traceback_of_the_last_time() -> None:
    service = ScriptedTarget(answer=ValueError("again"))

    def depth() -> int:
        with pytest.raises(ValueError, match="again") as raised:
            service()
        return len(raised.traceback)

    assert depth() == depth() == depth()
    gc.collect()


@LIBRARIES
def test_it_is_a_transport_of_a_client(library: ModuleType, virtual_clock: VirtualClock) -> None:
    service = ScriptedTarget(
        "hello",
        Status(503, body=b"busy", retry_after=30),
        ConnectionRefusedError(111, "refused"),
        Hang(20),
        clock=virtual_clock,
    )
    with library.Client(transport=service.transport(), base_url="https://service.test") as client:
        good, busy = client.get("/a"), client.get("/b")
        with pytest.raises(library.ConnectError):
            client.get("/c")
        with pytest.raises(library.ReadTimeout):
            client.get("/d")

    assert (good.status_code, good.text) == (200, "hello")
    assert (busy.status_code, busy.content, busy.headers["retry-after"]) == (503, b"busy", "30")
    assert [call.args[0].url.path for call in service.calls] == ["/a", "/b", "/c", "/d"]
    assert virtual_clock.monotonic() == 20


@LIBRARIES
def test_it_is_a_transport_of_an_async_client_behind_a_target(library: ModuleType, virtual_clock: VirtualClock) -> None:
    service = ScriptedTarget(Status(500), answer="well again", clock=virtual_clock)
    target = Target("service", clock=virtual_clock, self_guard=False)

    async def main() -> Any:
        async with library.AsyncClient(transport=target.transport(service.async_transport())) as client:
            first = await client.get("https://service.test/")
            await asyncio.sleep(3600)
            return first.status_code, (await client.get("https://service.test/")).text

    assert virtual_clock.run(main()) == (500, "well again")


@LIBRARIES
def test_what_json_can_say_is_sent_as_json(library: ModuleType) -> None:
    service = ScriptedTarget({"id": 7, "name": None}, [True], None)
    with library.Client(transport=service.transport(), base_url="http://service.test") as client:
        assert client.get("/").json() == {"id": 7, "name": None}
        answer = client.get("/")
        assert (answer.json(), answer.headers["content-type"]) == ([True], "application/json")
        assert client.get("/").content == b""


@pytest.mark.parametrize("status", [0, 99, 600])
def test_a_status_that_is_none_is_refused(status: int) -> None:
    with pytest.raises(ValueError, match="give 100 to 599"):
        Status(status)
