"""Compares what the product says with the wording that is committed, one file per surface.

`UPDATE_WORDING=1 .venv/bin/python -m pytest tests/wording` writes the files; read the diff before you commit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

_FOLDER = Path(__file__).parent
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?( UTC|Z)?|\b\d\d:\d\d UTC")
_PLACE = re.compile(r"0x[0-9a-f]+|(?<=from ')/\S*")
_SPAN = re.compile(r"\b\d+ (?:s|min|h|days?)\b(?: \d+ (?:s|min|h)\b)*")


def compare(surface: str, found: Mapping[str, str]) -> None:
    """Fails with every key whose text differs from the file of this surface."""
    file = _FOLDER / f"{surface}.txt"
    blocks = {key: _block(key, text) for key, text in found.items()}
    if os.environ.get("UPDATE_WORDING"):
        file.write_text("".join(blocks[key] for key in sorted(blocks)), "utf-8")
    known = _read(file)
    differ = [key for key in sorted(blocks.keys() | known.keys()) if blocks.get(key) != known.get(key)]
    shown = "".join(f"- {known.get(key, '(nothing)')}+ {blocks.get(key, '(nothing)')}" for key in differ)
    assert not differ, f"{file.name} differs for {', '.join(differ)}; UPDATE_WORDING=1 writes it\n{shown}"


def timeless(text: str) -> str:
    """Without moments and spans, for what is said by the clock of the machine."""
    return _SPAN.sub("<span>", _TIME.sub("<time>", text))


def without_places(text: str) -> str:
    """Without the places of objects in memory and of files."""
    return _PLACE.sub("…", text)


def _block(key: str, text: str) -> str:
    lines = [line.rstrip() for line in text.strip("\n").split("\n")]
    if len(lines) == 1:
        return f"{key}: {lines[0]}\n"
    return f"{key}:\n" + "".join(f"    {line}".rstrip() + "\n" for line in lines)


def _read(file: Path) -> dict[str, str]:
    blocks: dict[str, str] = {}
    key = ""
    for line in file.read_text("utf-8").splitlines(keepends=True) if file.exists() else ():
        if line[0] not in " \n":
            key = line.partition(": ")[0].rstrip("\n:")
        blocks[key] = blocks.get(key, "") + line
    return blocks
