"""Every format of feeds becomes the same plain values."""

from __future__ import annotations

import base64
import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.apps.feeds import samples
from tidegate_apps.feeds.parsing import inside
from tidegate_apps.feeds.parsing.values import ParseError

KEY, GUID, LINK, TITLE, AUTHOR, HTML, PUBLISHED, UPDATED, DIGEST = range(9)


def read(body: str | bytes, content_type: str = "", url: str = "https://feed.example/dir/feed.xml") -> dict[str, Any]:
    """What the child would answer."""
    data = body.encode() if isinstance(body, str) else body
    return inside.read([base64.b64encode(data).decode(), content_type, url])


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
    ("encoding", "declared", "content_type", "is_odd"),
    [
        ("utf-8", "utf-8", "", False),
        ("utf-8-sig", "utf-8", "", False),
        ("utf-8-sig", "iso-8859-1", "", False),
        ("utf-8", "", "text/xml", False),
        ("utf-8", "", "text/xml; charset=iso-8859-1", True),
        ("utf-8", "iso-8859-1", "", True),
        ("utf-8", "us-ascii", "", True),
        ("cp1252", "iso-8859-1", "", False),
        ("cp1252", "windows-1252", "application/xml; charset=utf-8", False),
        ("cp1252", "", 'text/xml; charset="ISO-8859-1"', False),
        ("cp1252", "utf-8", "", True),
        ("cp1252", "", "", True),
        ("cp1252", "utf-7", "", True),
        ("cp1252", "nonsense", "", True),
        ("utf-16", "utf-16", "", False),
        ("utf-16-le", "utf-16", "", False),
        ("utf-16-be", "utf-16", "", False),
        ("utf-16", "utf-8", "text/xml; charset=utf-8", False),
    ],
)
def test_encodings_are_found_whatever_is_declared(
    encoding: str, declared: str, content_type: str, is_odd: bool
) -> None:
    says = f'<?xml version="1.0" encoding="{declared}"?>' if declared else ""
    text = f"{says}<rss version='2.0'><channel><title>Fährhafen “Süd” €</title></channel></rss>"
    feed = read(text.encode(encoding), content_type)
    assert feed["title"] == "Fährhafen “Süd” €"
    assert (feed["malformed"] is not None) == is_odd


@pytest.mark.parametrize(
    ("encoding", "declared", "title"),
    [("iso2022_jp", "iso-2022-jp", "潮の門"), ("cp932", "Shift_JIS", "潮の門"), ("koi8-r", "koi8-r", "Прилив"),
     ("gb18030", "gb2312", "潮汐"), ("euc-kr", "euc-kr", "조수")],
)  # fmt: skip
def test_encodings_of_other_scripts_are_believed(encoding: str, declared: str, title: str) -> None:
    text = (
        f'<?xml version="1.0" encoding="{declared}"?><rss version="2.0"><channel><title>{title}</title></channel></rss>'
    )
    assert read(text.encode(encoding))["title"] == title


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("<title>a & b</title>", "not well-formed"),
        ("<title>a\x01 &amp; b</title>", "not well-formed"),
        ("<title>a\0 &amp; b</title>", "not well-formed"),
        ("<title>a &amp;&nbsp;b</title>", "undefined entity"),
        ("<title>a &amp; b</title><p>", "mismatched tag"),
        ("<title>a &#38; b</title><link>&bogus;</link>", "undefined entity"),
        ("<title><![CDATA[a & b]]></title><p>", "mismatched tag"),
    ],
)
def test_a_feed_with_mistakes_is_read_and_called_malformed(broken: str, says: str) -> None:
    feed = read(f"<rss version='2.0'><channel>{broken}<item><guid>1</guid><title>x</title></item></channel></rss>")
    assert says in feed["malformed"]
    assert feed["title"] == "a & b"
    assert [entry[KEY] for entry in feed["entries"]] == ["1"]


def test_what_is_put_right_in_a_malformed_feed_spares_what_was_right() -> None:
    link = "<link><![CDATA[https://a.example/?a=1&b=2&copy=3]]></link>"
    feed = read(f"<rss version='2.0'><channel><title>&</title><item>{link}</item></channel></rss>")
    assert feed["entries"][0][LINK] == "https://a.example/?a=1&b=2&copy=3"


def test_a_feed_that_stops_in_the_middle_keeps_what_came() -> None:
    feed = read(samples.RSS_20[: samples.RSS_20.index("<item><title>A note")])
    assert feed["malformed"]
    assert [entry[KEY] for entry in feed["entries"]][:2] == ["tide-2", "https://tide.example/p/1"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "it is empty"),
        (b" \r\n\t ", "it is empty"),
        (b"<!DOCTYPE html><html><body>Log in</body></html>", "it is a web page"),
        (b"\n<!-- x --><HTML><head><title>404</title></head></HTML>", "it is a web page"),
        (b"<opml version='2.0'><body/></opml>", "no feed that can be read"),
        (b"just words", "no feed that can be read"),
        (b"{}", "no feed that can be read"),
        (b'{"version": "https://jsonfeed.org/version/1.1", "items": [1]}', "no feed that can be read"),
        (b"\x89PNG\r\n\x1a\n", "no feed that can be read"),
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
