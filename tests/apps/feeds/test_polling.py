"""Polls and what is written of them, on both databases; the world is scripted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from tests.apps.feeds.building import DAY, HOUR, Desk, fetched, lines, words
from tidegate import net
from tidegate_apps.feeds.client import fetch
from tidegate_apps.feeds.codes import PollError
from tidegate_apps.feeds.models import Change, FeedAbout, SourceRequest
from tidegate_apps.feeds.parsing import Feed, ParseError
from tidegate_apps.feeds.parsing.pool import rows_of
from tidegate_apps.feeds.poller import Poller

URL = "http://a.example/f"
GONE, MISSING, BUSY = fetched(410), fetched(404), fetched(429, Retry_After="7200")


@pytest.mark.req("FEED-14")
def test_entries_are_kept_once_and_updated_when_they_change(desk: Desk) -> None:
    source = desk.add(URL)
    desk.answers[URL] = fetched(body="two one")
    desk.poll()
    assert desk.items() == ["two", "one"]
    desk.clock.advance(1)
    desk.answers[URL] = fetched(body="three two=Zwei one one")
    desk.sources.poll_now(source.id)
    desk.poll()

    assert desk.items() == ["three", "Zwei", "one"]
    assert desk.there.db.first(FeedAbout, "details", source_id=source.id) == (URL, None, 3)
    beats = desk.there.db.all("beats", source_id=source.id, since=0.0, n=9)
    assert sorted(beat[4] for beat in beats) == [1, 2]


@pytest.mark.req("FEED-14")
def test_entries_come_back_as_they_were_written(desk: Desk) -> None:
    texts = ["007", "1e5", "null", '"quoted"', "back\\slash\\u0041", "käse", "🌊", "\u2028", "[1,2]", "'", "%s :name"]

    async def parse(_: bytes, __: str, url: str) -> Feed:
        rows = [[f"k{text}", f"g{text}", f"l{text}", text, text, text, None, n + 0.5, text]
                for n, text in enumerate(texts)]  # fmt: skip
        rows.append(["k007", None, None, "the same again", None, "", None, None, "x"])
        return Feed(title="", link=None, ttl=0, skip_hours=(), skip_days=(), malformed=None, rows=rows_of(rows))

    desk.add(URL)
    desk.poll(desk.poller(parse=parse))
    found = desk.there.db.all("items", source_id=1, before=2**53, n=1000)
    assert [row[1:7] for row in found] == [
        (f"g{text}", f"l{text}", text, text, text, n + 0.5) for n, text in enumerate(texts)
    ]


def test_a_clock_that_is_set_back_by_days_keeps_no_feed_from_its_next_poll(desk: Desk) -> None:
    desk.add()
    desk.poll()
    wait = (desk.state().due_at or 0.0) - desk.now
    assert wait > 0
    desk.clock.step_wall(-3 * 86400)

    assert desk.poll().polled == 0

    assert desk.state().due_at == pytest.approx(desk.now + wait)
    assert desk.poll_on(wait + 1) == 1


@pytest.mark.parametrize("step", [-86400.0, 8 * 86400.0])
def test_polls_and_rests_move_with_a_step_of_the_stores_clock(desk: Desk, step: float) -> None:
    desk.add()
    desk.add("http://b.example/f")
    desk.poll()
    desk.sources.disable(2, "network", "auto")
    store, due, rest = desk.queue.store, desk.state().due_at or 0.0, desk.sources.get(2).active_from or 0.0
    assert min(due, rest) > desk.now
    store.write(store.check_clock)
    desk.clock.step_wall(step)
    for _ in range(2):
        store.write(store.check_clock)
        desk.clock.advance(601)

    store.write(store.check_clock)
    assert desk.state().due_at == pytest.approx(due + step)
    assert (desk.state(2).due_at, desk.sources.get(2).active_from) == pytest.approx((rest + step, rest + step))


def test_a_feed_that_nobody_named_is_called_what_it_calls_itself(desk: Desk) -> None:
    urls = [f"http://a.example/{n}" for n in range(3)]
    desk.sources.add_many(
        [SourceRequest(feed_url=urls[0], name="Mine"), *(SourceRequest(feed_url=url) for url in urls[1:])], "ada"
    )

    def renamed(_: Mapping[str, str]) -> net.FetchResponse:
        desk.sources.change(3, Change(feed_url=urls[2], name="Changed meanwhile"), "ada")
        return fetched(body="one")

    desk.answers[urls[2]] = renamed
    desk.clock.advance(5)
    desk.poll()
    assert [each.name for each in desk.sources.list_sources()] == ["Mine", urls[1], "Changed meanwhile"]
    assert [desk.state(n).name for n in (1, 2, 3)] == ["Mine", urls[1], "Changed meanwhile"]


@pytest.mark.req("FEED-13")
def test_a_conditional_get_sends_what_was_received_and_a_304_is_a_full_success(desk: Desk) -> None:
    source = desk.add(URL)
    desk.answers[URL] = fetched(body="one", ETag='W/"x y"', Last_Modified="Mon,1 Jan 2024")
    desk.poll()
    desk.answers[URL] = MISSING
    desk.sources.poll_now(source.id)
    desk.poll()
    assert desk.state().consecutive_errors == 1
    desk.answers[URL] = fetched(304)
    desk.sources.poll_now(source.id)
    desk.poll()

    sent = {name: value for name, value in desk.asked[-1][1].items() if name.startswith("If-")}
    assert sent == {"If-None-Match": 'W/"x y"', "If-Modified-Since": "Mon,1 Jan 2024"}
    state = desk.state()
    assert (state.consecutive_errors, state.last_error, state.last_success_at) == (0, None, desk.now)
    assert desk.items() == ["one"]


@pytest.mark.req("FEED-04", "FEED-07", "FEED-11", "FEED-12")
def test_count_and_rest_are_one_write_and_the_log_says_it_once(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    source = desk.add(URL)
    desk.answers[URL] = MISSING
    for n in range(1, 4):
        desk.sources.poll_now(source.id)
        desk.poll()
        failed = f"feed poll failed source_id={source.id} error_type=not_found status_code=404 error=HTTP 404"
        disabled = f"feed disabled source_id={source.id} reason=not_found consecutive_errors=3"
        assert lines(caplog) == [("WARNING", failed)] + ([("WARNING", disabled)] if n == 3 else [])

    found = desk.sources.get(source.id)
    assert (found.feed_disabled_at, found.feed_disable_reason, found.disabled_by) == (desk.now, "not_found", "auto")
    assert found.rests_until == desk.now + 48 * HOUR
    ((kind, title, goes_on),) = desk.notices()
    assert (kind, "a.example" in title, goes_on) == ("disabled", True, True)
    assert desk.poll().polled == 0


@pytest.mark.req("FEED-10", "FEED-11")
def test_after_the_rest_there_is_exactly_one_probe_and_a_failure_rests_again(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.add(URL)
    desk.answers[URL] = GONE
    desk.poll()
    lines(caplog)
    assert desk.poll_on(72 * HOUR - 1) == 0
    assert desk.poll_on(2) == 1

    said = lines(caplog)
    assert len(desk.asked) == 2
    assert [text.split(" source_id")[0] for _, text in said] == ["feed poll failed", "feed disabled"]
    assert desk.poll_on(72 * HOUR - 2) == 0
    assert len(desk.notices()) == 1  # it is one episode


@pytest.mark.req("FEED-10")
def test_a_probe_that_succeeds_enables_the_feed_and_says_so(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    source = desk.add(URL)
    desk.answers[URL] = GONE
    desk.poll()
    desk.answers[URL] = fetched(304)
    desk.poll_on(72 * HOUR + 1)

    found = desk.sources.get(source.id)
    assert (found.feed_disabled_at, found.feed_disable_reason, found.disabled_by) == (None, None, None)
    assert lines(caplog)[-1] == ("INFO", f"feed enabled source_id={source.id}")
    assert [(kind, open_) for kind, _, open_ in desk.notices()] == [("recovered", False), ("disabled", False)]
    kinds = [row[2] for row in desk.there.db.all("events", source_id=source.id, n=9)]
    assert kinds == ["enabled", "disabled", "added"]
    desk.poll_on(5 * HOUR)
    assert len(desk.there.db.all("events", source_id=source.id, n=9)) == 3  # enabling is asked for once, not each time


@pytest.mark.req("FEED-03")
def test_the_unexpected_is_loud_never_rests_and_stays_on_the_list(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    source = desk.add(URL)
    desk.answers[URL] = fetched(418)
    desk.poll_on(20 * DAY)

    said = lines(caplog)
    assert {level for level, _ in said} == {"ERROR"}
    assert said[0][1] == f"feed poll failed source_id={source.id} error_type=unexpected status_code=418 error=HTTP 418"
    assert desk.sources.get(source.id).feed_disabled_at is None
    assert desk.there.db.all("feeds_by_error", type="unexpected", after=0, n=9) == [(source.id,)]
    odd = "Some feeds answer in a way that is not known"
    assert desk.notices() == [("fatal", odd, True)]
    desk.answers[URL] = MISSING
    desk.poll_on(DAY)
    assert ("fatal", odd, False) in desk.notices()


@pytest.mark.req("FEED-03")
def test_an_untyped_exception_is_an_error_without_a_type_and_is_kept_as_unexpected(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    source = desk.add(URL)
    desk.answers[URL] = RuntimeError("a bug")
    desk.poll()

    assert lines(caplog) == [("ERROR", f"feed poll failed source_id={source.id} error=RuntimeError: a bug")]
    state = desk.state()
    assert (state.last_error_type, state.rest.disabled) == ("unexpected", False)
    # The log has its words; pages and the API do not, for nobody knows what is in them.
    assert state.last_error == desk.there.db.all("beats", source_id=source.id, since=0.0, n=1)[0][-1] == "RuntimeError"


@pytest.mark.req("FEED-13", "FEED-15")
def test_a_retry_after_moves_the_next_poll_and_nothing_is_disabled(desk: Desk) -> None:
    desk.add(URL)
    desk.answers[URL] = BUSY
    desk.poll()

    state = desk.state()
    assert (state.due_at, state.due_why) == (desk.now + 7200, "retry_after")
    desk.answers[URL] = fetched(503, Retry_After="9000")
    desk.poll_on(7200)
    assert desk.state().due_why == "retry_after"
    desk.answers[URL] = fetched(404, Retry_After="90000")
    desk.poll_on(9000)
    assert desk.state().due_why == "interval"


@pytest.mark.req("FEED-13")
def test_a_feed_that_has_moved_is_followed_after_three_polls(desk: Desk) -> None:
    source = desk.add(URL)
    there = "http://b.example/f"
    desk.answers[URL] = net.FetchResponse(
        status=200, headers=fetched().headers, body=b"one", url=there, history=((301, URL),)
    )  # fmt: skip
    for n in range(3):
        assert desk.sources.get(source.id).feed_url == URL, n
        desk.sources.poll_now(source.id)
        desk.poll()

    assert desk.sources.get(source.id).feed_url == there
    state = desk.state()
    assert (state.feed_url, state.host, state.etag, state.moved_to) == (there, "b.example:80", None, None)


@pytest.mark.req("FEED-01")
@pytest.mark.parametrize(
    ("answer", "kind", "status", "cause"),
    [
        (net.Unreachable("nobody there"), "network", 0, net.Unreachable),
        (net.TooBig("5 MB"), "parse_error", 0, net.TooBig),
        (fetched(body="<html>"), "parse_error", 0, ParseError),
        (fetched(body=" "), "parse_error", 0, None),
        (fetched(404), "not_found", 404, None),
    ],
)
def test_a_poll_that_fails_keeps_its_address_and_what_is_behind_it(
    quick: Desk, answer: Any, kind: str, status: int, cause: type[Exception] | None
) -> None:
    quick.add(URL)
    quick.answers[URL] = answer
    with pytest.raises(PollError) as raised:
        quick.clock.run(fetch(quick.get, words, quick.state(), quick.now))

    error = raised.value
    assert (str(error.type), error.status_code, error.url) == (kind, status, URL)
    assert error.cause is error.__cause__
    assert cause is None if error.cause is None else isinstance(error.cause, cause or ())


def test_a_feed_does_not_move_to_where_another_one_is(desk: Desk) -> None:
    source, other = desk.add(URL), desk.add("http://b.example/f")
    desk.answers[URL] = net.FetchResponse(
        status=304, headers=fetched().headers, body=b"", url="http://b.example/f", history=((308, URL),)
    )
    for _ in range(5):
        desk.sources.poll_now(source.id)
        desk.poll()

    assert desk.sources.get(source.id).feed_url == URL == desk.state(source.id).feed_url
    assert desk.sources.get(other.id).feed_url == "http://b.example/f"


@pytest.mark.req("FEED-09")
def test_what_a_person_does_during_a_poll_counts_more_than_the_poll(desk: Desk) -> None:
    source = desk.add(URL)

    def disabled_meanwhile(_: Mapping[str, str]) -> net.FetchResponse:
        desk.sources.disable(source.id, "manual", "ada")
        return fetched(body="one")

    desk.answers[URL] = disabled_meanwhile
    tally = desk.poll()

    assert (tally.polled, tally.dropped) == (0, 1)
    assert desk.sources.get(source.id).disabled_by == "ada"
    assert desk.items() == []
    assert desk.poll_on(30 * DAY) == 0


@pytest.mark.req("FEED-06")
def test_two_pollers_never_both_record_a_poll(desk: Desk) -> None:
    for n in range(20):
        desk.add(f"http://h{n}.example/f")

    async def both() -> tuple[int, int]:
        first, second = desk.poller(), desk.poller()
        a, b = await asyncio.gather(*(each.run(lambda: False, drain=True) for each in (first, second)))
        return a.polled + b.polled, a.dropped + b.dropped

    recorded, _ = desk.clock.run(both())
    assert recorded == 20
    assert all(len(desk.there.db.all("beats", source_id=n, since=0.0, n=9)) == 1 for n in range(1, 21))


@pytest.mark.req("FEED-04")
def test_a_poll_that_is_cut_off_writes_nothing_and_is_due_still(quick: Desk) -> None:
    quick.add(URL)

    async def main() -> Poller:
        begun = asyncio.Event()

        async def hangs(url: str, *, headers: Any = None) -> net.FetchResponse:
            begun.set()
            await asyncio.sleep(1e9)
            return fetched()

        poller = quick.poller(hangs)
        task = asyncio.create_task(poller.run(lambda: False))
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return poller

    poller = quick.clock.run(main())
    assert (poller.tally.polled, quick.state().last_polled_at, quick.state().consecutive_errors) == (0, None, 0)
    assert quick.poll().polled == 1
