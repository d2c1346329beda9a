"""Tests assert codes, states and numbers. Sentences of the product are compared in tests/wording alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate_apps.convert.codes import LINES
from tidegate_apps.convert.pages import BUSY

ROOT = Path(__file__).parents[3]
WORDS = 4  # in a row, as the product has them, are a sentence of it
SHOWN = frozenset({
    "get_by_text", "get_by_role", "get_by_label", "locator", "to_have_text", "to_contain_text", "to_have_attribute",
    "startswith", "endswith", "search", "match", "fullmatch", "findall", "names", "told",
})  # fmt: skip
# The requirements fix these texts, letter by letter.
FIXED = (*LINES.values(), BUSY)


def runs(text: str) -> Iterator[tuple[str, ...]]:
    """Each run of plain words with spaces between; markup, code and numbers end one."""
    plain = (re.sub(r"^[^\w-]+|\W+$", "", each) for each in re.sub(r"<[^>]*>", " 0 ", text).split())
    found = [each if each.replace("\u2019", "").isalpha() else "" for each in plain]
    return (tuple(run) for n in range(len(found) - WORDS + 1) if all(run := found[n : n + WORDS]))


def product(root: Path) -> set[tuple[str, ...]]:
    """Each run of words in what the product may say: its texts, its templates and its scripts."""
    files = [each for kind in ("html", "js") for each in root.rglob(f"*.{kind}") if "vendor" not in each.parts]
    said = {run for each in files for run in runs(each.read_text("utf-8"))}
    for each in root.rglob("*.py"):
        if "simulator" not in str(each):  # those speak as other services do
            tree = ast.parse(each.read_text("utf-8"))
            said |= {run for _, text in strings(tree) if not is_sql(text) for run in runs(text)}
    return said


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the text of each literal; a formatted one is in one piece."""
    if isinstance(tree, ast.JoinedStr):
        parts = (each.value if isinstance(each, ast.Constant) else " 0 " for each in tree.values)
        yield tree.lineno, "".join(map(str, parts))
    elif isinstance(tree, ast.Constant):
        if isinstance(tree.value, str):
            yield tree.lineno, tree.value
    elif not (isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Constant)):  # which is a docstring
        for each in ast.iter_child_nodes(tree):
            yield from strings(each)


def is_sql(text: str) -> bool:
    return re.match(r"\s*(--|select|insert|update|delete|create|with) ", text) is not None


def asserted(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The literals of assert statements, of patterns of errors, and of what a page is asked for."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Assert):
            yield from strings(each.test)
        elif isinstance(each, ast.Call):
            called = each.func.attr if isinstance(each.func, ast.Attribute) else getattr(each.func, "id", "")
            if called in SHOWN:
                yield from strings(each)
            for keyword in each.keywords:
                if keyword.arg == "match":
                    yield from strings(keyword.value)


def sentences(tree: ast.AST, said: set[tuple[str, ...]]) -> set[tuple[int, str]]:
    fixed = {run for each in FIXED for run in runs(each)}
    texts = ((line, text) for line, text in asserted(tree) if not is_sql(text))
    return {(line, text) for line, text in texts if not said.isdisjoint({*runs(text)} - fixed)}


@pytest.mark.parametrize(
    ("code", "n"),
    [
        ("assert told == 'The sea is calm today.'", 1),
        ("assert f'{name}: the sea is calm' in told", 1),
        ("with pytest.raises(ValueError, match='sea is calm today'): pass", 1),
        ("expect(page.locator('#said')).to_contain_text('The sea is calm today')", 1),
        ("assert told == 'calm'", 0),
        ("send('The sea is calm today.')", 0),
    ],
)
def test_a_sentence_of_the_product_is_found_where_it_is_asserted(code: str, n: int) -> None:
    assert len(sentences(ast.parse(code), {*runs("The sea is calm today."), *runs("the sea is calm")})) == n


@pytest.mark.full
def test_no_test_asserts_a_sentence_of_the_product() -> None:
    said = product(ROOT / "src")
    found = [
        f"{file.relative_to(ROOT)}:{line}: {text}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        if "wording" not in file.parts and file != Path(__file__)
        for line, text in sorted(sentences(ast.parse(file.read_text("utf-8")), said))
    ]
    assert found == [], "assert a code, a state or a number; the texts are in tests/wording"
