"""The picture says what happened, to eyes and to screen readers, with nothing from outside."""

from __future__ import annotations

import re
from functools import partial
from xml.etree import ElementTree as ET

import pytest

from tidegate import Backoff, Cooldown, Target
from tidegate.simulation import report
from tidegate.simulation.chart import picture
from tidegate.simulation.play import HoldKind
from tidegate.testing import simulate

SVG = "{http://www.w3.org/2000/svg}"
NONE = Backoff(0, cap=0, jitter=0)


def drawn(outage: str = "2h down", every: str = "5m", lasts: str = "6h", **target: object) -> ET.Element:
    result = simulate(partial(Target, "service", "sync", **target), outage=outage, every=every, lasts=lasts)  # type: ignore[arg-type]
    return ET.fromstring(picture(result, 'a "title" <with> & all'))


def words(svg: ET.Element) -> list[str]:
    return [each.text or "" for each in svg.iter(f"{SVG}text")]


def test_it_has_a_title_a_description_and_labels() -> None:
    svg = drawn()

    assert svg.get("role") == "img"
    assert svg.findtext(f"{SVG}title") == 'a "title" <with> & all'
    assert "2h down" in (svg.findtext(f"{SVG}desc") or "")
    assert {"Tidegate", "backoff", "notices"} <= set(words(svg))


def test_it_is_whole_in_itself_and_knows_both_colour_schemes() -> None:
    svg = drawn()
    text = ET.tostring(svg, encoding="unicode")

    assert not list(svg.iter(f"{SVG}script"))
    assert not re.search(r"href|url\(|@import|on[a-z]+=", text)
    assert "prefers-color-scheme:dark" in text


def test_every_class_that_is_used_has_a_colour_in_both_schemes() -> None:
    svg = drawn(breaker={"consecutive": 2}, cooldown=Cooldown({"network": (4, "1h")}))
    style = svg.findtext(f"{SVG}style") or ""
    light, dark = style.split("@media")
    used = {each.get("class") for each in svg.iter() if each.get("class")} | {
        str(why).replace(" ", "-") for why in HoldKind
    }

    for name in used:
        assert re.search(rf"\.{name}\{{", light), name
        assert re.search(rf"\.{name}\{{", dark), name


def test_few_calls_are_one_mark_each() -> None:
    svg = drawn()
    crosses = [each for each in svg.iter(f"{SVG}path") if each.get("class") == "cross"]

    # three lanes and the legend: 9 calls with the gates, 24 and 72 without
    assert sorted((each.get("d") or "").count("M") for each in crosses) == [1, 9, 24, 72]


def test_many_calls_become_bars_and_the_file_stays_small() -> None:
    result = simulate(partial(Target, "s", "jobs", backoff=NONE), outage="12h 30% errors", every="5s", lasts="24h")

    assert len(picture(result, "a day")) < 60_000


@pytest.mark.parametrize("outage", ["none", "9d down", "1s down", "2h down at 5h50m, 1h 503, 10m 429 retry-after 1m"])
def test_everything_stays_inside_the_picture(outage: str) -> None:
    svg = drawn(outage)
    width = float(svg.get("width") or 0)

    for each in svg.iter(f"{SVG}rect"):
        assert 0 <= float(each.get("x") or 0) <= width
        assert float(each.get("x") or 0) + float(each.get("width") or 0) <= width + 1
    for each in svg.iter(f"{SVG}text"):
        assert 0 <= float(each.get("x") or 0) <= width


def test_the_json_says_the_same_as_the_result() -> None:
    result = simulate(partial(Target, "s", "sync"), outage="2h down", every="5m", lasts="6h")
    found = report.as_json(result, "s")

    assert found["calls"] == len(result.calls) == sum(run["calls"] for run in found["timeline"])
    assert found["failures"] == sum(run["calls"] for run in found["timeline"] if not run["ok"])
    assert found["without"]["three_tries"] == {
        "calls": 120,
        "calls_during_outage": 72,
        "failures": 72,
        "recovered_after": 0.0,
    }
    assert [hold["reason"] for hold in found["holds"]] == ["backoff"] * len(result.spans)
    assert found["outage"] == [
        {"from": 1800, "to": 9000, "trouble": "down", "status": None, "retry_after": None, "share": 1.0}
    ]


def test_the_words_say_who_noticed_and_when_it_was_well_again() -> None:
    well = simulate(partial(Target, "s", "sync"), outage="2h down", every="5m", lasts="6h")
    never = simulate(partial(Target, "s", "jobs", backoff=NONE), outage="9h down", every="5m", lasts="6h")

    assert well.recovered_after is not None
    assert never.recovered_after is None
    assert len(re.findall(r"\b\d+[smh]\b", report.summary(well))) > len(
        re.findall(r"\b\d+[smh]\b", report.summary(never))
    )
