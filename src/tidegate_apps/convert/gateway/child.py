"""One conversion from file to file: the function that child processes run, and its messages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidegate_apps.convert.gateway.document import Content, TooLong, Xml
from tidegate_apps.convert.gateway.mappings import mapping
from tidegate_apps.convert.gateway.pdf import UnreadablePdf, open_pdf

# -- messages between the gateway and its child process ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionOrder:
    """One conversion to do; *most* limits the bytes of XML."""

    source: str
    result: str
    mapping: str
    mappings: str | None = None  # the folder of additional mappings
    pretty: bool
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionReport:
    """The result: the code of a refusal, or what was written."""

    refused: str = ""
    size: int = 0
    pages: int = 0
    scans: int = 0  # pages without text on which something is drawn
    words: int = 0


def convert(order: ConversionOrder) -> ConversionReport:
    folder = None if order.mappings is None else Path(order.mappings)
    try:
        with (
            open_pdf(Path(order.source)) as (head, pages),
            Path(order.result).open("xb") as out,
            Xml(out, pretty=order.pretty, limit=order.most) as xml,
        ):
            tally = mapping(order.mapping, folder).write(xml, head, pages)
    except UnreadablePdf as error:
        return ConversionReport(refused=error.code)
    except TooLong:
        return ConversionReport(refused="result_too_large")
    if tally.pages[Content.UNREADABLE] == head.pages:
        return ConversionReport(refused="broken")
    return ConversionReport(size=xml.bytes, pages=head.pages, scans=tally.pages[Content.SCAN], words=tally.words)
