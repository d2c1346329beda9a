"""What all mappings have in common: the element around everything, its description, its outline, the count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tidegate_apps.convert.gateway.document import Content, DocumentHead, DocumentPage, OutlineEntry
from tidegate_apps.convert.gateway.xml import Attributes, Xml, attributes

VERSION = "1"


@dataclass(slots=True)
class ContentCounts:
    """What was in the pages that were counted."""

    pages: dict[Content, int] = field(default_factory=lambda: dict.fromkeys(Content, 0))
    lines: int = 0
    words: int = 0

    def count(self, page: DocumentPage) -> None:
        self.pages[page.content] += 1
        self.lines += len(page.lines)
        self.words += sum(len(line.words) for line in page.lines)


@contextmanager
def document(xml: Xml, name: str, head: DocumentHead) -> Iterator[ContentCounts]:
    """The element `document`; the pages are written inside, and counted."""
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
    for _ in range(level + 2):  # the entries that are open, and the outline
        xml.end()
