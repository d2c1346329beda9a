"""The mapping `layout`: pages, lines, words and images with boxes, fonts and sizes."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate_apps.convert.gateway.document import (
    Attributes,
    DocumentHead,
    DocumentPage,
    TextLine,
    Xml,
    attributes,
    boxed,
    number,
)
from tidegate_apps.convert.gateway.mappings._schema import ContentCounts, document, page_attributes, schema_of

ABOUT = "Every line, word and image, with its place on the page."
SCHEMA = schema_of(
    "layout",
    ABOUT,
    """
  <!-- Lengths are points; boxes count from the top left corner of the page as shown. -->
  <xs:complexType name="Page">
    <xs:sequence>
      <xs:element name="line" type="Line" minOccurs="0" maxOccurs="unbounded"/>
      <xs:element name="image" type="Image" minOccurs="0" maxOccurs="unbounded"/>
    </xs:sequence>
    <xs:attributeGroup ref="Page"/>
    <xs:attribute name="width" type="xs:decimal" use="required"/>
    <xs:attribute name="height" type="xs:decimal" use="required"/>
    <xs:attribute name="rotation" use="required">
      <xs:simpleType>
        <xs:restriction base="xs:integer">
          <xs:enumeration value="0"/>
          <xs:enumeration value="90"/>
          <xs:enumeration value="180"/>
          <xs:enumeration value="270"/>
        </xs:restriction>
      </xs:simpleType>
    </xs:attribute>
  </xs:complexType>

  <xs:attributeGroup name="Box">
    <xs:attribute name="x" type="xs:decimal" use="required"/>
    <xs:attribute name="y" type="xs:decimal" use="required"/>
    <xs:attribute name="width" type="xs:decimal" use="required"/>
    <xs:attribute name="height" type="xs:decimal" use="required"/>
  </xs:attributeGroup>

  <xs:complexType name="Line">
    <xs:sequence>
      <xs:element name="word" type="Word" maxOccurs="unbounded"/>
    </xs:sequence>
    <xs:attributeGroup ref="Box"/>
    <xs:attribute name="size" type="xs:decimal" use="required"/>
    <xs:attribute name="font" type="xs:string"/>
  </xs:complexType>

  <xs:complexType name="Word">
    <xs:simpleContent>
      <xs:extension base="xs:string">
        <xs:attributeGroup ref="Box"/>
      </xs:extension>
    </xs:simpleContent>
  </xs:complexType>

  <xs:complexType name="Image">
    <xs:attributeGroup ref="Box"/>
  </xs:complexType>
""",
)


def write(xml: Xml, head: DocumentHead, pages: Iterable[DocumentPage]) -> ContentCounts:
    with document(xml, "layout", head) as tally:
        for page in pages:
            tally.count(page)
            size = attributes(width=number(page.width), height=number(page.height), rotation=page.rotation)
            xml.begin("page", Attributes(page_attributes(page) + size))
            for line in page.lines:
                _line(xml, line)
            for image in page.images:
                xml.leaf("image", given=boxed(image))
            xml.end()
    return tally


def _line(xml: Xml, line: TextLine) -> None:
    font = attributes(font=line.font) if line.font else ""
    xml.begin("line", Attributes(f'{boxed(line.box)} size="{number(line.size)}"{font}'))
    for word in line.words:
        xml.leaf("word", word.text, boxed(word.box))
    xml.end()
