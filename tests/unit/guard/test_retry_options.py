"""`guard`, `wrap`, `transport` and `adapter` take the same retry options: attempts in all, with full jitter."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import pytest
import requests

from tests.unit.guard.scene import Scene, down
from tidegate import Retry
from tidegate.guard.wrap import READ_VERBS


class Wire:
    """A transport of httpx2 and an adapter of requests, which fail as often as the test says."""

    def __init__(self, *outcomes: object) -> None:
        self.outcomes, self.calls = list(outcomes), 0

    def next(self) -> int:
        self.calls += 1
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return int(str(outcome))

    def handle_request(self, request: Any) -> Any:
        return httpx2.Response(self.next(), request=request, content=b"body")

    async def handle_async_request(self, request: Any) -> Any:
        return httpx2.Response(self.next(), request=request, content=b"body")

    def send(self, request: Any, **_: Any) -> Any:
        response = requests.Response()
        response.status_code, response.raw, response.request = self.next(), BytesIO(b"body"), request
        return response

    def close(self) -> None: ...
    async def aclose(self) -> None: ...
    async def __aenter__(self) -> None: ...
    async def __aexit__(self, *details: object) -> None: ...


def by_guard(scene: Scene, wire: Wire, retry: Any, method: str = "GET") -> int:
    return scene.target.guard(retry=retry)(wire.next)()


def by_wrap(scene: Scene, wire: Wire, retry: Any, method: str = "GET") -> int:
    return int(scene.target.wrap(wire, retry=retry, retry_methods=None if retry is None else ["next"]).next())


def by_transport(scene: Scene, wire: Wire, retry: Any, method: str = "GET") -> int:
    client = httpx2.Client(transport=scene.target.transport(wire, retry=retry))
    return int(client.request(method, "http://api.example/items").status_code)


def by_async_transport(scene: Scene, wire: Wire, retry: Any, method: str = "GET") -> int:
    async def main() -> int:
        async with httpx2.AsyncClient(transport=scene.target.transport(wire, retry=retry)) as client:
            return int((await client.request(method, "http://api.example/items")).status_code)

    return int(scene.clock.run(main()))


def by_adapter(scene: Scene, wire: Wire, retry: Any, method: str = "GET") -> int:
    session = requests.Session()
    session.mount("http://", scene.target.adapter(wire, retry=retry))
    return int(session.request(method, "http://api.example/items").status_code)


WAYS: list[Callable[..., int]] = [by_guard, by_wrap, by_transport, by_async_transport, by_adapter]
HTTP = WAYS[2:]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("retry", [3, Retry(attempts=3, base="100ms", cap="5s")])
def test_three_attempts_are_three_calls_in_all(way: Callable[..., int], retry: Any) -> None:
    scene = Scene(profile="requests")
    wire = Wire(down(), down(), 200)

    assert way(scene, wire, retry) == 200
    assert wire.calls == 3
    assert scene.target.unhealthy() == []
    assert len(scene.events) == 0


@pytest.mark.parametrize("way", WAYS)
def test_the_last_failure_is_raised_and_on_record_once(way: Callable[..., int]) -> None:
    scene = Scene(profile="requests")
    wire = Wire(*[down()] * 3, 200)

    with pytest.raises(ConnectionRefusedError):
        way(scene, wire, 3)
    assert wire.calls == 3
    scene.events.assert_one("call_failed")


@pytest.mark.parametrize("way", HTTP)
def test_a_response_that_is_no_good_is_repeated_and_the_last_one_returned(way: Callable[..., int]) -> None:
    scene = Scene(profile="requests")
    assert way(scene, Wire(503, 502, 200), 3) == 200
    wire = Wire(503, 503)
    assert (way(scene, wire, 2), wire.calls) == (503, 2)


@pytest.mark.parametrize("way", HTTP)
def test_a_post_is_sent_once(way: Callable[..., int]) -> None:
    wire = Wire(503, 200)

    assert way(Scene(profile="requests"), wire, 3, "POST") == 503
    assert wire.calls == 1


@pytest.mark.parametrize("way", WAYS)
def test_without_retry_there_is_one_attempt(way: Callable[..., int]) -> None:
    for retry in (None, False, 1):
        wire = Wire(down(), 200)
        with pytest.raises(ConnectionRefusedError):
            way(Scene(profile="requests"), wire, retry)
        assert wire.calls == 1


@pytest.mark.parametrize("way", HTTP)
def test_a_breaker_that_opens_between_two_attempts_ends_them(way: Callable[..., int]) -> None:
    wire = Wire(503, 503, 503, 200)

    assert way(Scene(profile="requests", breaker={"consecutive": 2}), wire, 5) == 503
    assert wire.calls == 2


def test_the_waits_have_full_jitter_and_a_cap() -> None:
    retry = Retry(attempts=9, base="100ms", cap="1s")

    assert [retry.pause(n, 1.0) for n in range(1, 9)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1])
    assert [retry.pause(n, 0.0) for n in range(1, 9)] == [0.0] * 8
    assert retry.pause(9, 0.5) is None
    assert retry.pause(1, 0.5, asked=0.7) == 0.7
    assert retry.pause(1, 0.5, asked=1.1) is None


@pytest.mark.parametrize(
    ("wrong", "error"),
    [(0, ValueError), (-1, ValueError), (102, ValueError), ("3", TypeError), (True, TypeError), (2.5, TypeError)],
)
def test_a_retry_that_makes_no_sense_is_refused(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^retry must be"):
        Scene().target.guard(retry=wrong)


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"base": "-1s"}, {"base": "2s", "cap": "1s"}])
def test_a_policy_of_retries_is_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Retry"):
        Retry(**wrong)


class Shop:
    """A client whose first call of each method fails."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def _failing_once(self, name: str) -> str:
        self.calls.append(name)
        if self.calls.count(name) == 1:
            raise down()
        return name

    def get_order(self) -> str:
        return self._failing_once("get_order")

    def delete_order(self) -> str:
        return self._failing_once("delete_order")

    def orders(self) -> str:
        return self._failing_once("orders")

    def postpone(self) -> str:
        return self._failing_once("postpone")

    def post(self) -> str:
        return self._failing_once("post")

    def create_order(self) -> str:
        return self._failing_once("create_order")

    def sendMail(self) -> str:  # noqa: N802 - as some libraries spell it
        return self._failing_once("sendMail")

    def alist(self) -> str:
        return self._failing_once("alist")

    def findOrder(self) -> str:  # noqa: N802 - as in an SDK
        return self._failing_once("findOrder")

    def withdraw(self) -> str:
        return self._failing_once("withdraw")

    def subscribe(self) -> str:
        return self._failing_once("subscribe")

    def email(self) -> str:
        return self._failing_once("email")


READS = ["get_order", "alist", "findOrder"]
WRITES = ["delete_order", "orders", "postpone", "post", "create_order", "sendMail", "withdraw", "subscribe", "email"]


@pytest.mark.parametrize("method", [*READS, *WRITES])
def test_wrap_repeats_only_methods_whose_names_say_that_they_read(method: str) -> None:
    shop = Shop()
    client = Scene(backoff=None, profile="requests").target.wrap(shop, retry=3)

    if method in READS:
        assert getattr(client, method)() == method
    else:
        with pytest.raises(ConnectionRefusedError):
            getattr(client, method)()
    assert len(shop.calls) == (2 if method in READS else 1)


def test_wrap_repeats_the_methods_that_are_named_as_well() -> None:
    shop = Shop()
    client = Scene(profile="requests").target.wrap(shop, retry=3, retry_methods=["post"])

    assert (client.post(), client.get_order()) == ("post", "get_order")
    with pytest.raises(ConnectionRefusedError):
        client.create_order()
    assert shop.calls == ["post", "post", "get_order", "get_order", "create_order"]


def test_the_docs_list_the_verbs_of_methods_that_read() -> None:
    page = Path("docs/how-to/guard-an-existing-client.md").read_text(encoding="utf-8")
    assert ", ".join(f"`{verb}`" for verb in READ_VERBS) in " ".join(page.split())


@pytest.mark.parametrize(("also", "calls"), [(None, 1), (["POST"], 2)])
def test_a_transport_repeats_a_post_only_if_it_is_told(also: list[str] | None, calls: int) -> None:
    seen: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.method)
        return httpx2.Response(500 if len(seen) == 1 else 200)

    transport = Scene(profile="requests").target.transport(httpx2.MockTransport(answer), retry=3, retry_methods=also)
    httpx2.Client(transport=transport).post("http://api.test/", content=b"x")
    assert len(seen) == calls


@pytest.mark.parametrize("given", [["post"], ["get_order"], [7]])
def test_a_transport_takes_only_http_methods(given: list[Any]) -> None:
    target = Scene().target
    with pytest.raises(ValueError, match=r"\['POST'\]"):
        target.adapter(retry=3, retry_methods=given)
    with pytest.raises(ValueError, match=r"\['POST'\]"):
        target.transport(httpx2.HTTPTransport(), retry=3, retry_methods=given)


@pytest.mark.parametrize(
    ("given", "error", "named"),
    [
        ({"retry": 3, "retry_methods": "post"}, TypeError, r"\['post'\]"),
        ({"retry": 3, "retry_methods": 7}, TypeError, "got 7"),
        ({"retry": 3, "retry_methods": ["get_ordr"]}, ValueError, "did you mean 'get_order'"),
        ({"retry_methods": ["post"]}, ValueError, "retry=3"),
    ],
)
def test_methods_that_cannot_be_repeated_are_refused(given: dict[str, Any], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        Scene().target.wrap(Shop(), **given)
