"""What an outage would do, on the page of a target."""

from __future__ import annotations

import logging
import re

import pytest
from starlette.testclient import TestClient

from tests.web.test_pages import client
from tidegate import Breaker, Queue
from tidegate.guard.breaker_registry import all_totals
from tidegate.web.site import Site


@pytest.fixture
def pages(q: Queue) -> TestClient:
    return client(Site(queue=q))


def test_an_outage_is_drawn_when_somebody_asks_and_leaves_no_trace_in_the_server(
    pages: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tidegate")
    kept = Breaker("kept")
    assert kept.state == "closed"
    before = {ledger.name for ledger in all_totals()}

    assert '<svg class="outage"' not in pages.get("/targets/gateway").text
    text = pages.get("/targets/gateway?outage=2h").text

    assert re.search(r'<svg class="outage"[^>]* role="img" aria-label="2h ', text)
    assert "/static/outage.css" in text
    assert "<style" not in text
    assert 'data-gate="open"' in text  # at this pace no gate closes
    assert 'data-gate="open"' not in pages.get("/targets/navidrome?outage=2h").text
    assert {ledger.name for ledger in all_totals()} == before
    assert [each.message for each in caplog.records if each.name.startswith("tidegate.breaker")] == []


def test_a_length_that_is_none_and_a_target_without_a_gate_show_no_picture(pages: TestClient) -> None:
    none = pages.get("/targets/gateway?outage=9y").text
    assert 'id="outage"' in none
    assert '<svg class="outage"' not in none
    assert 'id="outage"' not in pages.get("/targets/weather?outage=2h").text
