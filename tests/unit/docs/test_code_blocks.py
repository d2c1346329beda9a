"""Every Python block of the README and the docs runs as written, one after the other, as a reader would run them.

A block that only shows a shape stands after the comment `<!-- not run: why -->`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.testing import EventLog, VirtualClock

ROOT = Path(__file__).parents[3]
FENCE = re.compile(r"(<!-- not run: [^>]+-->\s*)?^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


class NotFoundAnswer:
    """An answer of a client, as a page about answers may assume one."""

    status_code, headers, content, url = 404, {"content-type": "text/plain"}, b"", "https://acme.test/art/7"


# What a page takes for granted that its reader has.
GIVEN: dict[str, dict[str, object]] = {"docs/how-to/write-a-rule-pack.md": {"response": NotFoundAnswer()}}

# Pages whose code is a whole program, and the tests that run it as one.
ELSEWHERE = {
    "docs/explanation/side-by-side.md": "tests/acceptance/test_side_by_side.py",
    "docs/how-to/use-in-celery.md": "tests/acceptance/test_in_celery.py",
    "docs/how-to/use-in-fastapi.md": "tests/acceptance/test_in_fastapi.py",
    "docs/how-to/write-an-application.md": "tests/acceptance/test_application.py",
    "docs/tutorial/first-page.md": "tests/acceptance/test_first_page.py",
}


def pages() -> Iterator[str]:
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if path.exists() and FENCE.search(path.read_text()):
            yield str(path.relative_to(ROOT))


def run_blocks(text: str, names: dict[str, Any]) -> int:
    """Runs the blocks of a page in one namespace, and the tests that they define; returns how many there were."""
    ran = 0
    for found in FENCE.finditer(text):
        if found[1]:
            continue
        before = set(names)
        # The blocks keep their lines, so that a traceback points into the page.
        exec(compile("\n" * text[: found.start(2)].count("\n") + found[2], "page", "exec", dont_inherit=True), names)
        for name in set(names) - before:
            if name.startswith("test_") and inspect.isfunction(names[name]):
                fixtures = {"virtual_clock": VirtualClock(), "tide_events": EventLog(), "tmp_path": Path.cwd()}
                names[name](**{each: fixtures[each] for each in inspect.signature(names[name]).parameters})
        ran += 1
    return ran


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_a_page_that_is_run_elsewhere_is_run_there(page: str, test: str) -> None:
    assert page.rsplit("/", 1)[1] in (ROOT / test).read_text()


@pytest.mark.parametrize("page", sorted(set(pages()) - set(ELSEWHERE)))
def test_the_code_of_a_page_runs_as_written(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a page may write files
    text = (ROOT / page).read_text()
    assert run_blocks(text, {"__name__": "page", **GIVEN.get(page, {})}) > 0


def test_a_block_that_fails_is_seen_and_one_that_is_not_run_is_not() -> None:
    with pytest.raises(ZeroDivisionError):
        run_blocks("```python\n1 / 0\n```\n", {})
    assert run_blocks("<!-- not run: a shape -->\n```python\n1 / 0\n```\n", {}) == 0
