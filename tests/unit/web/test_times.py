"""How times are told: what is over in whole units, what is ahead in the nearest one."""

from __future__ import annotations

import pytest

from tidegate.labels import ahead, spell_duration
from tidegate.web.pages.formatters import relative

NOW = 1_700_000_000.0
HOUR, DAY = 3600.0, 86_400.0


@pytest.mark.parametrize(
    ("away", "said"),
    [
        (2 * DAY - 30, "in 2 days"),
        (1.4 * DAY, "in 1 day"),
        (119, "in 2 min"),
        (80, "in 1 min"),
        (3.6 * HOUR, "in 4 h"),
        (9, "in 9 s"),
    ],
)
def test_what_is_ahead_is_as_far_as_it_nearly_is(away: float, said: str) -> None:
    assert relative(NOW + away, NOW) == ahead(NOW + away, NOW) == said


@pytest.mark.parametrize(("away", "said"), [(2 * DAY - 30, "1 day ago"), (119, "1 min ago"), (0.2, "just now")])
def test_what_is_over_is_told_in_whole_units(away: float, said: str) -> None:
    assert relative(NOW - away, NOW) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "1 s"), (28, "28 s"), (90, "1 min 30 s"), (2 * HOUR + 300, "2 h 5 min"), (3 * DAY + 61, "3 days 1 min")],
)  # fmt: skip
def test_whoever_waits_is_told_in_two_units(seconds: float, said: str) -> None:
    assert spell_duration(seconds) == said
