"""The benchmark of tautulli measures what it says it measures."""

from __future__ import annotations

import pytest

from bench.tautulli import Size, run


@pytest.mark.req("BRK-12")
def test_every_number_of_the_application_has_its_row() -> None:
    rows = run(Size(rows=1000, per_day=50, calls=3, rounds=2, charts=2))
    whats = [row.what for row in rows]
    assert len(set(whats)) == len(whats) == 15
    assert all(what.startswith("tautulli: ") for what in whats)
    assert "1,000 rows" in whats[6]
    assert {row.target for row in rows if row.target} == {
        "<= 1.05x bare", "<= 3x prebuilt", "<= 1.05x", "<= 2 s", "<= 150 ms",
    }  # fmt: skip
