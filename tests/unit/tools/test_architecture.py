"""The picture of the packages is drawn from the imports and the contract."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tools.architecture import COLUMNS, PICTURE, ROOT, contract, draw, imports_of_folders, rows

CONTRACT = """
[[tool.importlinter.contracts]]
type = "layers"
containers = ["tidegate"]
layers = ["web", "app", "jobs : queue", "guard | net", "faults"]
ignore_imports = ["tidegate.guard.target -> tidegate.jobs.*"]
"""
SOURCE = {
    "web/__init__.py": "from tidegate import app\nfrom tidegate.faults import fault\n",
    "app.py": "from tidegate.jobs import worker\n",
    "jobs/__init__.py": "",
    "jobs/worker.py": "def run():\n    from tidegate.guard import target\n",
    "guard/__init__.py": "",
    "guard/target.py": "from tidegate.faults import fault\nfrom tidegate.jobs import worker\n",
    "faults/__init__.py": "",
    "faults/fault.py": "",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(CONTRACT)
    for name, text in {"__init__.py": "", **SOURCE}.items():
        path = tmp_path / "src" / "tidegate" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_imports_lead_through_modules_and_leave_out_what_follows_or_is_ignored(root: Path) -> None:
    assert imports_of_folders(root) == {"web": {"jobs"}, "jobs": {"guard"}, "guard": {"faults"}, "faults": set()}


def test_the_rows_are_the_layers_with_folders(root: Path) -> None:
    layers = contract(root)["layers"]

    assert rows(layers, {"web", "jobs", "guard", "net", "faults"}) == [["web"], ["jobs"], ["guard", "net"], ["faults"]]


@pytest.mark.full  # reads all of src; the picture below changes with it
def test_every_folder_has_one_column_and_every_line_leads_down() -> None:
    edges = imports_of_folders(ROOT)
    layers = rows(contract(ROOT)["layers"], set(edges))
    row_of = {name: number for number, names in enumerate(layers) for name in names}

    assert Counter(name for names in COLUMNS.values() for name in names) == Counter(list(edges))
    assert [(name, to) for name in edges for to in edges[name] if row_of[name] >= row_of[to]] == []


@pytest.mark.full
def test_no_box_hides_another() -> None:
    places = re.findall(r'<rect class="box[^"]*" (x="\d+" y="\d+")', draw())

    assert len(places) == len(set(places)) == len(imports_of_folders(ROOT))


def test_the_picture_is_the_one_that_the_command_draws() -> None:
    drawn = (ROOT / PICTURE).read_text(encoding="utf-8")

    assert drawn == draw(), "run: .venv/bin/python -m tools.architecture"
