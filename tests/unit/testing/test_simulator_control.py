"""The control endpoint changes the weather of a running simulator, and says plainly what it cannot do."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tidegate.testing import Simulator, Status


@pytest.fixture
def sim() -> Iterator[Simulator]:
    with Simulator("lidarr") as running:
        running.on("GET /x", "fine")
        yield running


@pytest.fixture
def control(sim: Simulator) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=sim.control_url.removesuffix("/_sim"), timeout=60) as made:
        yield made


def get(sim: Simulator, path: str = "/x") -> httpx2.Response:
    return httpx2.get(f"{sim.url}{path}", timeout=60)


def test_the_state_is_shown_at_both_doors(sim: Simulator, control: httpx2.Client) -> None:
    sim.then("GET /x", Status(503))
    get(sim)

    state = control.get("/_sim").json()

    assert state == {
        "name": "lidarr", "url": sim.url, "control": sim.control_url, "connections": state["connections"],
        "asked": 1, "outage": None, "outages": [],
        "routes": [{"route": "GET /x", "asked": 1, "steps": [], "answer": "200"}],
    }  # fmt: skip
    assert get(sim, "/_sim/").json()["name"] == "lidarr"
    assert sim.count() == 1  # what the control endpoint is asked is not counted


def test_the_journal_is_shown_without_secrets(sim: Simulator, control: httpx2.Client) -> None:
    httpx2.get(
        f"{sim.url}/x?apikey=geheim&page=2",
        headers={"Authorization": "Bearer geheim", "X-Api-Key": "geheim"},
        timeout=60,
    )
    httpx2.post(f"{sim.url}/y", json={"password": "geheim", "album": 7}, timeout=60)
    get(sim)

    journal = control.get("/_sim/journal").json()["asked"]

    assert [(each["number"], each["method"], each["met"]) for each in journal] == [
        (1, "GET", "answer: 200"), (2, "POST", "no route: 404"), (3, "GET", "answer: 200"),
    ]  # fmt: skip
    assert "geheim" not in str(journal)
    assert (journal[0]["query"], journal[0]["headers"]["x-api-key"]) == ("apikey=***&page=2", "***")
    assert "album" in journal[1]["body"]


def test_the_journal_can_be_asked_for_the_last_of_one_route(sim: Simulator, control: httpx2.Client) -> None:
    for path in ("/x", "/y", "/x", "/x"):
        get(sim, path)

    found = control.get("/_sim/journal", params={"route": "GET /x", "most": "2"}).json()

    assert ([each["number"] for each in found["asked"]], found["kept"]) == ([3, 4], 3)
    assert control.get("/_sim/journal", params={"most": "0"}).json()["asked"] == []


def test_steps_can_be_added_and_the_answer_replaced(sim: Simulator, control: httpx2.Client) -> None:
    steps = [{"status": 429, "retry_after": "5m"}, {"base64": base64.b64encode(b"\xff").decode()}, {"body": {"a": 1}}]
    told = control.post("/_sim/script", json={"route": "GET /x", "steps": steps, "answer": {"status": 410}})

    assert told.json()["routes"][0]["steps"] == ["429", "200", "200"]
    answers = [get(sim) for _ in range(4)]
    assert [each.status_code for each in answers] == [429, 200, 200, 410]
    assert (answers[0].headers["retry-after"], answers[1].content, answers[2].json()) == ("300", b"\xff", {"a": 1})


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ({"reset": True}, httpx2.ReadError),
        ({"hang": True}, httpx2.ReadTimeout),
        ({"hang": "1m"}, httpx2.ReadTimeout),
        ({"body": "0123456789", "cut": 5}, httpx2.RemoteProtocolError),
        ({"raw": "220 hello\r\n\r\n"}, httpx2.RemoteProtocolError),
    ],
)
def test_a_step_may_misbehave(
    sim: Simulator, control: httpx2.Client, step: dict[str, object], error: type[Exception]
) -> None:
    control.post("/_sim/script", json={"route": "GET /x", "steps": [step]}).raise_for_status()

    with pytest.raises(error):
        httpx2.get(f"{sim.url}/x", timeout=httpx2.Timeout(60, read=0.5 if "hang" in step else 60))


def test_an_outage_is_begun_at_one_door_and_ended_at_the_other(sim: Simulator, control: httpx2.Client) -> None:
    told = httpx2.post(f"{sim.url}/_sim/outage", json={"text": "5m down"}, timeout=60)

    assert told.json()["outage"] == {"text": "5m down", "ends_in": "5m"}
    with pytest.raises(httpx2.ConnectError):
        get(sim)
    assert control.get("/_sim").json()["outage"]["text"] == "5m down"

    assert control.delete("/_sim/outage").json()["outage"] is None
    assert get(sim).text == "fine"


def test_an_outage_may_be_of_one_route(sim: Simulator, control: httpx2.Client) -> None:
    sim.on("GET /spotify/{rest:path}", "fine")
    told = control.post("/_sim/outage", json={"text": "5m 503", "route": "/spotify/{rest:path}"}).json()

    assert told["outages"] == [{"route": "* /spotify/{rest:path}", "text": "5m answering 503", "ends_in": "5m"}]
    assert [get(sim, path).status_code for path in ("/x", "/spotify/me")] == [200, 503]
    assert control.delete("/_sim/outage").json()["outages"] == []
    assert get(sim, "/spotify/me").text == "fine"


def test_a_reset_brings_back_what_was_declared(sim: Simulator, control: httpx2.Client) -> None:
    control.post("/_sim/script", json={"route": "GET /x", "answer": {"status": 410}})
    control.post("/_sim/outage", json={"text": "1h 503"})
    get(sim)

    assert control.post("/_sim/reset").json()["asked"] == 0
    assert get(sim).text == "fine"


def test_the_control_endpoint_answers_in_any_weather(sim: Simulator) -> None:
    sim.outage("1h 503")

    assert get(sim, "/_sim").status_code == 200
    assert get(sim, "/_simple").status_code == 503


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("script", {}, "route: "),
        ("script", {"route": "GET"}, "steps: "),
        ("script", {"route": "GET", "answer": {}}, "route: 'GET' is not a route"),
        ("script", {"route": "GET /x", "steps": {}}, "steps: "),
        ("script", {"route": "GET /x", "steps": [503]}, r"step: .*503"),
        ("script", {"route": "GET /x", "step": []}, r"'step'; .*'steps'"),
        (
            "script",
            {"route": "GET /x", "steps": [{"delya": 1}]},
            r"'delya'; .*'delay'",
        ),
        ("script", {"route": "GET /x", "steps": [{"zzz": 1}]}, "'zzz'"),
        ("script", {"route": "GET /x", "steps": [{"pairs": []}]}, "'pairs'"),
        ("script", {"route": "GET /x", "steps": [{"status": "503"}]}, r"status: .*'503'"),
        ("script", {"route": "GET /x", "steps": [{"delay": "soon"}]}, "delay: 'soon'"),
        ("script", {"route": "GET /x", "steps": [{"delay": None}]}, "delay: None"),
        ("script", {"route": "GET /x", "steps": [{"reset": "yes"}]}, r"reset: .*'yes'"),
        ("script", {"route": "GET /x", "steps": [{"headers": ["a"]}]}, "headers: "),
        ("script", {"route": "GET /x", "steps": [{"headers": {"a": 1}}]}, r"headers: .*1"),
        ("script", {"route": "GET /x", "steps": [{"base64": "%"}]}, "base64: "),
        ("outage", {}, "text: "),
        ("outage", {"text": 5}, r"outage: .*5"),
        ("outage", {"text": "5 minutes"}, "outage: '5 minutes'"),
        ("outage", {"text": "5m down", "route": 5}, "route: "),
        ("outage", {"text": "5m down", "route": "x"}, "route: 'x'"),
        ("outage", [], "JSON"),
    ],
)
def test_bad_input_is_told_what_to_give_and_changes_nothing(
    sim: Simulator, control: httpx2.Client, path: str, body: Any, says: str
) -> None:
    before = control.get("/_sim").json()

    told = control.post(f"/_sim/{path}", json=body)

    assert told.status_code == 400
    assert re.search(says, told.json()["error"])
    assert control.get("/_sim").json() == before


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"\xff"])
def test_a_body_that_is_no_json_is_said(control: httpx2.Client, body: bytes) -> None:
    told = control.post("/_sim/outage", content=body)

    assert (told.status_code, "JSON" in told.json()["error"]) == (400, True)


def test_what_it_does_not_have_is_listed(control: httpx2.Client) -> None:
    told = control.get("/_sim/weather")

    assert told.status_code == 404
    assert "DELETE /_sim/outage" in told.json()["error"]
    assert control.get("/x").json()["error"].endswith(" /_sim")


@pytest.mark.parametrize("most", ["-1", "x", "1.5", "\u00b2"])
def test_a_bad_number_of_requests_is_said(control: httpx2.Client, most: str) -> None:
    told = control.get("/_sim/journal", params={"most": most})

    assert (told.status_code, told.json()["error"][:5]) == (400, "most:")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.test"},
        {"Host": "127.0.0.1.evil.test"},
        {"Host": "["},
        {"Origin": "http://evil.test"},
        {"Origin": "null"},
    ],
)
def test_a_page_of_somebody_else_cannot_use_it(sim: Simulator, control: httpx2.Client, headers: dict[str, str]) -> None:
    told = control.post("/_sim/outage", json={"text": "5m down"}, headers=headers)

    assert told.status_code == 403
    assert get(sim).text == "fine"


def test_a_page_of_its_own_may(sim: Simulator) -> None:
    told = httpx2.post(f"{sim.url}/_sim/reset", headers={"Origin": sim.url}, timeout=60)

    assert told.status_code == 200
