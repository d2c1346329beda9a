"""The gateway over real HTTP: what it makes of good documents."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from tests.apps.convert import pdfs
from tests.apps.convert.asking import process, refusal, schema_of, valid
from tidegate_apps.convert.gateway import MAPPINGS, Embedded


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Embedded() as found:
        yield found


@pytest.mark.req("CNV-17")
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("pretty", ["0", "1"])
@pytest.mark.parametrize(
    "pdf",
    [
        pdfs.text(20), pdfs.article(), pdfs.table(), pdfs.rotated(), pdfs.unusual_fonts(), pdfs.described(),
        pdfs.scan(), pdfs.encrypted(readable=True), pdfs.polyglot(), pdfs.html_polyglot(), pdfs.loops(),
        pdfs.absurd_places(),
    ],
    ids=[
        "text", "article", "table", "rotated", "fonts", "described", "scan", "readable", "polyglot", "html", "loops",
        "absurd",
    ],
)  # fmt: skip
def test_every_readable_document_becomes_xml_that_is_valid_against_the_published_schema(
    url: str, pdf: bytes, mapping: str, pretty: str
) -> None:
    root = valid(process(url, pdf, mapping, pretty=pretty), mapping)

    assert root.get("mapping") == mapping
    assert len(root.findall("page")) == int(root.get("pages"))


def test_the_layout_says_where_each_word_stands(url: str) -> None:
    root = valid(process(url, pdfs.table()))

    words = {word.text: word for word in root.iter("word")}
    assert sorted(words) == sorted(f"r{row}c{column}" for row in range(1, 5) for column in range(1, 4))
    cell = words["r2c3"]
    # It is drawn at 318 from the left and 646 from the bottom of a page that is 841.89 high, with a size of 10.
    assert float(cell.get("x")) == pytest.approx(318, abs=2)
    assert float(cell.get("y")) + float(cell.get("height")) == pytest.approx(841.89 - 646, abs=2)
    assert cell.getparent().get("size") == "10.00"
    assert cell.getparent().get("font") == "Courier"


def test_boxes_are_those_of_the_page_as_it_is_shown_however_it_is_turned(url: str) -> None:
    root = valid(process(url, pdfs.rotated()))

    for page in root.iter("page"):
        (word,) = page.iter("word")
        x, y, width, height = (float(word.get(name)) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + width <= float(page.get("width"))
        assert 0 <= y <= y + height <= float(page.get("height"))
    turned = [page.get("rotation") for page in root.iter("page")]
    wide = [float(word.get("width")) > float(word.get("height")) for word in root.iter("word")]
    assert turned == ["0", "90", "180", "270"]
    assert wide == [True, False, True, False]  # turned by a quarter, a word stands upright
    corners = [(float(word.get("x")), float(word.get("y"))) for word in root.iter("word")]
    assert corners[0] == pytest.approx((100, 787), abs=2)
    assert corners[1] == pytest.approx((50, 100), abs=2)
    assert corners[2] == pytest.approx((467, 50), abs=2)
    assert corners[3] == pytest.approx((540, 714), abs=2)


def test_the_text_has_headings_paragraphs_and_items_in_their_order(url: str) -> None:
    root = valid(process(url, pdfs.article(), "text"), "text")

    assert [(block.tag, block.get("level"), block.text) for block in root.find("page")] == [
        ("heading", "1", "Tides"),
        ("paragraph", None, "The first paragraph has a word that is broken at the continent of a line, and goes on."),
        ("paragraph", None, "The second paragraph is another one, because there is room above it."),
        ("heading", "2", "What to bring"),
        ("item", None, "1. boots that reach above the knee"),
        ("item", None, "2. a lamp & a <map>"),
    ]


def test_the_text_keeps_the_rows_and_cells_of_a_table(url: str) -> None:
    root = valid(process(url, pdfs.table(), "text"), "text")

    (table,) = root.find("page")
    assert [[cell.text for cell in row] for row in table] == [
        [f"r{row}c{column}" for column in range(1, 4)] for row in range(1, 5)
    ]


def test_what_a_document_says_of_itself_and_its_outline_are_there(url: str) -> None:
    root = valid(process(url, pdfs.described(), "text"), "text")

    assert root.findtext("about/title") == 'Tide & <gate> "one"'  # without the sign that XML cannot hold
    assert root.findtext("about/author") == "Åsa Ödman"
    assert root.findtext("about/keywords") == "water, work"
    assert [(each.get("title"), each.get("page")) for each in root.iter("entry")] == [
        ("Part <1>", "1"),
        ("Chapter 1.1", "2"),
        ("Part 2", "3"),
    ]
    assert root.find("outline/entry/entry").get("title") == "Chapter 1.1"


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_a_page_without_text_is_marked_as_a_scan(url: str, mapping: str) -> None:
    answer = process(url, pdfs.scan(), mapping)
    root = valid(answer, mapping)

    assert [page.get("content") for page in root.iter("page")] == ["scan", "text", "blank"]
    assert root.find("summary").get("scan-pages") == "1"
    assert answer.headers["tidegate-scanned-pages"] == "1"


def test_unusual_fonts_give_their_letters(url: str) -> None:
    root = valid(process(url, pdfs.unusual_fonts(), "text"), "text")

    said = " ".join(block.text for block in root.find("page"))
    for word in ("Ärger", "Łask", "€", "αβγ", "✁✂✓", "東京タワー"):
        assert word in said


def test_letters_beyond_16_bits_and_those_without_a_meaning_are_told(url: str) -> None:
    root = valid(process(url, pdfs.odd_letters()))

    words = {word.text: float(word.get("x")) for word in root.iter("word")}
    assert words["😀xfix\ufffd"] == pytest.approx(72, abs=2)
    assert words["place"] == pytest.approx(300, abs=2)
    assert len(root.find("page")) == 1, "a letter without a meaning ends no line"


def test_a_page_whose_letters_nobody_can_tell_is_a_scan(url: str) -> None:
    root = valid(process(url, pdfs.meaningless()))

    assert [page.get("content") for page in root.iter("page")] == ["scan"]
    assert root.find("page/line") is None


def test_the_size_of_a_line_is_the_one_that_is_seen(url: str) -> None:
    root = valid(process(url, pdfs.odd_letters()))

    assert [line.get("size") for line in root.iter("line")] == ["12.00", "20.00"]


def test_pages_have_the_labels_that_the_document_gives_them(url: str) -> None:
    numbered, plain = valid(process(url, pdfs.odd_letters())), valid(process(url, pdfs.text(2)))

    assert [page.get("label") for page in numbered.iter("page")] == ["i", "ii"]
    assert [page.get("label") for page in plain.iter("page")] == [None, None]


@pytest.mark.full
def test_five_hundred_pages_are_all_there(url: str) -> None:
    root = valid(process(url, pdfs.many_pages(), "text"), "text")

    assert [page.get("number") for page in root.iter("page")] == [str(number) for number in range(1, 501)]
    assert root.findall("page")[499][0].text.startswith("page 500 ")


def test_pretty_xml_says_the_same_as_compact_xml(url: str) -> None:
    compact, pretty = (process(url, pdfs.article(), pretty=each) for each in ("0", "1"))

    assert compact.content.count(b"\n") == 2
    assert pretty.content.count(b"\n") > 50
    assert [(each.tag, dict(each.attrib), (each.text or "").strip()) for each in valid(compact).iter()] == [
        (each.tag, dict(each.attrib), (each.text or "").strip()) for each in valid(pretty).iter()
    ]


def test_the_schema_of_each_mapping_is_published(url: str) -> None:
    listed = httpx2.get(f"{url}/schemas", timeout=60).json()["schemas"]
    assert sorted(listed) == list(MAPPINGS)

    for mapping, path in listed.items():
        assert httpx2.get(f"{url}{path}", timeout=60).headers["content-type"] == "application/xml"
        assert schema_of(mapping) is not None
    assert refusal(httpx2.get(f"{url}/schemas/none", timeout=60)) == (404, "not_there")


def test_health_says_ok_and_which_mappings_there_are(url: str) -> None:
    found = httpx2.get(f"{url}/health", timeout=60)

    assert found.status_code == 200
    assert found.json() == {"status": "ok", "mappings": ["layout", "text"], "active": 0, "waiting": 0}


def test_twenty_at_once_are_all_answered(url: str) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda seed: process(url, pdfs.text(1, seed=seed % 3 + 1)), range(20)))

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 3
