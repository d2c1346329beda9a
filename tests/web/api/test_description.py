"""What is true of every route, by the description of the API."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.web.api.building import Shop
from tidegate.targets.table import targets


@pytest.fixture(scope="module")
def described(unchanged: tuple[Shop, TestClient]) -> dict[tuple[str, str], dict[str, Any]]:
    found = unchanged[1].get("/api/openapi.json").json()
    assert found["openapi"] == "3.1.0"
    return {
        (method.upper(), path): route for path, methods in found["paths"].items() for method, route in methods.items()
    }


def test_there_is_a_route_for_everything_that_was_promised(described: dict[tuple[str, str], Any]) -> None:
    tags = {tag for route in described.values() for tag in route["tags"]}
    assert tags == {
        "targets", "queues", "jobs", "bulk-actions", "workers", "notices", "events", "explain", "classify", "config",
        "codes", "activity", "overview", "history", "failures", "channels",
    }  # fmt: skip
    actions = {path.rsplit("/", 1)[1] for method, path in described if method == "POST" and "/targets/" in path}
    assert actions == {"pause", "resume", "test", "reset", "clear", "enable", "disable", "force"}


def test_every_post_takes_a_key_that_makes_it_happen_once(described: dict[tuple[str, str], Any]) -> None:
    for (method, path), route in described.items():
        headers = [each["name"] for each in route.get("parameters", []) if each["in"] == "header"]
        assert headers == (["Idempotency-Key"] if method == "POST" else []), path


def test_every_route_says_how_it_answers_and_what_goes_wrong(described: dict[tuple[str, str], Any]) -> None:
    for place, route in described.items():
        assert "application/json" in route["responses"]["200"]["content"], place
        for status, answer in route["responses"].items():
            kinds = set(answer["content"])
            good = {"application/json"} | ({"text/event-stream"} if place[1].endswith("/events") else set())
            assert kinds == (good if status.startswith("2") else {"application/problem+json"}), place
        assert {"422", "503", "default"} <= set(route["responses"]), place


def test_no_post_of_another_site_reaches_anything(
    unchanged: tuple[Shop, TestClient], described: dict[tuple[str, str], Any]
) -> None:
    there, api = unchanged
    before = there.queue.store.read(lambda tx: [targets(tx), tx.query("queue_rows"), tx.query("tallies")])
    for method, path in described:
        if method == "POST":
            place = path.replace("{name}", "mailer").replace("{id}", "2")
            answer = api.post(place, json={"for": 60, "status": 200}, headers={"Origin": "https://evil.example"})
            assert answer.status_code == 403, path
    assert there.queue.store.read(lambda tx: [targets(tx), tx.query("queue_rows"), tx.query("tallies")]) == before


def test_every_address_has_a_name_of_its_own(described: dict[tuple[str, str], Any]) -> None:
    names = [route["operationId"] for route in described.values()]
    assert len(names) == len(set(names))
    assert {"jobs_list_jobs", "targets_pause", "queues_pause"} <= set(names)
