"""The how-to is true: each of its code blocks runs as written."""

from __future__ import annotations

import inspect
import re
import time
from pathlib import Path

import pytest

from tidegate.testing import EventLog, VirtualClock

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "test-with-virtual-time.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_page_has_examples() -> None:
    assert len(BLOCKS) == 4


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_an_example_runs_as_written(block: str) -> None:
    names: dict[str, object] = {"__name__": "how_to"}
    started = time.perf_counter()

    exec(compile(block, PAGE.name, "exec"), names)
    tests = [each for name, each in names.items() if name.startswith("test_") and inspect.isfunction(each)]
    for test in tests:
        fixtures = {"virtual_clock": VirtualClock(), "tide_events": EventLog()}
        test(**{name: fixtures[name] for name in inspect.signature(test).parameters})

    assert time.perf_counter() - started < 60
