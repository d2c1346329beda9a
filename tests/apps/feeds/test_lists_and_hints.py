"""Lists of feeds, what feeds ask for, and how they look: on values alone."""

from __future__ import annotations

from dataclasses import replace
from email.utils import formatdate

import pytest

from tests.apps.feeds.building import DAY, GUARD, HOUR, fetched, poll_error
from tidegate import net
from tidegate_apps.feeds import opml, pages
from tidegate_apps.feeds.client import hints_of, moved_to, retry_after
from tidegate_apps.feeds.host_guard import FeedNetworkGuard
from tidegate_apps.feeds.models import PollRow, Source, public
from tidegate_apps.feeds.notices import REASONS
from tidegate_apps.feeds.parsing import Feed
from tidegate_apps.feeds.state import FeedState, Hints

NOW = 1_700_000_000.0
FEED = Feed(title=None, link=None, ttl=0.0, skip_hours=(), skip_days=(), malformed=None, rows="{}")
SOURCE = Source(7, "A & <b>", "http://a.example/f?x=1&y=2", HOUR, 1, None, None, None, 0.0, NOW)
STATE = FeedState(source_id=7, name="a", feed_url="http://a.example/f", host="a.example:80", interval=HOUR)


@pytest.mark.parametrize(
    ("headers", "ttl", "wait"),
    [
        ({}, 0.0, 0.0),
        ({}, 7200.0, 7200.0),
        ({"Cache_Control": "public, max-age=5400"}, 0.0, 5400.0),
        ({"Cache_Control": 'max-age="60"'}, 7200.0, 7200.0),
        ({"Cache_Control": "max-age=99999999999999"}, 0.0, DAY),
        ({"Cache_Control": "no-cache, max-age=5400"}, 0.0, 0.0),
        ({"Cache_Control": "max-age=soon"}, 0.0, 0.0),
        ({"Expires": formatdate(NOW + 900, usegmt=True), "Date": formatdate(NOW, usegmt=True)}, 0.0, 900.0),
        ({"Expires": formatdate(NOW + 900, usegmt=True)}, 0.0, 900.0),
        ({"Expires": "0"}, 0.0, 0.0),
        ({"Cache_Control": "max-age=60", "Expires": formatdate(NOW + 9000, usegmt=True)}, 0.0, 60.0),
    ],
)
def test_the_longest_of_what_feed_and_server_ask_for_counts_up_to_a_day(
    headers: dict[str, str], ttl: float, wait: float
) -> None:
    assert hints_of(replace(FEED, ttl=ttl), fetched(200, "", "http://a.example/f", **headers), NOW) == Hints(
        not_before=wait
    )


@pytest.mark.req("FEED-13")
@pytest.mark.parametrize(
    ("given", "seconds"),
    [("120", 120.0), ("soon", None), ("-5", None), (formatdate(NOW + 3600, usegmt=True), 3600.0)],
)
def test_a_retry_after_is_a_number_or_a_date(given: str, seconds: float | None) -> None:
    assert retry_after(fetched(429, Retry_After=given), NOW) == seconds
    assert retry_after(fetched(503, Retry_After=given), NOW) == seconds


@pytest.mark.req("FEED-13")
@pytest.mark.parametrize("skew", [-7200.0, 7200.0])
def test_the_date_of_a_retry_after_is_read_with_the_clock_of_its_server(skew: float) -> None:
    dates = {"Date": formatdate(NOW + skew, usegmt=True), "Retry_After": formatdate(NOW + skew + 600, usegmt=True)}
    assert retry_after(fetched(429, **dates), NOW) == 600


@pytest.mark.req("FEED-13")
@pytest.mark.parametrize(
    ("way", "found", "kept"),
    [
        (["http://a.example/f"], "http://a.example/g", "http://u:p%40@a.example/g"),
        (["http://a.example/f"], "https://a.example/f", "https://a.example/f"),
        (["http://a.example/f"], "http://b.example/f", "http://b.example/f"),
        (["http://a.example/f", "http://b.example/"], "http://a.example/g", "http://a.example/g"),
    ],
)
def test_a_feed_takes_its_password_along_where_it_was_sent_and_nowhere_else(
    way: list[str], found: str, kept: str
) -> None:
    answer = replace(fetched(url=found), history=tuple((301, url) for url in way))
    assert moved_to(answer, "http://u:p%40@a.example:80/f") == kept
    assert moved_to(answer, "http://a.example/f") == found
    assert moved_to(replace(answer, history=()), "http://u:p%40@a.example/f") is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://a.example/@x:y", "http://a.example/@x:y"),
        ("http://u:p@ss@a.example:81/f?x=1", "http://u:…@a.example:81/f?x=1"),
        ("http://u@a.example/f", "http://u@a.example/f"),
        ("http://a.example/f?x=1&auth_token=abc&y=2#z", "http://a.example/f?x=1&auth_token=…&y=2#z"),
        ("http://u:p@a.example/f?KEY=abc;page=3", "http://u:…@a.example/f?KEY=…;page=3"),
        ("", ""),
    ],
)
def test_people_see_an_address_without_its_password(url: str, shown: str) -> None:
    assert public(url) == shown


def test_a_list_survives_the_way_out_and_in() -> None:
    text = "\n".join(opml.write_opml([SOURCE, replace(SOURCE, feed_url=None)], NOW)).encode()
    [found], refused = opml.parse_opml(text)

    assert (found.feed_url, found.name, refused) == (SOURCE.feed_url, "A & <b>", 0)


def test_folders_capitals_and_doubles_of_a_list_are_understood() -> None:
    text = b"""<?xml version="1.0"?><OPML><body><outline text="f"><OUTLINE TITLE="T" XMLURL="http://a.example/1"/>
        <outline text="x" xmlUrl=" http://a.example/1 "/><outline text="no"/><outline xmlUrl="gopher://x/"/>
        </outline></body></OPML>"""
    found, refused = opml.parse_opml(text)

    assert [(each.feed_url, each.name) for each in found] == [("http://a.example/1", "T")]
    assert refused == 1


def test_many_folders_beside_each_other_are_no_deep_ones() -> None:
    folder = b"<outline>" * 99 + b"</outline>" * 99
    found, _ = opml.parse_opml(b"<opml>" + folder * 3 + b"<outline xmlUrl='http://a.example/1'/></opml>")
    assert len(found) == 1


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nonsense",
        b"<html/>",
        b"<opml><body>",
        b'<?xml version="1.0" encoding="nonsense"?><opml/>',
        b'<!DOCTYPE x [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><opml>&c;</opml>',
        b"x" * 5_000_001,
        b"<opml>" + b"<outline>" * 100 + b"</outline>" * 100 + b"</opml>",
    ],
)
def test_what_is_no_list_is_refused_with_a_reason(text: bytes) -> None:
    with pytest.raises(opml.NoOpml, match=r"^file: "):
        opml.parse_opml(text)


def test_each_situation_of_a_feed_has_its_state_and_its_sentence() -> None:
    polled = replace(STATE, last_polled_at=NOW)
    rests = replace(
        SOURCE, feed_disabled_at=NOW, feed_disable_reason="not_found", disabled_by="auto", active_from=NOW + DAY
    )
    ran = replace(polled, run_type="not_found", run_length=3)
    rows = [
        (SOURCE, None, "new", "not polled yet"),
        (replace(SOURCE, enabled_n=0), polled, "paused", "switched off"),
        (replace(SOURCE, feed_url=None), None, "paused", "no address"),
        (SOURCE, polled, "ok", ""),
        (SOURCE, replace(polled, last_error_type="rate_limited"), "limited", "more rarely"),
        (SOURCE, replace(polled, last_error_type="network", consecutive_errors=3), "degraded", "3 failures"),
        (SOURCE, replace(polled, last_error_type="unexpected", last_error="HTTP 418"), "action", "HTTP 418"),
        (SOURCE, replace(polled, last_error_type="network", due_why="own_link"), "degraded", "Our own network"),
        (rests, ran, "disabled", "3 times in a row"),
        (replace(rests, active_from=NOW), ran, "probing", "one poll"),
        (replace(rests, feed_disable_reason="manual", disabled_by="ada", active_from=None), ran, "paused", "by ada"),
    ]
    for source, state, token, words in rows:
        found = pages.status_label(source, state, NOW)
        assert (found.token, words in found.reason) == (token, True), (token, found)


# What happened to a feed, who did it, and a detail.
HAPPENED = [
    ("added", "ada", None),
    ("changed", "ada", None),
    ("moved", "auto", "https://b.example/f"),
    ("disabled", "auto", "not_found"),
    ("disabled", "ada", "manual"),
    ("disabled", "ada", "gone"),
    ("enabled", "auto", "not_found"),
    ("enabled", "ada", "manual"),
]


def test_what_happened_to_a_feed_is_told_apart() -> None:
    said = [pages.describe_event(*each) for each in HAPPENED]

    assert len(set(said)) == len(HAPPENED)
    assert said[2].endswith(" https://b.example/f")
    assert (REASONS["not_found"] in said[3], REASONS["gone"] in said[5]) == (True, True)


def test_a_day_is_a_bar_of_half_hours_with_the_worst_of_each() -> None:
    beats = [
        PollRow(NOW - 60, "ok", 200, 5, 0, None),
        PollRow(NOW - 90, "network", 0, 5, 0, None),
        PollRow(NOW - 2 * HOUR, "unmodified", 304, 5, 0, None),
        PollRow(NOW - 2 * DAY, "ok", 200, 5, 0, None),
    ]
    found = pages.day_bar(beats, NOW)

    assert [(tone, words) for _, _, tone, words in found] == [("good", "not modified"), ("warn", "network, 2 polls")]
    assert all(NOW - DAY <= start < end <= NOW for start, end, _, _ in found)
    assert pages.bar_words([])


@pytest.mark.req("FEED-04")
@pytest.mark.parametrize(
    "cause", [net.BlockedAddress("h", "10.0.0.1", "private"), net.BadUrl("x"), net.Busy("x"), None]
)
def test_what_was_never_sent_proves_nothing_of_our_own_link(cause: Exception | None) -> None:
    link = FeedNetworkGuard(GUARD)
    error = poll_error("network")
    error.__cause__ = net.Unreachable("no network")
    for n in range(20):
        link.record_failure(replace(STATE, source_id=n, host=f"h{n}"), error, 1.0)
    assert link.lost
    refused = poll_error("network")
    refused.__cause__, refused.untyped = cause, cause is None
    for n in range(20, 100):
        assert not link.record_failure(replace(STATE, source_id=n, host=f"h{n}"), refused, 1.0)
    assert link.lost


def test_where_few_feeds_are_polled_more_time_is_looked_at() -> None:
    link = FeedNetworkGuard(GUARD)
    link.usual(40 / HOUR)
    fault = poll_error("network")
    fault.__cause__ = net.Unreachable("no network")
    own = [link.record_failure(replace(STATE, source_id=n, host=f"h{n}"), fault, 90.0 * n) for n in range(40)]

    assert own.index(True) == 9  # the tenth host is enough, although the first was seen a quarter of an hour ago
    assert all(own[9:])
    link.record_answer(replace(STATE, source_id=3, host="h3"), 90.0 * 41)
    narrow = FeedNetworkGuard(GUARD)
    assert not any(narrow.record_failure(replace(STATE, source_id=n, host=f"h{n}"), fault, 90.0 * n) for n in range(40))
