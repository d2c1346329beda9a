"""Cooldown and Confirm: the numbers, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate import Cooldown, Target
from tidegate.faults import Confirm, Level
from tidegate.faults.codes import CORE

HOUR = 3600.0


@pytest.mark.req("FEED-04", "FEED-05")
def test_the_feed_preset_has_the_thresholds_and_rests_of_the_feed_poller() -> None:
    assert Cooldown.feeds().rests == {
        "forbidden": (5, 24 * HOUR),
        "not_found": (3, 48 * HOUR),
        "gone": (1, 72 * HOUR),
        "upstream_failure": (10, 6 * HOUR),
        "network": (10, 12 * HOUR),
        "parse_error": (5, 24 * HOUR),
    }


@pytest.mark.req("FEED-04")
def test_only_codes_that_are_logged_as_warnings_can_disable_a_feed() -> None:
    assert {CORE[code].level for code in Cooldown.feeds().rests} == {Level.WARN}
    assert not Cooldown.feeds().governs("rate_limited")
    assert not Cooldown.feeds().governs("unexpected")


@pytest.mark.req("FEED-04")
@pytest.mark.parametrize(
    ("code", "counted"),
    [
        ("timeout", "network"),
        ("cut_short", "network"),
        ("overloaded", "upstream_failure"),
        ("bad_answer", "parse_error"),
    ],
)
def test_the_feed_preset_counts_finer_codes_under_the_type_the_feed_poller_knows(code: str, counted: str) -> None:
    assert Cooldown.feeds().counted(code) == counted
    assert Cooldown.feeds().governs(code)


@pytest.mark.parametrize(
    ("rests", "field"),
    [
        ({}, "Cooldown"),
        ({"gone": (0, "1h")}, r"Cooldown\['gone'\]"),
        ({"gone": (1.5, "1h")}, r"Cooldown\['gone'\]"),
        ({"gone": (1, 0)}, r"Cooldown\['gone'\]"),
        ({"gone": (1, "long")}, r"Cooldown\['gone'\]"),
        ({"gone": 3}, r"Cooldown\['gone'\]"),
        ({"gone": (1, "1h", "2h")}, r"Cooldown\['gone'\]"),
    ],
)
def test_wrong_cooldowns_are_refused_by_the_name_of_the_code(rests: Any, field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        Cooldown(rests)


def test_a_code_can_only_be_counted_as_one_that_has_a_rest() -> None:
    with pytest.raises(ValueError, match=r"^Cooldown\.same: 'timeout' as 'network'"):
        Cooldown({"gone": (1, "1h")}, same={"timeout": "network"})


def test_a_target_refuses_a_cooldown_for_a_code_it_does_not_know_or_that_never_counts() -> None:
    with pytest.raises(ValueError, match=r"cooldown: .*'not_fond'"):
        Target("feed", cooldown=Cooldown({"not_fond": (3, "48h")}))
    for code in ("rate_limited", "cancelled", "own_disk"):
        with pytest.raises(ValueError, match=f"cooldown: '{code}' never counts"):
            Target("feed", cooldown=Cooldown({code: (3, "48h")}))


def test_equal_cooldowns_are_equal() -> None:
    assert len({Cooldown.feeds(), Cooldown.feeds(), Cooldown({"gone": (1, "72h")})}) == 2
    assert repr(Cooldown({"gone": (1, "1m")})) == "Cooldown({'gone': (1, 60.0)}, same={})"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"times": 0}, "Confirm.times"),
        ({"apart": "x"}, "Confirm.apart"),
        ({"within": -1}, "Confirm.within"),
        ({"fewer_than": 1}, "Confirm.fewer_than"),
        ({"good": True, "becomes": "gone"}, "Confirm.becomes"),
        ({"unless_worked": True, "only_worked": True}, "Confirm.only_worked"),
    ],
)
def test_wrong_confirms_are_refused_by_the_name_of_the_field(fields: Any, named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}: "):
        Confirm("unauthorized", **fields)


def test_a_target_refuses_to_confirm_a_code_it_does_not_know() -> None:
    with pytest.raises(ValueError, match=r"confirm: .*'unauthorised'"):
        Target("spotify", confirm=[Confirm("unauthorised")])
