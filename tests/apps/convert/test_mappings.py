"""A mapping is one file: those that come along, and those that somebody drops into a folder."""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from lxml import etree

from tests.apps.convert import pdfs
from tests.apps.convert.asking import process, refusal
from tests.apps.convert.building import Place
from tests.apps.convert.building import place as made
from tests.apps.convert.processes import COMMAND, Running
from tests.databases import database
from tests.text import names
from tidegate.cli.root import run
from tidegate_apps.convert.gateway.mappings import NAMES, Mappings, mapping

PAGE = Path("docs/reference/convert-xml.md").read_text(encoding="utf-8")


def example() -> str:
    """The mapping of the page about the XML."""
    found = re.search(r"`mappings/titles\.py`:\n\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "mappings"
    found.mkdir()
    (found / "titles.py").write_text(example())
    (found / "_notes.py").write_text("not a mapping")
    return found


@pytest.fixture
def place(tmp_path: Path, folder: Path) -> Iterator[Place]:
    """With the gateway that is built in."""
    with database("sqlite-apsw", tmp_path) as db, made(db, tmp_path, gateway_url="", mappings=str(folder)) as found:
        yield found


def checked(xml: bytes, schema: bytes) -> etree._Element:
    root = etree.fromstring(xml)
    etree.XMLSchema(etree.fromstring(schema)).assertValid(root)
    return root


def test_one_more_file_is_one_more_mapping_of_page_api_gateway_and_schemas(place: Place) -> None:
    page = place.client.get("/convert").text
    assert "<option>titles</option>" in page
    assert "Only the headings." in page
    assert 'aria-label="Schema of titles"' in page

    job = place.new(pdfs.text(), mapping="titles")
    place.work(60)
    assert place.get(job)["status"] == "complete", place.get(job)
    xml = place.client.get(f"/api/jobs/{job}/download").content
    schema = place.client.get("/api/convert/schemas/titles").content
    root = checked(xml, schema)
    assert root.get("mapping") == "titles"
    assert root.findall(".//title")
    assert 'aria-label="Schema of titles"' in place.client.get(f"/convert/jobs/{job}").text

    gateway = place.there.jobs.gateway.url
    assert httpx2.get(f"{gateway}/health", timeout=60).json()["mappings"] == ["layout", "text", "titles"]
    assert httpx2.get(f"{gateway}/schemas/titles", timeout=60).content == schema
    assert refusal(process(gateway, pdfs.text(), "_notes")) == (400, "unknown_mapping")
    assert place.client.get("/api/convert/schemas/_notes").status_code == 404


def test_the_gateway_alone_and_the_terminal_take_such_a_folder_too(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Running(tmp_path, COMMAND, "convert", "gateway", "--port", "0", "--json", "--mappings", "mappings") as alone:
        about = json.loads(alone.said)
        assert about["mappings"] == ["layout", "text", "titles"]
        assert process(about["address"], pdfs.text(), "titles").status_code == 200
    (tmp_path / "a.pdf").write_bytes(pdfs.text())
    given = [str(tmp_path / "a.pdf"), "-o", str(tmp_path), "--mapping", "titles"]
    assert run(["convert", "run", *given]) == 2
    assert names(capsys.readouterr().err, "--mapping", "titles", "layout", "text")
    assert run(["convert", "run", *given, "--mappings", str(folder)]) == 0
    checked((tmp_path / "a.xml").read_bytes(), Mappings(folder).schema("titles"))


_WRITES = "def write(xml, head, pages): ..."


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("text", "", "name"),
        ("Mine", "", "name"),
        ("mine", "def", "SyntaxError"),
        ("mine", _WRITES, "ABOUT is missing"),
        ("mine", f"ABOUT = 'Mine.'\n{_WRITES}", "SCHEMA is missing"),
        ("mine", "ABOUT = 'Mine.'\nSCHEMA = '<a/>'", "write is missing"),
        ("mine", f"ABOUT = 'Mine.'\nSCHEMA = '<a>'\n{_WRITES}", "SCHEMA"),
    ],
)
def test_a_file_that_is_no_mapping_is_told_at_the_start(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / f"{name}.py").write_text(text)
    with pytest.raises(ValueError, match=rf"{name}\.py: .*{said}"):
        Mappings(tmp_path)


def test_a_folder_that_is_not_there_is_told_with_the_name_of_the_setting(tmp_path: Path) -> None:
    with (
        database("sqlite-apsw", tmp_path) as db,
        pytest.raises(ValueError, match=r"convert\.mappings: .*nowhere"),
        made(db, tmp_path, mappings=str(tmp_path / "nowhere")),
    ):
        pass


def test_each_that_comes_along_is_one_module_with_its_schema() -> None:
    known = Mappings()
    assert known.names == NAMES == ("layout", "text")
    for name in NAMES:
        assert callable(mapping(name).write)
        assert etree.XMLSchema(etree.fromstring(known.schema(name))) is not None
        assert known.about(name).endswith(".")
    for name in ("_frame", "titles", "../text"):
        with pytest.raises(KeyError):
            mapping(name)


def test_nothing_of_a_folder_stays_in_the_modules_of_python(folder: Path) -> None:
    before = set(sys.modules)
    Mappings(folder)
    assert not {name for name in set(sys.modules) - before if "titles" in name}
