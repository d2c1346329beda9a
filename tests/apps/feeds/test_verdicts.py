"""What a poll means for its feed: runs, rests, probes, times; on values alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tidegate.guard import CooldownChange
from tidegate_apps.feeds import state as feed_state
from tidegate_apps.feeds.codes import ErrorType, PollError
from tidegate_apps.feeds.state import FeedState, Hints, PollVerdict, Success, conditions

HOUR, DAY = 3600.0, 86400.0
NOW = 1_700_000_000.0
FEED = FeedState(source_id=7, name="a", feed_url="https://a.example/f", host="a.example:443", interval=HOUR)
OK, UNMODIFIED = Success(status=200, etag='"1"', body_hash="h"), Success(status=304)


def error(kind: str, *, retry_after: float | None = None) -> PollError:
    return PollError(ErrorType(kind), kind, status_code=1, retry_after=retry_after)


def after(kinds: Iterable[str], state: FeedState = FEED, now: float = NOW) -> list[PollVerdict]:
    """Polls that fail like this one after the other, a minute apart; "ok" is one that does not."""
    found: list[PollVerdict] = []
    for n, kind in enumerate(kinds):
        at = now + 60 * n
        made = (
            feed_state.record_success(state, OK, at, 0.5)
            if kind == "ok"
            else feed_state.record_failure(state, error(kind), at, 0.5)
        )
        found.append(made)
        state = made.state
    return found


def last(kinds: Iterable[str], state: FeedState = FEED) -> FeedState:
    return after(kinds, state)[-1].state


THRESHOLDS = {"forbidden": 5, "not_found": 3, "gone": 1, "upstream_failure": 10, "network": 10, "parse_error": 5}
RESTS = {"forbidden": 24, "not_found": 48, "gone": 72, "upstream_failure": 6, "network": 12, "parse_error": 24}


@pytest.mark.req("FEED-04", "FEED-05")
@pytest.mark.parametrize("kind", THRESHOLDS)
def test_a_feed_rests_after_exactly_so_many_of_one_type_and_for_exactly_so_long(kind: str) -> None:
    found = after([kind] * THRESHOLDS[kind])

    assert [each.change for each in found[:-1]] == [CooldownChange.NONE] * (THRESHOLDS[kind] - 1)
    assert found[-1].change is CooldownChange.DISABLED
    rest = found[-1].state.rest
    at = NOW + 60 * (THRESHOLDS[kind] - 1)
    assert (rest.disabled_at, rest.until, rest.reason, rest.by) == (at, at + RESTS[kind] * HOUR, kind, "auto")
    assert (rest.failing_code, rest.failing_count) == (kind, THRESHOLDS[kind])
    assert (found[-1].state.due_at, found[-1].state.due_why) == (rest.until, "cooldown")


@pytest.mark.req("FEED-04")
@pytest.mark.parametrize("kind", ["rate_limited", "unexpected"])
def test_what_needs_patience_or_a_person_never_rests(kind: str) -> None:
    assert all(each.change is CooldownChange.NONE for each in after([kind] * 200))


@pytest.mark.req("FEED-04")
@pytest.mark.parametrize(
    ("kinds", "run", "rests"),
    [
        (["not_found", "upstream_failure"] * 2 + ["not_found"], ("not_found", 1), False),
        (["network"] * 9 + ["not_found"], ("not_found", 1), False),
        (["not_found", "rate_limited", "rate_limited", "not_found"], ("not_found", 2), False),
        (["not_found", "rate_limited", "not_found", "rate_limited", "not_found"], ("not_found", 3), True),
        (["not_found", "not_found", "unexpected", "not_found"], ("not_found", 1), False),
        (["not_found", "not_found", "ok", "not_found"], ("not_found", 1), False),
        (["rate_limited"] * 3, (None, 0), False),
    ],
)
def test_the_run_is_of_one_type_and_throttling_neither_counts_nor_breaks_it(
    kinds: list[str], run: tuple[str | None, int], rests: bool
) -> None:
    state = last(kinds)

    assert (state.rest.failing_code, state.rest.failing_count) == run
    assert state.rest.disabled is rests


@pytest.mark.req("FEED-06")
def test_every_failure_counts_since_the_last_success_and_a_success_clears_all_of_it() -> None:
    state = last(["network", "rate_limited", "unexpected", "not_found"])

    assert (state.consecutive_errors, state.last_error, state.last_error_type) == (4, "not_found", "not_found")
    for success in (OK, UNMODIFIED):
        cleared = feed_state.record_success(state, success, NOW + HOUR, 0.5).state
        assert (cleared.consecutive_errors, cleared.last_error, cleared.last_error_type) == (0, None, None)
        assert (cleared.rest.failing_code, cleared.rest.failing_count) == (None, 0)
        assert cleared.last_success_at == NOW + HOUR


@pytest.mark.req("FEED-10")
@pytest.mark.parametrize("success", [OK, UNMODIFIED])
def test_a_success_after_the_rest_enables_the_feed(success: Success) -> None:
    rested = last(["gone"])
    found = feed_state.record_success(rested, success, NOW + 72 * HOUR, 0.5)

    assert found.change is CooldownChange.ENABLED
    assert not found.state.rest.disabled


@pytest.mark.req("FEED-10")
def test_one_failure_after_the_rest_rests_again_with_its_own_cooldown() -> None:
    rested = last(["not_found"] * 3)
    at = NOW + 120 + 48 * HOUR
    found = feed_state.record_failure(rested, error("upstream_failure"), at, 0.5)

    assert found.change is CooldownChange.DISABLED
    assert (found.state.rest.reason, found.state.rest.until) == ("upstream_failure", at + 6 * HOUR)


@pytest.mark.req("FEED-10")
@pytest.mark.parametrize("kind", ["rate_limited", "unexpected"])
def test_patience_and_the_unknown_leave_a_feed_on_probation(kind: str) -> None:
    rested = last(["gone"])
    at = NOW + 72 * HOUR
    found = feed_state.record_failure(rested, error(kind), at, 0.5)

    assert found.change is CooldownChange.NONE
    assert found.state.rest.disabled
    assert found.state.rest.disabled_at == rested.rest.disabled_at
    assert (found.state.due_at, found.state.due_why) == (at + HOUR, "interval")
    assert feed_state.record_success(found.state, UNMODIFIED, at + HOUR, 0.5).change is CooldownChange.ENABLED


def test_a_late_answer_does_not_undo_what_a_person_ordered() -> None:
    ordered = replace(FEED, rest_at=NOW, rest_reason="manual", rest_by="ada")

    assert feed_state.record_success(ordered, OK, NOW + DAY, 0.5).change is CooldownChange.NONE
    assert feed_state.record_failure(ordered, error("gone"), NOW + DAY, 0.5).state.rest.reason == "manual"


def test_what_is_our_own_fault_counts_for_nothing_and_is_tried_soon() -> None:
    state = last(["network"] * 9)
    found = feed_state.record_failure(state, error("network"), NOW + HOUR, 0.5, own_network=True)

    assert (found.state.consecutive_errors, found.state.rest) == (9, state.rest)
    assert found.change is CooldownChange.NONE
    assert (found.state.due_at, found.state.due_why) == (NOW + HOUR + 300, "own_link")


@pytest.mark.req("FEED-15")
@pytest.mark.parametrize("failures", [0, 1, 3, 4, 5, 6, 7, 50, 5000])
@pytest.mark.parametrize("roll", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("asked", [None, 60.0, 50_000.0, 10_000_000.0])
def test_after_a_failure_the_longest_of_interval_backoff_and_retry_after_counts(
    failures: int, roll: float, asked: float | None
) -> None:
    at, why = feed_state.after_failure(NOW, HOUR, failures, asked, roll)

    backoff = min(300 * 2 ** min(failures, 30), 8 * HOUR) * (0.75 + 0.5 * roll)
    expected = max(HOUR, backoff, min(asked or 0, DAY))
    assert at - NOW == pytest.approx(expected)
    assert (why == "interval") == (expected == HOUR)


@pytest.mark.req("FEED-15")
def test_the_failures_before_this_one_decide_the_wait() -> None:
    found = after(["network"] * 6)

    waits = [each.state.due_at - (NOW + 60 * n) for n, each in enumerate(found) if each.state.due_at is not None]
    assert waits == [HOUR, HOUR, HOUR, HOUR, 4800, 9600]


@pytest.mark.req("FEED-13", "FEED-15")
@pytest.mark.parametrize(
    ("interval", "retry_after", "wait", "why"),
    [
        (HOUR, None, 6 * HOUR, "cooldown"),
        (HOUR, 5 * HOUR, 6 * HOUR, "cooldown"),
        (HOUR, 9 * HOUR, 9 * HOUR, "retry_after"),
        (HOUR, 40 * HOUR, DAY, "retry_after"),
        (DAY, None, DAY, "interval"),
    ],
)
def test_the_probe_after_a_rest_comes_no_sooner_than_the_interval_or_than_the_site_asked(
    interval: float, retry_after: float | None, wait: float, why: str
) -> None:
    before = last(["upstream_failure"] * 9, replace(FEED, interval=interval))
    found = feed_state.record_failure(before, error("upstream_failure", retry_after=retry_after), NOW, 0.5)
    assert found.change is CooldownChange.DISABLED
    assert found.state.rest.until == NOW + 6 * HOUR
    assert (found.state.due_at, found.state.due_why) == (NOW + wait, why)


@pytest.mark.req("FEED-13")
def test_a_retry_after_is_honoured_and_clamped_at_a_day() -> None:
    for asked, wait in ((2 * HOUR, 2 * HOUR), (400 * HOUR, DAY)):
        found = feed_state.record_failure(FEED, error("rate_limited", retry_after=asked), NOW, 0.5)
        assert (found.state.due_at, found.state.due_why) == (NOW + wait, "retry_after")


def test_after_a_success_the_interval_counts_or_what_the_feed_asks_for_if_that_is_longer() -> None:
    rows = [(0.0, HOUR, "interval"), (60.0, HOUR, "interval"), (2 * HOUR, 2 * HOUR, "hint"), (9e9, DAY, "hint")]
    for asked, wait, reason in rows:
        at, why = feed_state.after_success(NOW, HOUR, Hints.of(asked), 0.0)
        assert (at - NOW, why) == (wait, reason)
    later, _ = feed_state.after_success(NOW, HOUR, Hints.of(), 0.999)
    assert HOUR < later - NOW <= 1.1 * HOUR


def test_hours_and_days_that_a_feed_names_are_left_out() -> None:
    midnight = NOW - NOW % DAY
    hints = Hints.of(0, range(1, 12), ())
    at, why = feed_state.after_success(midnight, HOUR, hints, 0.0)
    assert (at - midnight, why) == (12 * HOUR, "skipped")

    monday = 1_699_833_600.0
    at, why = feed_state.after_success(monday, HOUR, Hints.of(0, (), ["Monday", "Tuesday", "Nonsense"]), 0.0)
    assert (at - monday, why) == (2 * DAY, "skipped")


def test_a_feed_cannot_ask_to_be_left_alone_for_ever() -> None:
    assert (
        Hints.of(-5, range(24), ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"])
        == Hints()
    )
    assert Hints.of(0, [24, 99, -3]) == Hints(skip_hours=frozenset({0}))


@pytest.mark.req("FEED-13")
def test_validators_are_kept_byte_for_byte_and_only_of_a_whole_answer() -> None:
    sent = Success(status=200, etag='W/"a b"', last_modified="Tue, 1 Jan 2019 0:00:00 gmt", body_hash="x")
    state = feed_state.record_success(FEED, sent, NOW, 0.5).state
    expected = {"If-None-Match": 'W/"a b"', "If-Modified-Since": "Tue, 1 Jan 2019 0:00:00 gmt"}

    assert conditions(FEED, NOW) == {}
    assert conditions(state, NOW) == expected
    assert conditions(feed_state.record_failure(state, error("network"), NOW, 0.5).state, NOW) == expected
    assert conditions(feed_state.record_success(state, UNMODIFIED, NOW, 0.5).state, NOW) == expected
    fresh = feed_state.record_success(state, Success(status=304, etag='"b"'), NOW, 0.5).state
    assert conditions(fresh, NOW)["If-None-Match"] == '"b"'
    assert conditions(feed_state.record_success(state, Success(status=200), NOW, 0.5).state, NOW) == {}


@pytest.mark.req("FEED-13")
@pytest.mark.parametrize("etag", ['"a\x01b"', '"\x7f"', f'"{"x" * 5000}"', "", '"☃"'])
def test_a_validator_that_no_request_can_hold_is_not_sent(etag: str) -> None:
    sent = Success(status=200, etag=etag, last_modified="Tue, 1 Jan 2019 0:00:00 gmt", body_hash="x")
    assert set(conditions(feed_state.record_success(FEED, sent, NOW, 0.5).state, NOW)) == {"If-Modified-Since"}


def test_once_a_week_the_whole_feed_is_fetched() -> None:
    state = feed_state.record_success(FEED, OK, NOW, 0.5).state
    for day in range(1, 7):
        state = feed_state.record_success(state, UNMODIFIED, NOW + day * DAY, 0.5).state
        assert conditions(state, NOW + day * DAY)
    assert conditions(state, NOW + 7 * DAY) == {}


@pytest.mark.req("FEED-13")
def test_a_permanent_redirect_is_believed_after_three_in_a_row() -> None:
    there, elsewhere = "https://b.example/f", "https://c.example/f"

    def moving(*places: str | None, start: FeedState = FEED) -> list[str | None]:
        state, adopted = start, list[str | None]()
        for place in places:
            found = feed_state.record_success(state, replace(UNMODIFIED, moved_to=place), NOW, 0.5)
            adopted.append(found.adopt)
            state = found.state
        return adopted

    assert moving(there, there, there) == [None, None, there]
    assert moving(there, there, None, there, there) == [None] * 5
    assert moving(there, there, elsewhere, there, there) == [None] * 5
    assert moving(*["http://b.example/f"] * 4) == [None] * 4
    assert moving(*[there + "?" + "x" * 2000] * 4) == [None] * 4  # longer than an address may be
    assert moving(*["http://b.example/f"] * 3, start=replace(FEED, feed_url="http://a.example/f"))[-1] is not None


def test_a_failure_between_begins_the_count_of_redirects_anew() -> None:
    state = FEED
    for _ in range(2):
        state = feed_state.record_success(state, replace(OK, moved_to="https://b.example/f"), NOW, 0.5).state
    state = feed_state.record_failure(state, error("network"), NOW, 0.5).state

    assert (state.moved_to, state.moved_times) == (None, 0)


def test_host_and_port_tell_hosts_apart() -> None:
    urls = ["http://A.example/x", "http://a.example:80/y", "https://a.example/x", "http://a.example:8080/"]

    assert [feed_state.host_of(url) for url in urls] == ["a.example:80"] * 2 + ["a.example:443", "a.example:8080"]
