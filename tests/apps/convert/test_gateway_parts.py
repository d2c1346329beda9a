"""The parts of the gateway that are functions of values: XML, places, dates, blocks, what a client accepts."""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import io
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tidegate_apps.convert.gateway.document import (
    Box,
    TextLine,
    TextWord,
    TooLong,
    Xml,
    attributes,
    boxed,
    clean,
    number,
)
from tidegate_apps.convert.gateway.http import accepts_xml
from tidegate_apps.convert.gateway.mappings.text import blocks, cells, usual_size
from tidegate_apps.convert.gateway.pdf import Frame, around, iso_date

_ANY = st.text(st.characters(exclude_categories=()))  # surrogates and control signs too


@given(_ANY, _ANY, st.booleans())
def test_whatever_a_document_says_the_xml_is_well_formed_and_says_it(said: str, named: str, pretty: bool) -> None:
    out = io.BytesIO()
    with Xml(out, pretty=pretty) as xml:
        xml.begin("document", attributes(title=named))
        xml.leaf("word", said)
        xml.begin("empty")
        xml.end()

    root = etree.fromstring(out.getvalue())
    assert root.get("title") == clean(named)
    assert (root.findtext("word") or "") == clean(said)
    assert [each.tag for each in root] == ["word", "empty"]


@pytest.mark.parametrize("sign", ["\0", "\x07", "\x0b", "\x1f", "\ud800", "\ufffe", "\uffff"])
def test_signs_that_xml_cannot_hold_are_left_out(sign: str) -> None:
    assert clean(f"a{sign}b") == "ab"


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_every_number_has_two_digits_after_its_point(value: float) -> None:
    assert abs(float(number(value))) <= 1_000_000
    assert number(value)[-3] == "."


@given(st.tuples(*[st.floats(allow_nan=True, allow_infinity=True)] * 4))
def test_every_box_has_four_numbers_that_a_schema_takes(box: tuple[float, float, float, float]) -> None:
    found = etree.fromstring(f"<word{boxed(box)}/>")

    assert list(found.attrib) == ["x", "y", "width", "height"]
    assert all(re.fullmatch(r"-?\d+\.\d\d", value) for value in found.attrib.values())


def test_no_more_is_written_than_allowed() -> None:
    out = io.BytesIO()
    xml = Xml(out, limit=1000)
    xml.begin("document")

    with pytest.raises(TooLong):
        any(xml.leaf("word", "water", boxed((1, 2, 3, 4))) for _ in range(10_000))  # type: ignore[func-returns-value]
    assert len(out.getvalue()) <= 1000


_PAGE = Frame(10, 20, 110, 220, 0)  # 100 wide, 200 high


@pytest.mark.parametrize(
    ("rotation", "box"),
    [
        (0, Box(0, 190, 30, 10)),
        (90, Box(0, 0, 10, 30)),
        (180, Box(70, 0, 30, 10)),
        (270, Box(190, 70, 10, 30)),
    ],
)
def test_what_stands_in_the_corner_of_the_file_is_found_in_the_corner_of_the_page(rotation: int, box: Box) -> None:
    """At the left and the bottom, 30 wide and 10 high."""
    assert _PAGE._replace(rotation=rotation).place(10, 20, 40, 30) == box


def test_a_box_around_others_holds_them_all() -> None:
    assert around([Box(0, 0, 10, 10), Box(5, 20, 30, 5)]) == Box(0, 0, 35, 25)
    assert around([]) == Box(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("pdf", "iso"),
    [
        ("D:20260102030405+02'00'", "2026-01-02T03:04:05+02:00"),
        ("D:20260102030405-0130", "2026-01-02T03:04:05-01:30"),
        ("D:20260102030405Z", "2026-01-02T03:04:05+00:00"),
        ("D:202601", "2026-01-01T00:00:00"),
        ("2026", "2026-01-01T00:00:00"),
        ("D:20260231", ""),
        ("D:20261301", ""),
        ("D:00000101", ""),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_a_date_of_a_pdf_becomes_one_that_others_read(pdf: str, iso: str) -> None:
    assert iso_date(pdf) == iso


@pytest.mark.parametrize(
    ("accept", "ok"),
    [
        ("", True),
        ("*/*", True),
        ("application/xml", True),
        ("text/xml;q=0.1", True),
        ("application/*;q=0.5, text/html", True),
        ("Application/XML; charset=utf-8", True),
        ("application/xml;q=0, text/xml", True),
        ("text/html", False),
        ("application/xml;q=0, */*", False),
        ("application/xml;q=x", False),
        ("*/*;q=0", False),
    ],
)
def test_the_header_accept_decides_whether_xml_is_welcome(accept: str, ok: bool) -> None:
    assert accepts_xml(accept) is ok


def line(said: str, y: float, *, x: float = 72, size: float = 10, broken: bool = False) -> TextLine:
    box = Box(x, y, 5.0 * len(said), size)
    return TextLine(
        words=tuple(TextWord(word, box) for word in said.split()), box=box, size=size, font="", broken=broken
    )


def told(*lines: TextLine) -> list[tuple[str, int, str]]:
    return [(block.kind, block.level, block.text) for block in blocks(lines, 10)]


def test_lines_that_stand_close_together_are_one_paragraph() -> None:
    page = [line("a b", 100), line("c", 114), line("d", 128), line("e", 160), line("f", 174)]

    assert told(*page) == [("paragraph", 0, "a b c d"), ("paragraph", 0, "e f")]


def row(y: float, *said: str, size: float = 10) -> TextLine:
    words = tuple(TextWord(each, Box(72 + 100 * column, y, 50, size)) for column, each in enumerate(said))
    return TextLine(words=words, box=around([word.box for word in words]), size=size, font="")


def test_lines_with_gaps_are_the_rows_of_a_table_and_one_alone_is_none() -> None:
    page = [line("before", 100), row(120, "a", "b"), row(140, "c", "d"), line("after", 160), row(180, "x", "y")]

    found = list(blocks(page, 10))
    assert [block.kind for block in found] == ["paragraph", "table", "paragraph"]
    assert [cells(each) for each in found[1].lines] == [["a", "b"], ["c", "d"]]
    assert found[2].text == "after x y"


def test_items_begin_with_a_bullet_or_a_number_that_counts() -> None:
    page = [line("Bring:", 100), line("1. boots", 114), line("2. a lamp", 128), line("• a map", 142)]

    assert told(*page) == [
        ("paragraph", 0, "Bring:"),
        ("item", 0, "1. boots"),
        ("item", 0, "2. a lamp"),
        ("item", 0, "• a map"),
    ]


def test_a_number_at_the_begin_of_a_line_may_be_one_of_the_sentence() -> None:
    assert told(line("The length is not", 100), line("0. It is one.", 114)) == [
        ("paragraph", 0, "The length is not 0. It is one."),
    ]
    assert told(line("• The most is", 100), line("100. No more.", 114, x=90)) == [
        ("item", 0, "• The most is 100. No more."),
    ]


def test_lines_that_are_close_for_their_size_belong_together_on_a_page_of_closer_ones() -> None:
    page = [
        *(line(f"code{number}", 100 + 8 * number, x=72 + 20 * number) for number in range(9)),
        line("a", 300),
        line("b", 312),
    ]

    assert told(*page)[-1] == ("paragraph", 0, "a b")


def test_an_indented_line_begins_a_paragraph() -> None:
    page = [line("a", 100, x=92), line("b", 114), line("c", 128, x=92), line("d", 142)]

    assert told(*page) == [("paragraph", 0, "a b"), ("paragraph", 0, "c d")]


def test_a_line_above_the_one_before_it_begins_a_column() -> None:
    assert told(line("a", 100), line("b", 114), line("c", 100, x=300)) == [
        ("paragraph", 0, "a b"),
        ("paragraph", 0, "c"),
    ]


@pytest.mark.parametrize(("size", "kind", "level"), [(11, "paragraph", 0), (12, "heading", 3), (15, "heading", 2)])
def test_how_much_larger_it_is_decides_whether_a_line_is_a_heading(size: float, kind: str, level: int) -> None:
    assert told(line("Title", 50, size=size), line("text", 100))[0] == (kind, level, "Title")


def test_a_long_line_in_large_letters_is_no_heading() -> None:
    assert told(line("word " * 50, 50, size=20))[0][:2] == ("paragraph", 0)


def test_a_word_that_is_broken_at_the_end_of_a_line_is_whole_again() -> None:
    assert told(line("a con-", 100, broken=True), line("verter", 300)) == [("paragraph", 0, "a converter")]


def test_the_usual_size_is_that_of_most_letters() -> None:
    assert usual_size(Counter({9.0: 10, 11.0: 500, 24.0: 20})) == 11.0
    assert usual_size(Counter()) == 0.0
