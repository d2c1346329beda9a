"""What is refused is told in a whole sentence: the field, what was given, and what to give instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate import Backoff, Confirm, Cooldown, Rate
from tidegate.core.backoff import Add
from tidegate.core.checks import number, share, valid_code, valid_name, whole
from tidegate.core.codes import CORE, Code, CodeBook
from tidegate.core.duration import seconds
from tidegate.core.fault import Level, Reach, Reason
from tidegate.core.pack import Pack, pack_of
from tidegate.core.rule import Rule

NAME = "give 1 to 200 printable characters, no space at the ends"
DURATION = "give a number of seconds, a text such as '30s', '5m' or '1h30m', or a timedelta"
PACK = "give one, such as tidegate.rules.spotify, or a list of Rule"
PROBE = "cannot be called; give a function of the key, or None"
RULE_NAME = "a name has 1 to 64 letters, digits, dots, dashes and underscores"


def code(**given: Any) -> Code:
    row = {"name": "odd", "reason": Reason.TRANSIENT, "reach": Reach.TARGET, "level": Level.WARN}
    return Code(**{**row, "message": "It is odd.", "advice": "Wait.", **given})


def rule(**given: Any) -> Rule:
    return Rule(**{"name": "odd", "code": "gone", "status": 404, **given})


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: valid_name(5, field="name"), "name: 5 is no text"),
    (lambda: valid_name(" a", field="name"), f"name: ' a' is not allowed; {NAME}"),
    (lambda: valid_code("a b", field="code"), "code: 'a b' is no code; give 2 to 64 letters, digits and underscores"),
    (lambda: valid_code(None, field="code"), "code: None is no code; give 2 to 64 letters, digits and underscores"),
    (lambda: whole(0, field="n"), "n: 0 is not allowed; give a whole number from 1 to 1000000000"),
    (lambda: whole(10, field="n", least=2, most=9), "n: 10 is not allowed; give a whole number from 2 to 9"),
    (lambda: number("1", field="x", least=0, most=2.5), "x: '1' is not allowed; give a number from 0 to 2.5"),
    (lambda: share(0, field="part"), "part: 0 is not allowed; give a number above 0 and up to 1"),
    (lambda: seconds(None), f"duration: None is no duration; {DURATION}"),
    (lambda: seconds("soon", field="wait"), f"wait: 'soon' is no duration; {DURATION}"),
    (
        lambda: seconds(1, field="wait", least=1.5),
        "wait: 1 is not allowed; give 1.5 seconds or more, and finite (a hundred years)",
    ),
    (lambda: Pack("own", ["a rule"]), "pack 'own': 'a rule' is no Rule"),  # type: ignore[list-item]
    (lambda: pack_of("spotify", "api"), f"rules: 'spotify' is no pack of rules; {PACK}"),
    (lambda: pack_of(7, "api"), f"rules: 7 is no pack of rules; {PACK}"),
    (lambda: Confirm("gone", probe="ask"), f"Confirm.probe: 'ask' {PROBE}"),  # type: ignore[arg-type]
    (lambda: Backoff(5, cap=4), "Backoff.cap: 4 is below Backoff.base (5)"),
    (lambda: Backoff("x"), f"Backoff.base: 'x' is no duration; {DURATION}"),
    (lambda: Backoff(cap="x"), f"Backoff.cap: 'x' is no duration; {DURATION}"),
    (lambda: Backoff(factor=0.5), "Backoff.factor: 0.5 is not allowed; give a number from 1 to 1000"),
    (lambda: Backoff(factor=1001), "Backoff.factor: 1001 is not allowed; give a number from 1 to 1000"),
    (lambda: Backoff(jitter=1.5), "Backoff.jitter: 1.5 is not allowed; give a number from 0 to 1"),
    (lambda: Backoff(jitter=-0.5), "Backoff.jitter: -0.5 is not allowed; give a number from 0 to 1"),
    (Backoff.listed, "Backoff.listed: give at least one wait"),
    (lambda: Backoff.listed(1, "x"), f"Backoff.listed[1]: 'x' is no duration; {DURATION}"),
    (lambda: Backoff().delay(-1), "failures: -1 is below 0"),
    (lambda: Add(2, 1), "Add.hi: 1 is below Add.lo (2)"),
    (lambda: Add("x", 1), f"Add.lo: 'x' is no duration; {DURATION}"),
    (lambda: Add(1, "x"), f"Add.hi: 'x' is no duration; {DURATION}"),
    (lambda: Rate(0), "Rate.count: 0 is not allowed; give a number from 1e-06 to 1e+09"),
    (lambda: Rate(1, "x"), f"Rate.per: 'x' is no duration; {DURATION}"),
    (lambda: Rate(1, 0), "Rate.per: 0 is not allowed; give 0.001 seconds or more, and finite (a hundred years)"),
    (lambda: Rate(1, burst=0), "Rate.burst: 0 is not allowed; give a whole number from 1 to 1000000000"),
    (lambda: Cooldown({}), "Cooldown: give at least one code"),
    (
        lambda: Cooldown({"gone": 3}),  # type: ignore[dict-item]
        "Cooldown['gone']: 3 is not allowed; give (failures in a row, rest), as in (3, '48h')",
    ),
    (
        lambda: Cooldown({"gone": (0, "1h")}),
        "Cooldown['gone']: 0 is not allowed; give a whole number from 1 to 1000000000",
    ),
    (
        lambda: Cooldown({"gone": (1, 0)}),
        "Cooldown['gone']: 0 is not allowed; give 0.001 seconds or more, and finite (a hundred years)",
    ),
    (
        lambda: Cooldown({"gone": (1, "1h")}, same={"network": "timeout"}),
        "Cooldown.same: 'network' as 'timeout' is not allowed; give it as a code with a rest",
    ),
    (
        lambda: Cooldown({"gone": (1, "1h"), "network": (1, "1h")}, same={"network": "gone"}),
        "Cooldown.same: 'network' as 'gone' is not allowed; give it as a code with a rest",
    ),
    (
        lambda: Confirm("gone", good=True, becomes="network"),
        "Confirm.becomes: 'network' is not allowed with good; give one of them",
    ),
    (
        lambda: Confirm("gone", unless_worked=True, only_worked=True),
        "Confirm.only_worked: it is not allowed with unless_worked; give one of them",
    ),
    (lambda: Confirm("gone", times=0), "Confirm.times: 0 is not allowed; give a whole number from 1 to 1000000000"),
    (
        lambda: Confirm("gone", fewer_than=1),
        "Confirm.fewer_than: 1 is not allowed; give a whole number from 2 to 1000000000",
    ),
    (lambda: Confirm("gone", apart="x"), f"Confirm.apart: 'x' is no duration; {DURATION}"),
    (lambda: Confirm("gone", within="x"), f"Confirm.within: 'x' is no duration; {DURATION}"),
    (lambda: CodeBook([5]), "5 is no Code"),  # type: ignore[list-item]
    (lambda: CodeBook([code(name="a b")]), "code 'a b': a name has 2 to 64 letters, digits and underscores"),
    (lambda: CodeBook([code(), code()]), "code 'odd' stands twice in the book"),
    (
        lambda: CodeBook([code(message="Odd")]),
        "code 'odd': its message must be a whole sentence, with a full stop",
    ),
    (lambda: CodeBook([code(advice=" ")]), "code 'odd': its advice must be a whole sentence, with a full stop"),
    (lambda: CodeBook([code(reason=Reason.ITEM)]), "code 'odd': a fault of one item cannot reach target"),
    (
        lambda: CodeBook([code(reason=Reason.AUTH, reach=Reach.ITEM)]),
        "code 'odd': a refused credential cannot reach only item",
    ),
    (
        lambda: CodeBook([code(reason=Reason.AUTH, reach=Reach.SELF)]),
        "code 'odd': a refused credential cannot reach only self",
    ),
    (lambda: rule(name="a b"), f"rule 'a b': {RULE_NAME}"),
    (lambda: rule(status=None), "rule 'odd': give at least one condition, or it speaks of everything"),
    (lambda: rule(status=600), "rule 'odd': status 600 is not allowed; give 100 to 599, or 0 for none"),
    (lambda: rule(status=(404, 99)), "rule 'odd': status (404, 99) is not allowed; give 100 to 599, or 0 for none"),
    (lambda: rule(text="Gone"), "rule 'odd': 'Gone' never matches; give a lower-case fragment"),
    (lambda: Pack("a b", []), f"pack 'a b': {RULE_NAME}"),
    (lambda: Pack("a", [rule(), rule()]), "pack 'a': rule 'odd' stands twice"),
    (lambda: Pack("a", [], confirm=[Confirm("gone")] * 2), "pack 'a': Confirm 'gone' stands twice"),
    (lambda: Pack("a", [], confirm=[Confirm("odd")]), "pack 'a', Confirm: there is no code 'odd' in the book"),
    (lambda: Pack("a", [], codes=[CORE["gone"]]), "pack 'a': code 'gone' stands twice in the book"),
    (lambda: Pack("a", [rule(says="x")]), "pack 'a', rule 'odd': it has says=, but the pack has no function for that"),
    (lambda: Pack("a", [rule(code="odd")]), "pack 'a', rule 'odd': there is no code 'odd' in the book"),
    (lambda: Pack("a", [rule(reach=Reach.TARGET)]), "pack 'a', rule 'odd': a fault of one item cannot reach target"),
    (
        lambda: Pack("a", [rule(code="unauthorized", reach=Reach.SELF)]),
        "pack 'a', rule 'odd': a refused credential cannot reach only self",
    ),
]


@pytest.mark.parametrize(("wrong", "sentence"), REFUSED, ids=[sentence[:60] for _, sentence in REFUSED])
def test_what_is_refused_is_told_in_a_whole_sentence(wrong: Callable[[], object], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        wrong()
    assert str(refused.value) == sentence


def test_the_edges_of_what_is_allowed_are_allowed() -> None:
    assert (whole(1, field="n"), whole(10**9, field="n"), whole(2, field="n", least=2, most=2)) == (1, 10**9, 2)
    assert (number(0, field="x", least=0, most=1), number(1, field="x", least=0, most=1)) == (0.0, 1.0)
    assert (share(1, field="part"), share(1e-9, field="part")) == (1.0, 1e-9)
    assert valid_name("x" * 200, field="name") == "x" * 200
    assert valid_code("a" * 64, field="code") == "a" * 64
    assert seconds(36525 * 86400) == 36525 * 86400.0
    assert Backoff(5, cap=5, factor=1000, jitter=1).bound == 10.0
    assert Backoff(5, cap=5, factor=1, jitter=0).bound == 5.0
    assert Add(1, 1).at(0.5) == 1.0
    assert Rate(1, 0.001).spacing == 0.001
    assert len(CodeBook([code(reason=Reason.ITEM, reach=Reach.OPERATION), code(name="it", message="Is it? ")])) == 2
    assert rule(status=(100, 599, 0)).status == (100, 599, 0)
