"""The benchmark of lidarr measures what it says it measures."""

from __future__ import annotations

import pytest

from bench.lidarr import PATHS, Size, run
from tests.text import names, numbers


@pytest.mark.req("LID-07")
def test_every_number_of_the_application_has_its_row_and_a_wake_keeps_to_its_calls() -> None:
    rows = run(Size(albums=60, free=10, pages=1))

    assert len({row.what for row in rows}) == len(rows) == 4 + len(PATHS)
    enqueued, _, sent, calls, *pages = rows
    assert (numbers(enqueued.what), numbers(sent.what)) == ([60], [10])
    assert all(names(row.what, path, 60) for row, path in zip(pages, PATHS, strict=True))
    assert (sent.found, sent.target, sent.ok) == ("10", "10", True)
    assert calls.found.startswith("24.00 (and 20 that send;")
