"""The benchmark of lidarr measures what it says it measures."""

from __future__ import annotations

import pytest

from bench.lidarr import PATHS, Size, run


@pytest.mark.req("LID-07")
def test_every_number_of_the_application_has_its_row_and_a_wake_keeps_to_its_calls() -> None:
    rows = run(Size(albums=60, free=10, pages=1))

    assert [row.what.removeprefix("lidarr: ") for row in rows] == [
        "enqueue of 60 albums with unique", "the same with their states and badges",
        "submissions of a wake with 10 free places", "calls beside them",
        *(f"page {path} with 60 entries, p95" for path in PATHS),
    ]  # fmt: skip
    sent, calls = rows[2:4]
    assert (sent.found, sent.target, sent.ok) == ("10", "10", True)
    assert calls.found.startswith("24.00 (and 20 that send;")
