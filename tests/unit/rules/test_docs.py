"""The pages about rule packs say what the packs do."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.rules.case import answer, verdict_of
from tidegate.faults.classification import classify
from tidegate.rules import PACKS
from tools import rule_packs

DOCS = Path(__file__).parents[3] / "docs"
FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def examples() -> dict[str, Any]:
    """What the how-to's examples define, run one after the other as a reader would."""
    names: dict[str, Any] = {"response": answer(404, b"", "https://acme.test/art/7")}
    for code in FENCE.findall((DOCS / "how-to" / "write-a-rule-pack.md").read_text()):
        exec(code, names)
    return names


def test_the_reference_lists_every_rule_as_it_is() -> None:
    reference = DOCS / "reference" / "rule-packs.md"
    if os.environ.get("UPDATE_DOCS"):
        reference.write_text(rule_packs.page())

    assert reference.read_text() == rule_packs.page(), "run the tests with UPDATE_DOCS=1 to write the page anew"


def test_every_function_of_a_rule_says_in_its_first_line_when_it_holds() -> None:
    for pack in PACKS:
        for rule in pack.rules:
            for function in (rule.test, rule.after):
                assert function is None or (function.__doc__ or "").strip(), f"{pack.name}:{rule.name}"


@pytest.mark.req("SYNC-04")
@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (404, "", "good"),
        (429, {"error": {"code": "insufficient_quota"}}, "fatal/quota/target"),
        (429, "", "retriable/throttled/target"),
        (200, "Closed for inventory", "retriable/overloaded/target"),
        (200, {"art": []}, "good"),
    ],
)
def test_the_example_of_the_how_to_works_as_written(status: int, body: object, verdict: str) -> None:
    assert verdict_of(classify(answer(status, body, "https://acme.test/art/7"), examples()["acme"])) == verdict


def test_the_example_with_a_number_of_its_own_works_as_written() -> None:
    radio = examples()["radio"]

    assert verdict_of(classify(answer(200, {"error": 10}), radio)) == "fatal/config/target"
    assert verdict_of(classify(answer(200, {"error": 16}), radio)) == "retriable/transient/target"
    assert verdict_of(classify(answer(200, {"error": 99}), radio)) == "retriable/transient/target"
    assert verdict_of(classify(answer(200, {"tracks": []}), radio)) == "good"
    assert verdict_of(classify(answer(200, b'{"error"'), radio)) == "good"


def test_the_how_to_says_what_the_example_is_worth() -> None:
    names = examples()

    assert names["fault"] is None
    assert names["careful"].confirm[0].code == "unauthorized"
