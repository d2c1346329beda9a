"""Everything with its place: pages, lines, words and images with boxes, fonts and sizes."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate_apps.convert.gateway.document import Head, Line, Page
from tidegate_apps.convert.gateway.mappings._frame import Tally, document, page_attributes
from tidegate_apps.convert.gateway.xml import Attributes, Xml, attributes, boxed, number


def write(xml: Xml, head: Head, pages: Iterable[Page]) -> Tally:
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


def _line(xml: Xml, line: Line) -> None:
    font = attributes(font=line.font) if line.font else ""
    xml.begin("line", Attributes(f'{boxed(line.box)} size="{number(line.size)}"{font}'))
    for word in line.words:
        xml.leaf("word", word.text, boxed(word.box))
    xml.end()
