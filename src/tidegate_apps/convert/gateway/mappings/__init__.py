"""Mappings: the XML formats that the gateway writes.

Each is one Python module with a line ABOUT it, the SCHEMA of its XML, and a function `write`. Built-in mappings are the
modules in this package. A setting names a folder with more. Modules with a leading underscore are not mappings. A
mapping imports what it needs from here:

    from tidegate_apps.convert.gateway.mappings import document, page_attributes, schema_of
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from typing import Protocol, cast
from xml.parsers.expat import ExpatError, ParserCreate

from tidegate_apps.convert.gateway.document import (
    Attributes,
    Box,
    Content,
    DocumentHead,
    DocumentPage,
    TextLine,
    TextWord,
    Xml,
    attributes,
    boxed,
    number,
)
from tidegate_apps.convert.gateway.mappings._schema import ContentCounts, document, page_attributes, schema_of
from tidegate_apps.convert.mapping_names import MAPPING, is_mapping

__all__ = [
    "NAMES",
    "Attributes",
    "Box",
    "Content",
    "ContentCounts",
    "DocumentHead",
    "DocumentPage",
    "Mapping",
    "Mappings",
    "TextLine",
    "TextWord",
    "Xml",
    "attributes",
    "boxed",
    "document",
    "mapping",
    "number",
    "page_attributes",
    "schema_of",
]

NAMES: tuple[str, ...] = tuple(
    sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
)


class Mapping(Protocol):
    ABOUT: str  # one line for users
    SCHEMA: str  # XML Schema 1.0

    def write(self, xml: Xml, head: DocumentHead, pages: Iterable[DocumentPage]) -> ContentCounts:
        """Write the whole document, page by page, and return counts of its content."""


class Mappings:
    """Built-in mappings and those of a folder, all loaded. Raises ValueError for a file that is not a mapping."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        names = (*NAMES, *(() if folder is None else _names_in(folder)))
        self._known = {name: mapping(name, folder) for name in sorted(names)}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._known)

    def about(self, name: str) -> str:
        return self._known[name].ABOUT

    def schema(self, name: str) -> bytes:
        """Return the XML Schema of a mapping."""
        return self._known[name].SCHEMA.encode()


@cache
def mapping(name: str, folder: Path | None = None) -> Mapping:
    """Return the mapping. Raises KeyError."""
    if name in NAMES:
        return cast("Mapping", import_module(f"{__name__}.{name}"))
    if folder is None or not is_mapping(name):
        raise KeyError(name)
    return _loaded(folder / f"{name}.py")


def _names_in(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; give one that has mappings in it")
    names = [file.stem for file in sorted(folder.glob("*.py")) if not file.name.startswith("_")]
    for name in names:
        if not is_mapping(name):
            raise ValueError(f"{name}.py: it cannot be the name of a mapping; give {MAPPING}")
        if name in NAMES:
            raise ValueError(f"{name}.py: there is a mapping of that name already; give it another one")
    return names


def _loaded(file: Path) -> Mapping:
    spec = spec_from_file_location(f"tidegate_mapping_{file.stem}", file)
    assert spec is not None  # noqa: S101 - it ends in .py
    assert spec.loader is not None  # noqa: S101
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except FileNotFoundError as error:
        raise KeyError(file.stem) from error
    except Exception as error:
        raise ValueError(
            f"{file.name}: it cannot be loaded; fix the mapping ({type(error).__name__}: {error})"
        ) from error
    wrong = _wrong(module)
    if wrong:
        raise ValueError(f"{file.name}: {wrong}")
    return cast("Mapping", module)


def _wrong(module: object) -> str:
    """Return why a module is not a valid mapping; empty if it is."""
    for name in ("ABOUT", "SCHEMA"):
        if not isinstance(getattr(module, name, None), str):
            return f"{name} is missing; give it a text of that name"
    if not callable(getattr(module, "write", None)):
        return "write is missing; give it a function write(xml, head, pages)"
    try:
        ParserCreate().Parse(vars(module)["SCHEMA"], True)
    except ExpatError as error:
        return f"SCHEMA is not valid XML ({error}); give an XML Schema, or make one with schema_of"
    return ""
