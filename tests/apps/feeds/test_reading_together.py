"""Feeds that are read together do not share what happens to one of them."""

from __future__ import annotations

import asyncio
import resource

import pytest

from tidegate.children import ChildError, Children, Limits
from tidegate_apps.feeds.parsing import Feed, ParseError, parse
from tidegate_apps.feeds.parsing.pool import ParserPool, Reading

URL = "https://a.example/"


def feed(title: str, inside: str = "") -> bytes:
    return f"<rss version='2.0'><channel><title>{title}</title>{inside}</channel></rss>".encode()


async def test_many_feeds_at_once_get_their_own_answers() -> None:
    asked = [feed(str(n)) if n % 5 else b"no feed" for n in range(60)]
    found = await asyncio.gather(*(parse(body, "", URL) for body in asked), return_exceptions=True)
    for n, answer in enumerate(found):
        if n % 5:
            assert isinstance(answer, Feed)
            assert answer.title == str(n)
        else:
            assert isinstance(answer, ParseError)


async def test_a_feed_that_breaks_its_reader_breaks_for_itself_alone() -> None:
    # An answer that is longer than a reader may give ends the call, as running out of memory does.
    reader = ParserPool(Reading(limits=Limits(answer_mb=1), small=10_000_000))
    items = "".join(f"<item><guid>{n}</guid><description>{'x' * 30_000}</description></item>" for n in range(50))
    bodies = [feed("large", items) if n == 20 else feed(str(n)) for n in range(40)]
    found = await asyncio.gather(*(reader.parse(body, "", URL) for body in bodies), return_exceptions=True)
    assert [n for n, answer in enumerate(found) if not isinstance(answer, Feed)] == [20]
    assert isinstance(found[20], ChildError)


@pytest.mark.req("FEED-03")
async def test_a_reader_that_is_not_installed_is_an_error_of_each_poll_that_waited() -> None:
    reader = ParserPool(Reading(function="tidegate_apps.feeds.parsing.nowhere:read_all"))
    asked = (reader.parse(feed(str(n)), "", URL) for n in range(20))
    assert {type(answer) for answer in await asyncio.gather(*asked, return_exceptions=True)} == {ChildError}


@pytest.mark.req("FEED-03")
async def test_that_no_process_can_be_started_is_not_the_fault_of_a_feed() -> None:
    among = Children(1)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    reading = asyncio.ensure_future(ParserPool(among=among).parse(feed("good"), "", URL))
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))  # none but those that are open already
    try:
        with pytest.raises(ChildError):
            await reading
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        among.close()


async def test_who_does_not_wait_any_more_holds_up_nobody() -> None:
    reading = [asyncio.ensure_future(parse(feed(str(n)), "", URL)) for n in range(40)]
    await asyncio.sleep(0)
    for task in reading[::2]:
        task.cancel()
    found = await asyncio.gather(*reading, return_exceptions=True)
    assert [isinstance(answer, asyncio.CancelledError) for answer in found] == [True, False] * 20
    assert [answer.title for answer in found[1::2] if isinstance(answer, Feed)] == [str(n) for n in range(1, 40, 2)]


def test_a_second_loop_reads_as_well_as_the_first() -> None:
    for title in ("first", "second"):
        assert asyncio.run(parse(feed(title), "", URL)).title == title
