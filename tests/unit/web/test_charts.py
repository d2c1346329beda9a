"""The past as pictures: each slot a bar with words, where it belongs, and gaps where nobody looked."""

from __future__ import annotations

import re

from tidegate.jobs.history import CallCounts, History, Point
from tidegate.web.pages import charts

START, STEP = 1_000_200, 300


def point(
    n: int, attempts: int = 0, bad: int = 0, p95: float | None = None, depth: int = 0, oldest: float = 0
) -> Point:
    return Point(
        at=START + n * STEP, attempts=attempts, bad=bad, gave_up=0, p95=p95, depth=depth, oldest=oldest
    )  # fmt: skip


def queue(*points: Point) -> charts.Past:
    return charts.of_queue(History(start=START, end=START + 10 * STEP, step=STEP, points=points), "3h", START)


def target(*points: CallCounts) -> charts.Past:
    return charts.of_target(History(start=START, end=START + 10 * STEP, step=STEP, points=points), "3h", START)


def columns(past: charts.Past, tone: str, chart: int = 0) -> list[tuple[float, float]]:
    """Where the bars of a tone begin, and how high they are."""
    found = re.findall(
        rf'class="tone {tone}" x="([\d.]+)" y="[\d.]+" width="[\d.]+" height="([\d.]+)"', past.charts[chart].picture
    )
    return [(float(x), float(height)) for x, height in found]


def test_a_bar_stands_where_its_slot_is_and_is_as_high_as_its_share() -> None:
    past = queue(point(1, 10), point(2, 20, 5), point(9, 5))

    assert columns(past, "good") == [(0, 30), (100, 60), (800, 15)]
    assert columns(past, "bad") == [(100, 15)]


def test_the_words_say_what_the_picture_shows() -> None:
    past = queue(point(1, 10, 1, 0.5, 3), point(2, 1190, 2, 2.5, 7, 120))

    assert [re.findall(r"[\d,.]*\d", each.short) for each in past.charts] == [
        ["1,200", "0.2"], ["10", "5"], ["95", "100", "2.5"], ["7", "7"], ["2"],
    ]  # fmt: skip
    assert "10 attempts, 1 failed</title>" in past.charts[0].picture
    assert re.search(r'aria-label="Attempts: 1,200, [^"]*\b3 failed"', past.charts[0].picture)


def test_one_is_not_said_to_be_many() -> None:
    assert ": 1 attempt, 0 failed</title>" in queue(point(1, 1)).charts[0].picture
    assert (
        ": 1 good call, 0 failed</title>" in target(CallCounts(at=START, good=1, bad=0, rejected=0)).charts[0].picture
    )
    beats = charts.beat_bar([CallCounts(at=START, good=1, bad=0, rejected=0)], START)
    assert "Last 24 hours: 1 call" in beats.picture
    assert ": 1 call, 0 failed</title>" in beats.picture


def test_a_quiet_queue_says_so() -> None:
    past = queue(point(1), point(2))

    assert [each.short for each in past.charts] == ["0", "none", "none ran", "0 now, at most 0", "none waited"]


def test_without_anything_put_down_there_is_no_picture() -> None:
    assert queue().charts == target().charts == ()


def test_calls_that_were_turned_away_are_shown_when_there_were_any() -> None:
    assert [each.title for each in target(CallCounts(at=START + STEP, good=3, bad=0, rejected=0)).charts] == ["Calls"]
    past = target(CallCounts(at=START + STEP, good=3, bad=1, rejected=9))
    assert [re.findall(r"[\d.]+", each.short) for each in past.charts] == [["4", "25.0"], ["25", "5"], ["9"]]


def test_the_share_that_failed_is_as_high_as_it_is_bad_however_few_the_attempts() -> None:
    past = queue(point(1, 1000, 100), point(2, 2, 1), point(3, 0))

    assert columns(past, "bad", 1) == [(0, 6), (100, 30)]  # of 60, which is all of them


def test_a_beat_is_the_higher_the_worse_the_hour_was() -> None:
    hour = 3600
    found = [
        CallCounts(at=hour, good=5, bad=0, rejected=0), CallCounts(at=2 * hour, good=5, bad=1, rejected=0),
        CallCounts(at=3 * hour, good=1, bad=1, rejected=0), CallCounts(at=4 * hour, good=0, bad=0, rejected=7),
        CallCounts(at=5 * hour, good=0, bad=0, rejected=0), None,
    ]  # fmt: skip
    chart = charts.beat_bar(found, 6.0 * hour)
    picture = chart.picture

    assert chart.short == "84 % good"
    shown = re.findall(r'class="tone (good|warn|bad|calm)" [^>]*height="([\d.]+)"', picture)
    assert shown == [("good", "18"), ("warn", "39"), ("bad", "60"), ("calm", "7.2")]
    assert picture.count("<g>") == 6
    said = "Last 24 hours: 13 calls, 15.4% failed; in 1 hour half of them or more; 7 turned away by the breaker"
    assert f'aria-label="{said}"' in picture


def test_a_span_that_is_none_is_the_usual_one() -> None:
    assert [charts.chosen(span) for span in ("7d", "", "<script>")] == ["7d", "24h", "24h"]
