"""Every Python block of the README and the docs runs as written, one after the other, as a reader would run them.

- A block after the comment `<!-- not run: why -->` only shows a shape.
- A block with the language `output` shows what the Python block before it prints; the two are compared.
- A page may have a companion, `tests/unit/docs/companions/<path of the page, with _ for - and />.py`. Its function
  `check(page)` gets the names that the page defined, and asserts what the page does not show.
"""

from __future__ import annotations

import importlib.util
import inspect
import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.testing import EventLog, VirtualClock

ROOT = Path(__file__).parents[3]
FENCE = re.compile(
    r"(<!-- not run: [^>]+-->\s*)?^```python\n(.*?)^```(?:\s*^```output\n(.*?)^```)?", re.DOTALL | re.MULTILINE
)
OUTPUT = re.compile(r"^```output$", re.MULTILINE)
COMPANIONS = Path(__file__).parent / "companions"


class NotFoundAnswer:
    """An answer of a client, as a page about answers may assume one."""

    status_code, headers, content, url = 404, {"content-type": "text/plain"}, b"", "https://acme.test/art/7"


# What a page takes for granted that its reader has.
GIVEN: dict[str, dict[str, object]] = {"docs/how-to/write-a-rule-pack.md": {"response": NotFoundAnswer()}}

# Pages whose code is a whole program, and the tests that run it as one.
ELSEWHERE = {
    "docs/how-to/migrate-from-celery-huey-tenacity.md": "tests/acceptance/test_migrate.py",
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
        printed = io.StringIO()
        # The blocks keep their lines, so that a traceback points into the page.
        code = compile("\n" * text[: found.start(2)].count("\n") + found[2], "page", "exec", dont_inherit=True)
        with redirect_stdout(printed):
            exec(code, names)
        if found[3] is not None:
            assert printed.getvalue() == found[3], "the page shows another output"
        for name in set(names) - before:
            if name.startswith("test_") and inspect.isfunction(names[name]):
                fixtures = {"virtual_clock": VirtualClock(), "tide_events": EventLog(), "tmp_path": Path.cwd()}
                names[name](**{each: fixtures[each] for each in inspect.signature(names[name]).parameters})
        ran += 1
    return ran


def companion(page: str) -> Path:
    return COMPANIONS / f"{page.removeprefix('docs/').removesuffix('.md').replace('-', '_').replace('/', '_')}.py"


def run_companion(path: Path, names: dict[str, Any]) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.check(SimpleNamespace(**names))


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_a_page_that_is_run_elsewhere_is_run_there(page: str, test: str) -> None:
    assert page.rsplit("/", 1)[1] in (ROOT / test).read_text()


@pytest.mark.parametrize("page", sorted(set(pages()) - set(ELSEWHERE)))
def test_the_code_of_a_page_runs_as_written(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a page may write files
    text = (ROOT / page).read_text()
    names: dict[str, Any] = {"__name__": "page", **GIVEN.get(page, {})}
    assert run_blocks(text, names) > 0
    if companion(page).exists():
        run_companion(companion(page), names)


def test_every_companion_belongs_to_a_page_that_runs() -> None:
    belonging = {companion(page) for page in set(pages()) - set(ELSEWHERE)}

    assert {path for path in COMPANIONS.glob("*.py") if path.name != "__init__.py"} <= belonging


@pytest.mark.parametrize("page", sorted(set(pages()) - set(ELSEWHERE)))
def test_every_output_of_a_page_is_compared(page: str) -> None:
    text = (ROOT / page).read_text()

    assert len(OUTPUT.findall(text)) == sum(found[3] is not None and not found[1] for found in FENCE.finditer(text))


def test_an_output_that_differs_is_seen() -> None:
    page = "```python\nprint(1 + 1)\n```\n\n```output\n{}\n```\n"

    assert run_blocks(page.format(2), {}) == 1
    with pytest.raises(AssertionError, match="another output"):
        run_blocks(page.format(3), {})


def test_a_companion_gets_the_names_of_the_page(tmp_path: Path) -> None:
    path = tmp_path / "tutorial_sum.py"
    path.write_text("def check(page):\n    assert page.total == 2\n")

    run_companion(path, {"total": 2})
    with pytest.raises(AssertionError):
        run_companion(path, {"total": 3})


def test_a_block_that_fails_is_seen_and_one_that_is_not_run_is_not() -> None:
    with pytest.raises(ZeroDivisionError):
        run_blocks("```python\n1 / 0\n```\n", {})
    assert run_blocks("<!-- not run: a shape -->\n```python\n1 / 0\n```\n", {}) == 0
