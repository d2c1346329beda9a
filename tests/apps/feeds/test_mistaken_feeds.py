"""Feeds that say a wrong encoding, or are not well-formed, are read all the same, and it is said."""

from __future__ import annotations

import pytest

from tests.apps.feeds import samples
from tests.apps.feeds.child import KEY, LINK, read


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
