"""The reference of the XML says what the gateway does."""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from tests.apps.convert import pdfs
from tests.apps.convert.asking import schema_of
from tidegate_apps.convert.gateway import MAPPINGS, GatewayLimits, Mappings
from tidegate_apps.convert.gateway.child import ConversionOrder, convert
from tidegate_apps.convert.gateway.config import ROWS
from tidegate_apps.convert.gateway.document import Content

PAGE = (Path(__file__).parents[3] / "docs/reference/convert-xml.md").read_text()
_NUMBER = re.compile(r"-?\d+\.\d\d")


def example(mapping: str) -> bytes:
    section = PAGE.split(f"\n## {mapping}\n", 1)[1].split("\n## ", 1)[0]
    return section.split("```xml\n", 1)[1].split("```", 1)[0].encode()


def written(mapping: str, folder: Path) -> bytes:
    source, result = folder / "sample.pdf", folder / "sample.xml"
    source.write_bytes(pdfs.sample())
    convert(ConversionOrder(source=str(source), result=str(result), mapping=mapping, pretty=True, most=100_000))
    return result.read_bytes()


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_the_example_of_each_mapping_is_what_is_written(mapping: str, tmp_path: Path) -> None:
    shown, made = example(mapping).decode(), written(mapping, tmp_path).decode()

    assert _NUMBER.sub("0", shown) == _NUMBER.sub("0", made)
    # Another build of PDFium may round a box in another way.
    assert [float(each) for each in _NUMBER.findall(shown)] == pytest.approx(
        [float(each) for each in _NUMBER.findall(made)], abs=0.5
    )
    schema_of(mapping).assertValid(etree.fromstring(example(mapping)))


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_every_element_and_attribute_of_the_schema_is_on_the_page(mapping: str) -> None:
    root: Any = etree.fromstring(Mappings().schema(mapping))
    names = {each.get("name") for each in root.iter("{*}element", "{*}attribute") if each.get("name")}

    assert len(names) > 20
    assert not {name for name in names if f"`{name}`" not in PAGE}


def test_the_table_of_refusals_is_the_one_in_the_code() -> None:
    found = re.findall(r"^\| `(\w+)` \| (\d+) \| (.+) \|$", PAGE, re.MULTILINE)

    assert found == [(code, str(row.status), row.title) for code, row in ROWS.items()]


def test_every_kind_of_page_is_explained() -> None:
    assert all(re.search(rf"^\| `{content}` \| ", PAGE, re.MULTILINE) for content in Content)


def test_the_limits_on_the_page_are_the_ones_in_the_code() -> None:
    limits = GatewayLimits()

    assert (limits.pdf_bytes, limits.kept_for) == (50 * 1024**2, 15 * 60)
    assert (limits.memory_mb, limits.cpu) == (1024, 60)
