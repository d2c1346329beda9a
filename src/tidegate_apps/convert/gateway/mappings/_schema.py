"""What all mappings share: the document element, its metadata and outline, and the XML Schema around them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tidegate_apps.convert.gateway.document import (
    Attributes,
    Content,
    DocumentHead,
    DocumentPage,
    OutlineEntry,
    Xml,
    attributes,
    escaped,
)

# -- document element --------------------------------------------------------------------------------------------------

VERSION = "1"


@dataclass(slots=True)
class ContentCounts:
    """Counts of page content."""

    pages: dict[Content, int] = field(default_factory=lambda: dict.fromkeys(Content, 0))
    lines: int = 0
    words: int = 0

    def count(self, page: DocumentPage) -> None:
        self.pages[page.content] += 1
        self.lines += len(page.lines)
        self.words += sum(len(line.words) for line in page.lines)


@contextmanager
def document(xml: Xml, name: str, head: DocumentHead) -> Iterator[ContentCounts]:
    """Write the element `document`. The caller writes the pages inside, and the counts are updated."""
    version = {"pdf_version": head.version} if head.version else {}
    xml.begin("document", attributes(mapping=name, version=VERSION, pages=head.pages, **version))
    if head.about:
        xml.begin("about")
        for field_name, value in head.about:
            xml.leaf(field_name, value)
        xml.end()
    if head.outline:
        _outline(xml, head.outline)
    tally = ContentCounts()
    yield tally
    xml.leaf(
        "summary",
        given=attributes(
            text_pages=tally.pages[Content.TEXT],
            scan_pages=tally.pages[Content.SCAN],
            blank_pages=tally.pages[Content.BLANK],
            unreadable_pages=tally.pages[Content.UNREADABLE],
            lines=tally.lines,
            words=tally.words,
        ),
    )
    xml.end()


def page_attributes(page: DocumentPage) -> Attributes:
    label = {"label": page.label} if page.label and page.label != str(page.number) else {}
    return attributes(number=page.number, **label, content=page.content)


def _outline(xml: Xml, entries: tuple[OutlineEntry, ...]) -> None:
    xml.begin("outline")
    level = -1
    for entry in entries:
        for _ in range(level - entry.level + 1):
            xml.end()
        level = entry.level
        where = {} if entry.page is None else {"page": entry.page}
        xml.begin("entry", attributes(title=entry.title, **where))
    for _ in range(level + 2):  # the open entries and the outline
        xml.end()


_SCHEMA = """<?xml version="1.0" encoding="UTF-8"?>
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" elementFormDefault="qualified" version="{version}">
  <xs:annotation>
    <xs:documentation>{about}</xs:documentation>
  </xs:annotation>

  <xs:element name="document">
    <xs:complexType>
      <xs:sequence>
        <xs:element name="about" type="About" minOccurs="0"/>
        <xs:element name="outline" type="Outline" minOccurs="0"/>
        <xs:element name="page" type="Page" maxOccurs="unbounded"/>
        <xs:element name="summary" type="Summary"/>
      </xs:sequence>
      <xs:attribute name="mapping" type="xs:string" fixed="{name}" use="required"/>
      <xs:attribute name="version" type="xs:string" fixed="{version}" use="required"/>
      <xs:attribute name="pages" type="xs:positiveInteger" use="required"/>
      <xs:attribute name="pdf-version" type="xs:string"/>
    </xs:complexType>
  </xs:element>

{pages}

  <xs:attributeGroup name="Page">
    <xs:attribute name="number" type="xs:positiveInteger" use="required"/>
    <xs:attribute name="label" type="xs:string"/>
    <xs:attribute name="content" type="Content" use="required"/>
  </xs:attributeGroup>

  <!-- A page without text is marked: "scan" when something is drawn on it, else "blank". -->
  <xs:simpleType name="Content">
    <xs:restriction base="xs:string">
      <xs:enumeration value="text"/>
      <xs:enumeration value="scan"/>
      <xs:enumeration value="blank"/>
      <xs:enumeration value="unreadable"/>
    </xs:restriction>
  </xs:simpleType>

  <!-- What the document says of itself. Dates are ISO 8601, with a zone where the document gives one. -->
  <xs:complexType name="About">
    <xs:sequence>
      <xs:element name="title" type="xs:string" minOccurs="0"/>
      <xs:element name="author" type="xs:string" minOccurs="0"/>
      <xs:element name="subject" type="xs:string" minOccurs="0"/>
      <xs:element name="keywords" type="xs:string" minOccurs="0"/>
      <xs:element name="creator" type="xs:string" minOccurs="0"/>
      <xs:element name="producer" type="xs:string" minOccurs="0"/>
      <xs:element name="created" type="xs:dateTime" minOccurs="0"/>
      <xs:element name="modified" type="xs:dateTime" minOccurs="0"/>
    </xs:sequence>
  </xs:complexType>

  <xs:complexType name="Outline">
    <xs:sequence>
      <xs:element name="entry" type="Entry" maxOccurs="unbounded"/>
    </xs:sequence>
  </xs:complexType>

  <xs:complexType name="Entry">
    <xs:sequence>
      <xs:element name="entry" type="Entry" minOccurs="0" maxOccurs="unbounded"/>
    </xs:sequence>
    <xs:attribute name="title" type="xs:string" use="required"/>
    <xs:attribute name="page" type="xs:positiveInteger"/>
  </xs:complexType>

  <!-- The last element: a document that has it is whole. -->
  <xs:complexType name="Summary">
    <xs:attribute name="text-pages" type="xs:nonNegativeInteger" use="required"/>
    <xs:attribute name="scan-pages" type="xs:nonNegativeInteger" use="required"/>
    <xs:attribute name="blank-pages" type="xs:nonNegativeInteger" use="required"/>
    <xs:attribute name="unreadable-pages" type="xs:nonNegativeInteger" use="required"/>
    <xs:attribute name="lines" type="xs:nonNegativeInteger" use="required"/>
    <xs:attribute name="words" type="xs:nonNegativeInteger" use="required"/>
  </xs:complexType>
</xs:schema>
"""


def schema_of(name: str, about: str, pages: str) -> str:
    """Return the XML Schema of a mapping. *pages* defines the type `Page` with the attribute group `Page`."""
    return _SCHEMA.format(name=name, about=escaped(about), version=VERSION, pages=pages.strip("\n"))
