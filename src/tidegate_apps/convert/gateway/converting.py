"""One conversion, from a file to a file; the function that child processes run."""

from __future__ import annotations

from pathlib import Path

from tidegate_apps.convert.gateway.document import Content
from tidegate_apps.convert.gateway.extraction import Unreadable, opened
from tidegate_apps.convert.gateway.mappings import mapping
from tidegate_apps.convert.gateway.orders import Made, Order
from tidegate_apps.convert.gateway.xml import TooLong, Xml


def convert(order: Order) -> Made:
    folder = None if order.mappings is None else Path(order.mappings)
    try:
        with (
            opened(Path(order.source)) as (head, pages),
            Path(order.result).open("xb") as out,
            Xml(out, pretty=order.pretty, most=order.most) as xml,
        ):
            tally = mapping(order.mapping, folder).write(xml, head, pages)
    except Unreadable as error:
        return Made(refused=error.code)
    except TooLong:
        return Made(refused="result_too_large")
    if tally.pages[Content.UNREADABLE] == head.pages:
        return Made(refused="broken")
    return Made(size=xml.bytes, pages=head.pages, scans=tally.pages[Content.SCAN], words=tally.words)
