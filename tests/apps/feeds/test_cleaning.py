"""What strangers wrote is safe to show."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_apps.feeds.parsing.text import Cleaner, moment, plain, visible

REL = "noopener noreferrer nofollow"
CLEANER = Cleaner("https://feed.example/dir/feed.xml")


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        ("<p>Hello <b>you</b></p>", "<p>Hello <b>you</b></p>"),
        ("<script>alert(1)</script>x", "x"),
        ("<style>p{}</style>x", "x"),
        ("<iframe src=https://a.example></iframe>x", "x"),
        ("<svg><script>alert(1)</script></svg>x", "x"),
        ("<img src=x onerror=alert(1)>x", "x"),
        ("<img src='javascript:alert(1)'>x", "x"),
        ("<p onclick=alert(1) style='position:fixed' class=big id=top>x</p>", "<p>x</p>"),
        ("<form action=/><input name=a><button>b</button></form>x", "x"),
        ("<b>open", "<b>open</b>"),
        ("1 < 2 & 3", "1 &lt; 2 &amp; 3"),
        ("<!-- secret -->x", "x"),
        ("plain words", "plain words"),
        ("-->", "--&gt;"),
        ("<p>a\x00b\u202ec</p>", "<p>abc</p>"),
        (None, ""),
        (7, ""),
        ("  ", ""),
    ],
)
def test_html_is_sanitised(dirty: object, clean: str) -> None:
    assert CLEANER.markup(dirty) == clean


@pytest.mark.parametrize(
    ("href", "becomes"),
    [
        ("https://a.example/?b=1", "https://a.example/?b=1"),
        ("http://a.example/", "http://a.example/"),
        ("/more", "https://feed.example/more"),
        ("more", "https://feed.example/dir/more"),
        ("//a.example/x", "https://a.example/x"),
        ("javascript:alert(1)", None),
        ("JaVaScRiPt:alert(1)", None),
        (" java\nscript:alert(1)", None),
        ("data:text/html,x", None),
        ("vbscript:x", None),
        ("file:///etc/passwd", None),
        ("mailto:a@b.example", None),
    ],
)
def test_links_lead_to_http_and_https_alone_and_tell_nobody_where_from(href: str, becomes: str | None) -> None:
    cleaned = CLEANER.markup(f'<a href="{href}" target="_self" rel="opener">x</a>')
    found = re.search(r'href="([^"]*)"', cleaned)
    assert (found and found[1].replace("&amp;", "&")) == becomes
    assert 'rel="noopener noreferrer nofollow"' in cleaned
    assert "target" not in cleaned
    assert CLEANER.link(href) == becomes


@pytest.mark.parametrize("link", ["http://[bad", "x" * 3000, None, 7, "", "tel:1"])
def test_what_is_no_link_is_none(link: object) -> None:
    assert CLEANER.link(link) is None


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, attrs))


pieces = st.sampled_from([
    "<", ">", "/", "script", "<script>", "</script>", "<svg/onload=x>", "<a href=", "javascript:", "x", "'", '"', " ",
    "=", "<p", "on", "click=1", "<!--", "-->", "&lt;", "&#x3c;", "<![CDATA[", "]]>", "<math>", "<style>",
    "<img src=x onerror=1>",
])  # fmt: skip


@given(st.lists(pieces, max_size=20).map("".join))
def test_no_mixture_of_markup_brings_a_script_through(dirty: str) -> None:
    tags = Tags()
    tags.feed(CLEANER.markup(dirty))
    for tag, attributes in tags.seen:
        assert tag in {"a", "p"}
        for name, value in attributes:
            assert (tag, name) in {("a", "href"), ("a", "rel")}
            assert name == "rel" or (value or "").startswith(("http://", "https://"))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("A <b>bold</b> title", "A bold title"),
        ("Fish &amp; chips", "Fish & chips"),
        ("1 < 2", "1 < 2"),
        ("AT&T", "AT&T"),
        (" many \n\t spaces ", "many spaces"),
        ("<script>alert(1)</script>Title", "Title"),
        ("&lt;script&gt;", "<script>"),
        ("a\x00\x1b[31mb\u202e", "a[31mb"),
        (None, ""),
        (["list"], ""),
    ],
)
def test_titles_are_one_line_of_text(given: object, text: str) -> None:
    assert plain(given) == text


def test_long_titles_are_cut() -> None:
    assert len(plain("word " * 1000)) == 500
    assert plain("word " * 1000).endswith("…")


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("1970-01-01T00:01:00+00:00", 60.0), ("0001-01-01T00:00:00+00:00", None), ("9999-12-31T23:59:59+00:00", None),
     ("yesterday", None), (None, None), (7, None)],
)  # fmt: skip
def test_dates_that_make_no_sense_are_none(given: object, seconds: float | None) -> None:
    assert moment(given) == seconds


def test_nothing_that_nobody_sees_is_left() -> None:
    ranges = [(0, 8), (0xB, 0xC), (0xE, 0x1F), (0x7F, 0x9F), (0x200E, 0x200F), (0x202A, 0x202E), (0x2066, 0x2069),
              (0xD800, 0xDFFF), (0xFFFE, 0xFFFF)]  # fmt: skip
    for unseen in (chr(n) for first, last in ranges for n in range(first, last + 1)):
        assert visible(unseen) == ""
        assert visible(f"a{unseen}é") == "aé"


def test_a_feed_whose_host_has_an_odd_name_is_cleaned_without_links_relative_to_it() -> None:
    cleaner = Cleaner("http://xn--zzzzzzzz.example/feed")
    assert cleaner.markup("<a href='/x'>x</a> <a href='https://a.example/'>y</a><script>z</script>") == (
        f'<a rel="{REL}">x</a> <a href="https://a.example/" rel="{REL}">y</a>'
    )
