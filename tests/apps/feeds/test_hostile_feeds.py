"""Feeds that would take all time or memory: each ends as a ParseError or as a feed, and the next one is read."""

from __future__ import annotations

import pytest

from tidegate.children import Children, Limits
from tidegate_apps.feeds.parsing import Feed, ParseError, parse
from tidegate_apps.feeds.parsing.pool import ParserPool, Reading

URL = "https://feed.example/"
MB = 1_000_000
RSS = b"<rss version='2.0'><channel>"
GOOD = RSS + b"<title>good</title><item><guid>1</guid></item></channel></rss>"

BOMBS = {
    "a billion laughs": (
        b'<!DOCTYPE rss [<!ENTITY a "ha">'
        + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(10))
        + b"]>" + RSS + b"<title>&k;</title></channel></rss>",
        "entity",
    ),
    "one long entity many times": (
        b'<!DOCTYPE r [<!ENTITY a "' + b"x" * 50_000 + b'">]>' + RSS + b"<title>" + b"&a;" * 50_000 + b"</title>",
        "entity",
    ),
    "200,000 attributes": (
        RSS + b"<item " + b" ".join(b'a%d="x"' % n for n in range(200_000)) + b"/></channel></rss>",
        "tag",
    ),
    "100,000 attributes behind a mistake": (
        RSS + b"&<item " + b" ".join(b'a%d="x"' % n for n in range(100_000)) + b"/></b>",
        "tag",
    ),
    "deep nesting": (RSS + b"<a>" * 300_000 + b"</a>" * 300_000 + b"</channel></rss>", "500000"),
    "a million elements": (RSS + b"<a/>" * 1_000_000 + b"</channel></rss>", "500000"),
    "a name of 1 MB": (RSS + b"<" + b"a" * MB + b"/></channel></rss>", "tag"),
    "5 MB of nothing": (b"\0" * (5 * MB), "not a valid feed"),
    "5 MB of brackets": (b"<" * (5 * MB), "500000"),
    "deep JSON": (b'{"version":"https://jsonfeed.org/version/1","items":' + b"[" * MB, "not a valid feed"),
}  # fmt: skip
HARMLESS = {
    "deep nesting behind a mistake": RSS + b"&" + b"<a>" * 400_000,
    "deep nesting": RSS + b"<a>" * 200_000 + b"</a>" * 200_000 + b"</channel></rss>",
    "deep nesting in an entry": RSS + b"<item>" + b"<a>" * 200_000 + b"</a>" * 200_000 + b"</item></channel></rss>",
    "many attributes": RSS + b"<item " + b" ".join(b'a%d="x"' % n for n in range(4000)) + b"/></channel></rss>",
    "many elements with attributes": RSS + b"<item a='1' b='2' c='3'/>" * 9_000 + b"</channel></rss>",
    "a file of the server": b'<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + RSS + b"<title>&a;</title>",
    "HTML without an end": RSS + b"<item><description><![CDATA[" + b"<div>" * 900_000 + b"]]></description></item>",
    "NULs in the middle": RSS + b"<title>a\0b</title></channel></rss>",
}


async def tried(body: bytes) -> Feed | str:
    try:
        return await parse(body, "text/xml", URL)
    except ParseError as error:
        return str(error)


@pytest.mark.parametrize("name", BOMBS)
async def test_a_hostile_feed_is_refused_and_the_next_one_is_read(name: str) -> None:
    body, says = BOMBS[name]
    assert says in str(await tried(body))
    assert isinstance(await tried(GOOD), Feed)


@pytest.mark.parametrize("name", HARMLESS)
async def test_what_can_be_read_of_a_hostile_feed_is_harmless(name: str) -> None:
    found = await tried(HARMLESS[name])
    assert "root:" not in str(found)
    assert isinstance(await tried(GOOD), Feed)


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (
            Limits(memory_mb=128, cpu="60s", time="60s"),
            "memory|breaks its reader|not a valid feed",
        ),
        (Limits(memory_mb=512, cpu="60s", time="1ms"), "too long"),
    ],
)
async def test_what_goes_beyond_its_limits_is_a_parse_error(limits: Limits, says: str) -> None:
    among = Children(1)
    try:
        with pytest.raises(ParseError, match=says):
            await ParserPool(Reading(limits=limits), among).parse(RSS + b"<a>x</a>" * 200_000, "text/xml", URL)
        assert (await ParserPool(among=among).parse(GOOD, "", URL)).title == "good"
    finally:
        among.close()


async def test_a_feed_comes_back_as_values() -> None:
    feed = await parse(GOOD.replace(b"<title>", b"<ttl>5</ttl><title>"), "", URL)
    assert (feed.title, feed.ttl, feed.malformed, feed.skip_hours) == ("good", 300, None, ())
    [entry] = feed.entries
    assert (entry.key, entry.guid, entry.link, entry.title, entry.summary_html) == ("1", "1", None, "", "")
