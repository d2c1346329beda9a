"""A place in a list that nobody was given is refused in words, and never breaks the page."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.apps.lidarr.building import Round
from tidegate.web.frame import build
from tidegate.web.site import Site

HUGE = "9" * 23


@pytest.mark.parametrize(
    ("state", "cursor"),
    [
        ("", HUGE), ("", f"-{HUGE}"), ("", "0x1"), ("queued", f"{HUGE}.1"), ("queued", f"0.{HUGE}"), ("queued", "0"),
        ("retrying", "nan_1"), ("retrying", "inf_1"), ("retrying", f"1.5_{HUGE}"), ("gave_up", f"-{HUGE}"),
    ],
)  # fmt: skip
def test_a_cursor_that_is_none_of_ours_is_refused_and_the_page_begins_anew(
    quick: Round, state: str, cursor: str
) -> None:
    web = TestClient(build(Site(queue=quick.queue, apps=(quick.there,))), base_url="http://localhost")

    answer = web.get("/api/v1/lidarr/queue", params={"state": state, "cursor": cursor})

    assert answer.status_code in (400, 422)
    assert "give next_cursor of the answer before" in answer.text
    assert web.get("/lidarr", params={"state": state, "after": cursor}).status_code == 200
