"""The forms of XML that the gateway writes.

Each is a module here with a function `write`, and its schema beside it: `text.py` and `text.xsd`. Another one needs
nothing else, because names are found by looking. What begins with an underscore is no mapping.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.resources import files
from pkgutil import iter_modules
from typing import Protocol, cast

from tidegate_apps.convert.gateway.document import Head, Page
from tidegate_apps.convert.gateway.mappings._frame import Tally
from tidegate_apps.convert.gateway.xml import Xml

NAMES: tuple[str, ...] = tuple(sorted(each.name for each in iter_modules(__path__) if not each.name.startswith("_")))


class Mapping(Protocol):
    def write(self, xml: Xml, head: Head, pages: Iterable[Page]) -> Tally:
        """Writes the whole document, one page after the other, and says what was in it."""


def mapping(name: str) -> Mapping:
    """The mapping of that name, which is one of NAMES."""
    if name not in NAMES:
        raise KeyError(name)
    return cast("Mapping", import_module(f"{__name__}.{name}"))


def schema(name: str) -> bytes:
    """The XML Schema of what the mapping writes."""
    if name not in NAMES:
        raise KeyError(name)
    return (files(__name__) / f"{name}.xsd").read_bytes()
