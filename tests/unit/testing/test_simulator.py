"""A simulator answers by its script, and knows what it was asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import cast

import httpx2
import pytest

from tests.text import names
from tidegate.testing import Hang, RecordedRequest, Simulator, Status, Step


@pytest.fixture
def sim() -> Iterator[Simulator]:
    with Simulator() as running:
        yield running


@pytest.fixture
def client(sim: Simulator) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=sim.url, timeout=60) as made:
        yield made


def statuses(client: httpx2.Client, path: str, n: int) -> list[int]:
    return [client.get(path).status_code for _ in range(n)]


def test_steps_are_taken_in_their_order_and_the_last_one_stays(sim: Simulator, client: httpx2.Client) -> None:
    sim.on("GET /x", Status(503), Status(429), "fine")

    assert statuses(client, "/x", 4) == [503, 429, 200, 200]
    assert [each.met for each in sim.asked("GET /x")] == ["step 1: 503", "step 2: 429", "answer: 200", "answer: 200"]


def test_steps_that_are_added_come_before_the_answer_that_stays(sim: Simulator, client: httpx2.Client) -> None:
    sim.on("GET /x", "fine")
    sim.then("GET /x", Status(500), Status(502))

    assert statuses(client, "/x", 3) == [500, 502, 200]


def test_steps_for_any_request_are_taken_by_whichever_comes_next(sim: Simulator, client: httpx2.Client) -> None:
    sim.on("GET /x", "fine")
    sim.on("GET /y", "fine")
    sim.then("/{rest:path}", Status(500), Status(502))

    assert statuses(client, "/y", 1) + statuses(client, "/x", 2) == [500, 502, 200]


def test_a_route_that_is_declared_again_starts_over(sim: Simulator, client: httpx2.Client) -> None:
    sim.on("GET /x", Status(503), "old")
    sim.on("GET /x", "new")

    assert client.get("/x").text == "new"


def test_a_reset_leaves_what_was_declared(sim: Simulator, client: httpx2.Client) -> None:
    sim.on("GET /x", Status(503), "fine")
    statuses(client, "/x", 2)
    sim.then("GET /x", Status(500))
    sim.then("/{rest:path}", Status(502))
    sim.stay("GET /x", Status(410))
    sim.outage("1h 404")

    sim.reset()

    assert (sim.count(), sim.asked(), sim.count("GET /x")) == (0, [], 0)
    assert [each["route"] for each in sim.as_json()["routes"]] == ["GET /x"]
    assert statuses(client, "/x", 3) == [503, 200, 200]
    assert sim.asked()[0].number == 1


def test_chance_starts_over_at_a_reset(sim: Simulator, client: httpx2.Client) -> None:
    sim.on("GET /x", "fine")
    runs = []
    for _ in range(2):
        sim.reset()
        sim.outage("1h 50% errors")
        runs.append(statuses(client, "/x", 30))

    assert runs[0] == runs[1]
    assert set(runs[0]) == {200, 500}


def test_state_outside_the_simulator_is_reset_with_it() -> None:
    albums = [1, 2, 3]
    sim = Simulator(on_reset=albums.clear)

    sim.reset()

    assert albums == []


@pytest.mark.parametrize(
    ("route", "path", "params"),
    [
        ("GET /album/{id}", "/album/7", {"id": "7"}),
        ("GET /album/{id}", "/album/a%20b%2Fc", {"id": "a b/c"}),
        ("GET /{user}/album/{id}", "/ada/album/7", {"user": "ada", "id": "7"}),
        ("GET /files/{rest:path}", "/files/a/b.mp3", {"rest": "a/b.mp3"}),
        ("* /album.json", "/album.json", {}),
        ("/album", "/album", {}),
    ],
)
def test_a_pattern_names_parts_of_the_path(
    sim: Simulator, client: httpx2.Client, route: str, path: str, params: dict[str, str]
) -> None:
    sim.on(route, lambda asked: dict(asked.params))

    assert client.get(path).json() == params


@pytest.mark.parametrize("path", ["/album", "/album/", "/album/7/tracks", "/albumx7", "/album/7x/"])
def test_a_pattern_does_not_match_what_it_does_not_name(sim: Simulator, client: httpx2.Client, path: str) -> None:
    sim.on("GET /album/{id}", "fine")

    assert client.get(path).status_code == 404


def test_the_most_exact_route_answers(sim: Simulator, client: httpx2.Client) -> None:
    sim.on("/{rest:path}", "anything")
    sim.on("GET /{a}", "one part")
    sim.on("/x", "any method")
    sim.on("GET /x", "exact")

    assert [client.get("/x").text, client.post("/x").text] == ["exact", "any method"]
    assert [client.get("/y").text, client.get("/y/z").text] == ["one part", "anything"]


def test_what_is_not_declared_is_said(sim: Simulator, client: httpx2.Client) -> None:
    sim.on("GET /x", "fine")
    sim.on("PUT /x", "fine")

    missing, wrong = client.get("/y"), client.post("/x")

    assert (missing.status_code, "GET /y" in missing.json()["error"]) == (404, True)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, PUT")
    assert [each.met for each in sim.asked()] == ["no route: 404", "no route: 405"]


def test_a_head_request_gets_the_head_of_the_answer(sim: Simulator, client: httpx2.Client) -> None:
    sim.on("GET /x", "fine")

    answer = client.head("/x")

    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "4", b"")
    assert client.get("/x").text == "fine"


@pytest.mark.parametrize(
    ("body", "content", "kind"),
    [
        (b"\xff\x00", b"\xff\x00", "application/octet-stream"),
        ("gr\u00fcn", "gr\u00fcn".encode(), "text/plain; charset=utf-8"),
        ({"a": [1, None]}, b'{"a":[1,null]}', "application/json"),
        ([], b"[]", "application/json"),
        (lambda asked: {"path": asked.path}, b'{"path":"/x"}', "application/json"),
    ],
)
def test_a_body_says_what_it_is(sim: Simulator, client: httpx2.Client, body: object, content: bytes, kind: str) -> None:
    sim.on("GET /x", Step(body=body))

    answer = client.get("/x")

    assert (answer.content, answer.headers["content-type"]) == (content, kind)


def test_headers_are_sent_as_given(sim: Simulator, client: httpx2.Client) -> None:
    sim.on("GET /x", Step(429, headers=[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Retry-After", "never")]))

    answer = client.get("/x")

    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert answer.headers["retry-after"] == "never"


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body_has_none(sim: Simulator, client: httpx2.Client, status: int) -> None:
    sim.on("GET /x", Step(status, "ignored"), "fine")

    assert client.get("/x").content == b""
    assert client.get("/x").text == "fine"


def test_a_function_may_keep_state_and_return_any_step(sim: Simulator, client: httpx2.Client) -> None:
    albums: dict[int, object] = {}

    def add(asked: RecordedRequest) -> object:
        if asked.headers.get("X-Api-Key") != "k":
            return Status(401)
        albums[len(albums) + 1] = asked.json
        return Step(201, {"id": len(albums)})

    sim.on("POST /album", add)

    assert client.post("/album", json={"title": "Blue"}).status_code == 401
    made = client.post("/album", json={"title": "Blue"}, headers={"x-api-key": "k"})
    assert (made.status_code, made.json(), albums) == (201, {"id": 1}, {1: {"title": "Blue"}})


@pytest.mark.parametrize("broken", [lambda asked: asked.params["nothing"], lambda asked: {"a": object()}, lambda _: 7])
def test_a_function_that_fails_is_a_500_that_says_why(
    sim: Simulator, client: httpx2.Client, broken: object, caplog: pytest.LogCaptureFixture
) -> None:
    sim.on("GET /x", broken)

    answer = client.get("/x")

    assert answer.status_code == 500
    assert answer.json()["error"]
    assert sim.asked()[0].met == "failed: 500"
    assert "GET /x" in caplog.text


def test_the_journal_has_all_of_a_request(sim: Simulator, client: httpx2.Client) -> None:
    sim.on("POST /x", "fine")
    before = time.time()
    client.post("/x?a=1&a=2&b=", content="k=v&l=", headers={"X-Own": "yes"})

    [asked] = sim.asked("POST /x")

    assert (asked.number, asked.method, asked.path, asked.raw_query) == (1, "POST", "/x", "a=1&a=2&b=")
    assert (asked.query, asked.pairs) == ({"a": "2", "b": ""}, [("a", "1"), ("a", "2"), ("b", "")])
    assert (asked.body, asked.text, asked.form) == (b"k=v&l=", "k=v&l=", {"k": "v", "l": ""})
    assert (asked.headers["x-own"], asked.headers["X-OWN"], asked.headers.get("none")) == ("yes", "yes", "")
    assert before <= asked.at <= time.time()
    assert repr(asked) == "<Asked 1: POST /x?a=1&a=2&b= -> answer: 200>"


def test_the_journal_keeps_the_last_ones_and_a_route_counts_them_all() -> None:
    with Simulator(max_kept=3) as sim, httpx2.Client(base_url=sim.url, timeout=60) as client:
        sim.on("GET /{n}", "fine")
        for n in range(5):
            client.get(f"/{n}")

        assert [each.path for each in sim.asked()] == ["/2", "/3", "/4"]
        assert (sim.count(), sim.count("GET /{n}"), sim.count("GET /4"), sim.count("GET /0")) == (5, 5, 1, 0)


def test_the_journal_keeps_few_bytes_of_large_bodies(sim: Simulator, client: httpx2.Client) -> None:
    sim.on("POST /x", "fine")
    for _ in range(4):
        client.post("/x", content=bytes(6 * 1024 * 1024))

    assert (len(sim.asked()), sim.count("POST /x")) == (2, 4)


def test_waiting_ends_with_the_request_that_was_waited_for(sim: Simulator, client: httpx2.Client) -> None:
    sim.on("GET /x", "fine")
    asking = threading.Thread(target=statuses, args=(client, "/x", 3))
    asking.start()

    found = sim.wait_for("GET /x", 3)
    asking.join()

    assert [each.number for each in found] == [1, 2, 3]


def test_waiting_for_the_end_of_an_answer_ends_with_it(sim: Simulator, client: httpx2.Client) -> None:
    sim.on("GET /x", Step(body="fine", delay="200ms"))
    asking = threading.Thread(target=statuses, args=(client, "/x", 1))
    started = time.perf_counter()
    asking.start()

    [asked] = sim.wait_for("GET /x", timeout="1m", over=True)
    took = time.perf_counter() - started
    asking.join()

    assert (asked.over, asked.gone) == (True, False)
    assert 0.15 < took < 60


def test_waiting_in_vain_says_what_there_was(sim: Simulator, client: httpx2.Client) -> None:
    sim.on("GET /x", "fine")
    client.get("/x")

    with pytest.raises(TimeoutError) as told:
        sim.wait_for("GET /y", timeout="50ms")

    assert names(str(told.value), "GET /y", "50ms", "\n  <Asked 1: GET /x")


def test_a_client_that_leaves_is_seen(sim: Simulator) -> None:
    sim.on("GET /x", Hang("1h"), Step(body=bytes(1000), drip="1h", piece=10), Step(body=bytes(50_000_000)), "fine")
    with httpx2.Client(base_url=sim.url, timeout=httpx2.Timeout(60, read=0.5)) as client:
        for _ in range(2):
            with pytest.raises(httpx2.ReadTimeout):
                client.get("/x")
        with client.stream("GET", "/x", timeout=60):
            pass
        assert client.get("/x", timeout=60).text == "fine"

    found = sim.wait_for("GET /x", 4, over=True)
    assert [each.gone for each in found] == [True, True, True, False]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda sim: sim.on("GET", "x"), "'GET'"),
        (lambda sim: sim.on("get /x", "x"), "'get /x' is not a route"),
        (lambda sim: sim.on("GET /x?a=1", "x"), "is not a route"),
        (lambda sim: sim.on("GET /{a}/{a}", "x"), "twice"),
        (lambda sim: sim.on("GET /{a b}", "x"), "is not a route"),
        (lambda sim: sim.on("GET /{1}", "x"), "brace"),
        (lambda sim: sim.on("GET /x"), "^route: 'GET /x'"),
        (lambda sim: sim.on("GET /x", 503), r"Status\(503\)"),
        (lambda sim: sim.on("GET /x", ConnectionRefusedError), r'outage\("5m down"\)'),
        (lambda sim: sim.on("GET /x", TimeoutError()), r'outage\("5m down"\)'),
        (lambda sim: sim.then("GET /x", object()), "Step"),
        (lambda sim: sim.outage("5 minutes"), "5 minutes"),
        (lambda sim: sim.outage(5), "5 is not an outage; give a text"),
        (lambda sim: Simulator(port=70000), "port: 70000 is not allowed"),
        (lambda sim: Simulator(max_connections=0), "max_connections: 0 is not allowed"),
        (lambda sim: Step(99), "status: 99"),
        (lambda sim: Step(cut=-1), "cut: -1 is not allowed"),
        (lambda sim: Step(framing="none"), "give one of length, chunked, close"),
        (lambda sim: Step(length=5, framing="chunked"), "^length: "),
        (lambda sim: Step(reset=True, hang=5), "does not hang"),
        (lambda sim: Step(raw=cast("bytes", "text")), "raw: 'text' is not bytes"),
        (lambda sim: Step(delay="soon"), "delay: 'soon' is not a duration"),
        (lambda sim: Step(headers={"a b": "c"}), "'a b'"),
        (lambda sim: Step(headers={"a": "b\r\nc: d"}), "line break"),
        (lambda sim: Step(headers={"Content-Length": "5"}), "give length= to change it"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_give(make: object, says: str) -> None:
    assert callable(make)
    with pytest.raises((ValueError, TypeError), match=says):
        make(Simulator())
