"""What is judged, and how strictly."""

from __future__ import annotations

import re

import pytest

from tests.soak.__main__ import markdown, table, verdicts
from tests.soak.sampling import HISTORY, kind_of
from tests.soak.slope import Kind


def samples(**by_name: float) -> list[tuple[float, dict[str, float]]]:
    """An hour of everything at 100, and so much more of these in that hour."""
    named = {name.replace("_of_", " "): more for name, more in by_name.items()}
    return [(10.0 * n, {name: 100 + more * n / 360 for name, more in named.items()}) for n in range(360)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("memory server", Kind.SHARE), ("handles of other kinds", Kind.EXACT), ("threads of all", Kind.EXACT),
        ("handles of the database", Kind.POOL), ("handles that are sockets", Kind.POOL),
        ("log of the database, MB", Kind.BOUNDED), ("rows tg_job", Kind.SHARE),
        ("rows of_somebody_new", Kind.SHARE), ("rows tg_worker", Kind.KEPT),
        ("rows tg_job of lidarr", Kind.SHARE), ("rows convert_file", Kind.BOUNDED), ("database, MB", Kind.KEPT),
    ],
)  # fmt: skip
def test_everything_is_judged_but_what_is_kept_for_days(name: str, kind: Kind) -> None:
    assert kind_of(name)[0] is kind


def test_memory_may_grow_by_a_hundredth_in_an_hour_and_a_table_by_a_tenth() -> None:
    found = verdicts(samples(memory_of_server=3, rows_of_tg_job=9, rows_of_tg_hold=15, rows_of_tg_failure=900))

    grown = {name for name, (_, said) in found.items() if said.grows}
    assert grown == {"memory server", "rows tg_hold"}
    shown = table(found)
    assert shown.count("GROWS") == 2
    assert f"kept: {HISTORY['tg_failure']}" in shown
    page = markdown(found, "12 kills")
    assert re.search(r"^\| .*\b2 tables\b.* \| GROWS: tg_hold \|$", page, re.MULTILINE)
    assert "| load |  |  | 12 kills |" in page


def test_a_table_that_came_late_counts_as_empty_before() -> None:
    late = [(at, values if n > 200 else {}) for n, (at, values) in enumerate(samples(rows_of_new_table=5000))]
    assert verdicts(late)["rows new_table"][1].level > 0
