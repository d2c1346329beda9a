"""One conversion, from a file to a file; the function that child processes run."""

from __future__ import annotations

from pathlib import Path

from tidegate_apps.convert.gateway.document import Content
from tidegate_apps.convert.gateway.extraction import UnreadablePdf, open_pdf
from tidegate_apps.convert.gateway.mappings import mapping
from tidegate_apps.convert.gateway.orders import ConversionOrder, ConversionReport
from tidegate_apps.convert.gateway.xml import TooLong, Xml


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
