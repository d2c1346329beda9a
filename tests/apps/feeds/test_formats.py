"""Every format of feeds becomes the same plain values."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime

import pytest

from tests.apps.feeds import samples
from tests.apps.feeds.child import AUTHOR, DIGEST, GUID, HTML, KEY, LINK, PUBLISHED, TITLE, UPDATED, read
from tidegate_apps.feeds.parsing.pool import ParseError


def at(*when: int) -> float:
    return datetime(*when, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]


def test_rss_091_with_its_doctype() -> None:
    feed = read(samples.RSS_091)
    assert (feed["title"], feed["link"], feed["malformed"]) == ("Harbour Notes", "https://harbour.example/", None)
    assert [entry[KEY] for entry in feed["entries"]] == ["https://harbour.example/high", "https://harbour.example/low"]
    assert feed["entries"][0][HTML] == "At six."


def test_rss_092_with_entries_that_have_neither_link_nor_guid() -> None:
    first, second = read(samples.RSS_092)["entries"]
    assert first[HTML] == "No title, and a <b>word</b>."
    assert first[GUID] is first[LINK] is second[LINK] is None
    assert len({first[KEY], second[KEY]}) == 2
    assert read(samples.RSS_092)["entries"][0][KEY] == first[KEY]


def test_rss_10_with_its_modules() -> None:
    feed = read(samples.RSS_10)
    [entry] = feed["entries"]
    assert feed["title"] == "Beacons"
    assert feed["ttl"] == 43_200
    assert entry[LINK] == "https://rdf.example/1"
    assert entry[AUTHOR] == "Keeper"
    assert entry[PUBLISHED] == at(2026, 3, 1, 11)


def test_rss_20_with_all_it_says_about_polling() -> None:
    feed = read(samples.RSS_20)
    assert feed["title"] == "Tide & Time"
    assert (feed["ttl"], feed["skip_hours"], feed["skip_days"]) == (5400, [0, 23, 0], ["Saturday", "Sunday"])
    spring, neap, note = feed["entries"]
    assert (spring[KEY], spring[GUID]) == ("tide-2", "tide-2")
    assert spring[LINK] == "https://tide.example/p/2?a=1&b=2"
    assert spring[TITLE] == "Spring tide"
    assert spring[HTML] == "Short."
    assert spring[PUBLISHED] == at(2026, 3, 1, 10)
    assert neap[LINK] == neap[KEY] == "https://tide.example/p/1"
    assert neap[PUBLISHED] == at(2026, 3, 1, 4, 30)
    assert note[PUBLISHED] is None
    assert note[TITLE] == "A note"


def test_atom_with_relative_links_and_xhtml() -> None:
    feed = read(samples.ATOM)
    [entry] = feed["entries"]
    assert feed["title"] == "Moor&ings"
    assert (feed["link"], feed["malformed"]) == ("https://moor.example/", None)
    assert entry[KEY] == "tag:moor.example,2026:1"
    assert entry[LINK] == "https://feed.example/dir/berths/1"
    assert entry[AUTHOR] == "Harbour master"
    assert entry[HTML] == "<p>Made <em>fast</em>.</p>"
    assert (entry[PUBLISHED], entry[UPDATED]) == (at(2026, 3, 1), at(2026, 3, 2))


def test_atom_03() -> None:
    [entry] = read(samples.ATOM_03)["entries"]
    assert (entry[KEY], entry[LINK], entry[HTML]) == ("old-1", "https://old.example/1", "Coiled.")


def test_json_feed() -> None:
    feed = read(samples.JSON_FEED, "application/feed+json")
    red, green = feed["entries"]
    assert (feed["title"], feed["link"]) == ("Buoys", "https://buoy.example/")
    assert (red[KEY], red[LINK], red[AUTHOR], red[HTML]) == ("b2", "https://buoy.example/2", "Pilot", "<p>Left.</p>")
    assert (red[PUBLISHED], red[UPDATED]) == (at(2026, 3, 1, 10), at(2026, 3, 2, 10))
    assert (green[KEY], green[LINK]) == ("1", None)
    assert "Green" in green[HTML]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "it is empty"),
        (b" \r\n\t ", "it is empty"),
        (b"<!DOCTYPE html><html><body>Log in</body></html>", "it is a web page"),
        (b"\n<!-- x --><HTML><head><title>404</title></head></HTML>", "it is a web page"),
        (b"<opml version='2.0'><body/></opml>", "feed"),
        (b"just words", "feed"),
        (b"{}", "feed"),
        (b'{"version": "https://jsonfeed.org/version/1.1", "items": [1]}', "feed"),
        (b"\x89PNG\r\n\x1a\n", "feed"),
    ],
)
def test_what_is_no_feed_says_what_it_is(body: bytes, says: str) -> None:
    assert says in read(body)["error"]


def test_the_same_entry_twice_is_one_entry() -> None:
    item = "<item><guid>1</guid><title>{}</title></item>"
    feed = read(f"<rss version='2.0'><channel>{item.format('new')}{item.format('old')}</channel></rss>")
    assert [entry[TITLE] for entry in feed["entries"]] == ["new"]


@pytest.mark.req("FEED-14")
def test_an_entry_is_known_by_guid_then_link_then_what_it_says() -> None:
    def key(inner: str) -> str:
        return str(read(f"<rss version='2.0'><channel><item>{inner}</item></channel></rss>")["entries"][0][KEY])

    link, title = "<link>https://a.example/1</link>", "<title>T</title>"
    assert key(f"<guid>g</guid>{link}{title}") == "g"
    assert key(f"{link}{title}") == key(f"{link}<title>U</title>") == "https://a.example/1"
    assert key(title) == key(f"{title}<description>later</description>")
    assert key(title) != key("<title>U</title>")
    assert len(key(f"<guid>{'g' * 900}</guid>")) == 32
    assert key(f"<guid>{'g' * 900}</guid>") != key(f"<guid>{'g' * 901}</guid>")


@pytest.mark.parametrize(
    "change",
    [("Short.", "Shorter."), ("Long,", "Longer,"), ("Spring", "Autumn"), ("p/2?a", "p/3?a"), ("01 Mar", "02 Mar")],
)
def test_an_entry_that_changed_has_another_digest(change: tuple[str, str]) -> None:
    before = read(samples.RSS_20)["entries"]
    after = read(samples.RSS_20.replace(*change))["entries"]
    assert before[0][DIGEST] != after[0][DIGEST]
    assert [entry[DIGEST] for entry in before[1:]] == [entry[DIGEST] for entry in after[1:]]
    assert before == read(samples.RSS_20)["entries"]


def test_more_entries_than_anybody_reads_are_refused_and_many_are_cut() -> None:
    items = [f"<item><guid>{n}</guid></item>" for n in range(10_001)]
    with_all = "<rss version='2.0'><channel>{}</channel></rss>"
    assert "more than 10000 entries" in read(with_all.format("".join(items)))["error"]
    kept = read(with_all.format("".join(items[:3000])))["entries"]
    assert [kept[0][KEY], kept[-1][KEY], len(kept)] == ["0", "1999", 2000]


PIECES = [
    b"<", b">", b"&", b"]]>", b"<![CDATA[", b"<!--", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"</item>", b"<item>",
    b"<entry>", b"null", b"[", b"{", b'"', b"1e999", b"<!DOCTYPE x [", b"<?xml ?>", b"<pubDate>9999-99-99</pubDate>",
    b"&#x110000;", b"&#xD800;", b"\\ud800", b"\\u0000", b"<a:b/>", b"<content type='xhtml'>", b"\xf0\x9f",
    b"<link href='http://[::1'/>",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_whatever_becomes_of_a_feed_it_is_read_or_refused_and_can_be_stored(seed: int) -> None:
    dice = random.Random(seed)
    whole = [value.encode() for name, value in vars(samples).items() if name.isupper()]
    for _ in range(150):
        body = bytearray(dice.choice(whole))
        for _ in range(dice.randint(1, 8)):
            at = dice.randrange(len(body) + 1)
            match dice.randrange(4):
                case 0:
                    body[at:at] = dice.choice(PIECES)
                case 1:
                    del body[at : at + dice.randint(1, 40)]
                case 2:
                    body[at : at + 1] = dice.randbytes(1)
                case _:
                    other = dice.choice(whole)
                    body[at:at] = other[dice.randrange(len(other)) :][: dice.randint(1, 300)]
        feed = read(bytes(body))
        json.dumps(feed, ensure_ascii=False, allow_nan=False).encode("utf-8")  # raises where a half character is left
        texts = [value for entry in feed.get("entries", []) for value in entry if isinstance(value, str)]
        assert not any("\0" in text for text in texts)


def test_halves_of_characters_and_zeros_are_left_out() -> None:
    ids = '"id": "a\\ud800b\\u0000", "url": "https://a.example/\\ud800"'
    item = "{" + ids + ', "title": "c\\udfffd", "content_text": "e\\ud800"}'
    feed = read('{"version": "https://jsonfeed.org/version/1.1", "title": "T", "items": [' + item + "]}")
    [entry] = feed["entries"]
    assert (entry[KEY], entry[TITLE], entry[LINK], entry[HTML]) == ("ab", "cd", "https://a.example/", "e")


def test_a_parse_error_is_no_error_of_ours() -> None:
    assert not issubclass(ParseError, (ValueError, OSError))
