"""Who acts: the names that the program has for itself are nobody else's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tidegate
from tidegate.audit import SYSTEM_ACTORS, user_actor

# How a name of an actor is written where the program itself acts.
WRITTEN = re.compile(
    r'"actor": "(\w+)"|\bby: str = "(\w+)"|^_(?:WORKER|PROBER) = "(\w+)"|^AUTO = "(\w+)"|Principal\("(\w+)"'
    r'|Actor\("(\w+)"|fail_queued\(.*, "(\w+)"\)|_afresh\(.*, "(\w+)"\)',
    re.MULTILINE,
)


def test_every_name_under_which_the_program_acts_is_its_own() -> None:
    source = Path(tidegate.__file__).parent
    folders = (source, source.parent / "tidegate_apps")
    texts = [file.read_text("utf-8") for folder in folders for file in folder.rglob("*.py")]
    written = {name for text in texts for found in WRITTEN.findall(text) for name in found if name}

    assert {"auto", "worker", "probe", "local", "sweeper"} <= written
    assert written <= SYSTEM_ACTORS


@pytest.mark.parametrize(
    ("name", "shown"), [("ada", "ada"), ("auto", "user auto"), ("Worker", "user Worker"), ("autopilot", "autopilot")]
)
def test_a_person_never_has_such_a_name(name: str, shown: str) -> None:
    assert user_actor(name) == shown
