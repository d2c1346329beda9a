"""The benchmark of music looks at the pages it says it looks at."""

from __future__ import annotations

from bench.music import run


def test_every_page_of_a_filled_library_is_measured() -> None:
    (row,) = run(tracks=300, plays=500, rounds=1)
    assert "300 tracks" in row.what
