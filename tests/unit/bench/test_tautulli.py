"""The benchmark of tautulli measures what it says it measures."""

from __future__ import annotations

import pytest

from bench.tautulli import Size, run


@pytest.mark.req("BRK-12")
def test_every_number_of_the_application_has_its_row() -> None:
    rows = run(Size(rows=1000, per_day=50, calls=3, rounds=2, charts=2))
    whats = [row.what for row in rows]
    assert whats[:10] == [
        "tautulli: guarded call on the simulator", "tautulli: rejection by its open breaker",
        "tautulli: rejection of a call of the client", "tautulli: the same, its method looked up too",
        "tautulli: the same of an async client", "tautulli: pages read and not stored",
        "tautulli: first sync of 1,000 rows", "tautulli: first sync beside reading alone",
        "tautulli: the same where a page takes 25 ms",
        "tautulli: sync again, nothing changed",
    ]  # fmt: skip
    assert len(whats) == 15
    assert {row.target for row in rows if row.target} == {
        "<= 1.05x bare", "<= 3x prebuilt", "<= 1.05x", "<= 2 s", "<= 150 ms",
    }  # fmt: skip
