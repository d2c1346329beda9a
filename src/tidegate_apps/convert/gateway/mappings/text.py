"""The mapping `text`: headings, paragraphs, list items and tables in reading order, without positions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Literal

from tidegate_apps.convert.gateway.document import NONE, DocumentHead, DocumentPage, TextLine, Xml, attributes
from tidegate_apps.convert.gateway.mappings._schema import ContentCounts, document, page_attributes, schema_of

ABOUT = "Headings, paragraphs, lists and tables, in their order."
SCHEMA = schema_of(
    "text",
    ABOUT,
    """
  <xs:complexType name="Page">
    <xs:choice minOccurs="0" maxOccurs="unbounded">
      <xs:element name="heading" type="Heading"/>
      <xs:element name="paragraph" type="xs:string"/>
      <xs:element name="item" type="xs:string"/>
      <xs:element name="table" type="Table"/>
    </xs:choice>
    <xs:attributeGroup ref="Page"/>
  </xs:complexType>

  <xs:complexType name="Heading">
    <xs:simpleContent>
      <xs:extension base="xs:string">
        <xs:attribute name="level" use="required">
          <xs:simpleType>
            <xs:restriction base="xs:integer">
              <xs:minInclusive value="1"/>
              <xs:maxInclusive value="3"/>
            </xs:restriction>
          </xs:simpleType>
        </xs:attribute>
      </xs:extension>
    </xs:simpleContent>
  </xs:complexType>

  <xs:complexType name="Table">
    <xs:sequence>
      <xs:element name="row" minOccurs="2" maxOccurs="unbounded">
        <xs:complexType>
          <xs:sequence>
            <xs:element name="cell" type="xs:string" minOccurs="2" maxOccurs="unbounded"/>
          </xs:sequence>
        </xs:complexType>
      </xs:element>
    </xs:sequence>
  </xs:complexType>
""",
)

# Minimum size of a heading of each level, relative to the body text.
_LEVELS = ((1.8, 1), (1.4, 2), (1.15, 3))
_MAX_HEADING = 200  # characters
_BULLET = re.compile(r"[•‣◦▪·*\u2013\u2014-]$")
_NUMBER = re.compile(r"\(?(?:\d{1,3}|[a-z])[.)]$")
_SAME = 0.1  # sizes that differ by less are equal
_INDENT = 0.8  # of the size: maximum indent of the first line of a paragraph
_LOOSE = 1.35  # of the usual line distance: more begins a new paragraph
_CLOSE = 1.3  # of the size: less is always one paragraph
_FAR = 2.6  # of the size: more is always a new paragraph

_GAP = 1.5  # of the size: a wider gap between words separates two cells
_ROWS = 4.0  # of the size: maximum distance of two table rows

Kind = Literal["heading", "paragraph", "item", "table"]


@dataclass(slots=True)
class Block:
    """Lines that belong together; *level* is the heading level, else 0."""

    kind: Kind
    level: int = 0
    lines: list[TextLine] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return the words with spaces. A word that was hyphenated at a line end is joined."""
        parts: list[str] = []
        for line in self.lines:
            said = " ".join(word.text for word in line.words)
            parts.append(said[:-1] if line.broken else f"{said} ")
        return "".join(parts).strip()


def write(xml: Xml, head: DocumentHead, pages: Iterable[DocumentPage]) -> ContentCounts:
    sizes: Counter[float] = Counter()
    with document(xml, "text", head) as tally:
        for page in pages:
            tally.count(page)
            for line in page.lines:
                sizes[round(line.size, 1)] += sum(len(word.text) for word in line.words)
            xml.begin("page", page_attributes(page))
            for block in blocks(page.lines, usual_size(sizes)):
                _write(xml, block)
            xml.end()
    return tally


def _write(xml: Xml, block: Block) -> None:
    if block.kind != "table":
        xml.leaf(block.kind, block.text, attributes(level=block.level) if block.level else NONE)
        return
    xml.begin("table")
    for line in block.lines:
        xml.begin("row")
        for cell in cells(line):
            xml.leaf("cell", cell)
        xml.end()
    xml.end()


def usual_size(sizes: Counter[float]) -> float:
    """Return the size of most characters; of two equally common sizes, the smaller one."""
    return min(sizes, key=lambda size: (-sizes[size], size), default=0.0)


def blocks(lines: Sequence[TextLine], body: float) -> Iterator[Block]:
    """Yield the blocks of a page in document order; *body* is the size of the body text."""
    usual = _usual_distance(lines)
    block: Block | None = None
    at = 0
    while at < len(lines):
        next_block = _begins(lines, at, body)
        line = lines[at]
        at += len(next_block.lines)
        if block is not None and _goes_on(block, next_block, line, usual):
            block.lines.append(line)
            continue
        if block is not None:
            yield block
        block = next_block
    if block is not None:
        yield block


def _begins(lines: Sequence[TextLine], at: int, body: float) -> Block:
    """Return the block that would begin at this line. Only a table already has all its lines."""
    rows = _table(lines, at)
    if rows:
        return Block("table", lines=rows)
    line = lines[at]
    level = _level(line, body)
    marked = _BULLET.match(line.words[0].text) or _NUMBER.match(line.words[0].text)
    return Block("heading" if level else "item" if marked else "paragraph", level, [line])


def _table(lines: Sequence[TextLine], at: int) -> list[TextLine]:
    """Return the table rows from this line on: two or more lines, each with more than one cell."""
    rows: list[TextLine] = []
    for line in lines[at:]:
        if len(cells(line)) < 2 or (rows and not 0 < _distance(rows[-1], line) <= _ROWS * line.size):
            break
        rows.append(line)
    return rows if len(rows) > 1 else []


def cells(line: TextLine) -> list[str]:
    """Return the text of a line, split at wide gaps."""
    columns = [[line.words[0].text]]
    for before, word in pairwise(line.words):
        if word.box.x - (before.box.x + before.box.width) > _GAP * line.size:
            columns.append([])
        columns[-1].append(word.text)
    return [" ".join(words) for words in columns]


def _level(line: TextLine, body: float) -> int:
    if sum(len(word.text) + 1 for word in line.words) > _MAX_HEADING:
        return 0
    return next((level for ratio, level in _LEVELS if body > 0 and line.size >= ratio * body), 0)


def _goes_on(block: Block, found: Block, line: TextLine, usual: float) -> bool:
    """Return whether *line*, which could begin *found*, continues the current block."""
    before = block.lines[-1]
    if "table" in {block.kind, found.kind} or found.level != block.level:
        return False
    if abs(line.size - before.size) > _SAME * before.size:
        return False
    if before.broken:
        return True
    if found.kind == "item" and _is_item(block, line):
        return False
    distance = _distance(before, line)
    if distance <= 0 or distance > min(max(_LOOSE * usual, _CLOSE * line.size), _FAR * line.size):
        return False
    # Only the first line of a paragraph may be indented. Items have a hanging indent, headings may be centred.
    left = min(row.box.x for row in block.lines)
    return block.kind != "paragraph" or line.box.x <= left + _INDENT * line.size


def _is_item(block: Block, line: TextLine) -> bool:
    """Return whether a line with a list mark begins an item. A number may also be part of a sentence that continues."""
    mark = line.words[0].text
    if _BULLET.match(mark):
        return True
    if block.kind == "item":  # items have a hanging indent: a line below the first character is the next item
        return line.box.x <= block.lines[0].box.x + _INDENT * line.size
    return mark.strip("(.)") in {"1", "a"}


def _distance(above: TextLine, below: TextLine) -> float:
    return (below.box.y + below.box.height / 2) - (above.box.y + above.box.height / 2)


def _usual_distance(lines: Sequence[TextLine]) -> float:
    """Return the usual distance of two lines of the same size; infinite if there are none."""
    distances = [_distance(a, b) for a, b in pairwise(lines) if abs(a.size - b.size) <= _SAME * a.size]
    return median([distance for distance in distances if distance > 0] or [float("inf")])
