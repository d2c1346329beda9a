"""What is refused names the field and what was given; the sentences are in the catalogue of wording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate import Backoff, Cooldown, Rate
from tidegate.durations import seconds
from tidegate.faults import Confirm
from tidegate.faults.codes import CORE, Code, CodeBook
from tidegate.faults.fault import Level, Reach, Reason
from tidegate.faults.rule import Pack, Rule, pack_of
from tidegate.guard.backoff import Add
from tidegate.validation import number, share, valid_code, valid_name, whole


def code(**given: Any) -> Code:
    row = {"name": "odd", "reason": Reason.TRANSIENT, "reach": Reach.TARGET, "level": Level.WARN}
    return Code(**{**row, "message": "It is odd.", "advice": "Wait.", **given})


def rule(**given: Any) -> Rule:
    return Rule(**{"name": "odd", "code": "gone", "status": 404, **given})


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: valid_name(5, field="name"), "name: 5"),
    (lambda: valid_name(" a", field="name"), "name: ' a'"),
    (lambda: valid_code("a b", field="code"), "code: 'a b'"),
    (lambda: valid_code(None, field="code"), "code: None"),
    (lambda: whole(0, field="n"), "n: 0"),
    (lambda: whole(10, field="n", minimum=2, maximum=9), "n: 10"),
    (lambda: number("1", field="x", minimum=0, maximum=2.5), "x: '1'"),
    (lambda: share(0, field="part"), "part: 0"),
    (lambda: seconds(None), "duration: None"),
    (lambda: seconds("soon", field="wait"), "wait: 'soon'"),
    (
        lambda: seconds(1, field="wait", minimum=1.5),
        "wait: 1",
    ),
    (lambda: Pack("own", ["a rule"]), "pack 'own': 'a rule'"),  # type: ignore[list-item]
    (lambda: pack_of("spotify", "api"), "rules: 'spotify'"),
    (lambda: pack_of(7, "api"), "rules: 7"),
    (lambda: Confirm("gone", probe="ask"), "Confirm.probe: 'ask'"),  # type: ignore[arg-type]
    (lambda: Backoff(5, cap=4), "Backoff.cap: 4"),
    (lambda: Backoff("x"), "Backoff.base: 'x'"),
    (lambda: Backoff(cap="x"), "Backoff.cap: 'x'"),
    (lambda: Backoff(factor=0.5), "Backoff.factor: 0.5"),
    (lambda: Backoff(factor=1001), "Backoff.factor: 1001"),
    (lambda: Backoff(jitter=1.5), "Backoff.jitter: 1.5"),
    (lambda: Backoff(jitter=-0.5), "Backoff.jitter: -0.5"),
    (Backoff.listed, "Backoff.listed:"),
    (lambda: Backoff.listed(1, "x"), "Backoff.listed[1]: 'x'"),
    (lambda: Backoff().delay(-1), "failures: -1"),
    (lambda: Add(2, 1), "Add.hi: 1"),
    (lambda: Add("x", 1), "Add.lo: 'x'"),
    (lambda: Add(1, "x"), "Add.hi: 'x'"),
    (lambda: Rate(0), "Rate.count: 0"),
    (lambda: Rate(1, "x"), "Rate.per: 'x'"),
    (lambda: Rate(1, 0), "Rate.per: 0"),
    (lambda: Rate(1, burst=0), "Rate.burst: 0"),
    (lambda: Cooldown({}), "Cooldown:"),
    (
        lambda: Cooldown({"gone": 3}),  # type: ignore[dict-item]
        "Cooldown['gone']: 3",
    ),
    (
        lambda: Cooldown({"gone": (0, "1h")}),
        "Cooldown['gone']: 0",
    ),
    (
        lambda: Cooldown({"gone": (1, 0)}),
        "Cooldown['gone']: 0",
    ),
    (
        lambda: Cooldown({"gone": (1, "1h")}, same={"network": "timeout"}),
        "Cooldown.same: 'network'",
    ),
    (
        lambda: Cooldown({"gone": (1, "1h"), "network": (1, "1h")}, same={"network": "gone"}),
        "Cooldown.same: 'network'",
    ),
    (
        lambda: Confirm("gone", good=True, becomes="network"),
        "Confirm.becomes: 'network'",
    ),
    (
        lambda: Confirm("gone", unless_worked=True, only_worked=True),
        "Confirm.only_worked:",
    ),
    (lambda: Confirm("gone", times=0), "Confirm.times: 0"),
    (
        lambda: Confirm("gone", fewer_than=1),
        "Confirm.fewer_than: 1",
    ),
    (lambda: Confirm("gone", apart="x"), "Confirm.apart: 'x'"),
    (lambda: Confirm("gone", within="x"), "Confirm.within: 'x'"),
    (lambda: CodeBook([5]), "5 "),  # type: ignore[list-item]
    (lambda: CodeBook([code(name="a b")]), "code 'a b':"),
    (lambda: CodeBook([code(), code()]), "code 'odd'"),
    (
        lambda: CodeBook([code(message="Odd")]),
        "code 'odd':",
    ),
    (lambda: CodeBook([code(advice=" ")]), "code 'odd':"),
    (lambda: CodeBook([code(reason=Reason.ITEM)]), "code 'odd':"),
    (
        lambda: CodeBook([code(reason=Reason.AUTH, reach=Reach.ITEM)]),
        "code 'odd':",
    ),
    (
        lambda: CodeBook([code(reason=Reason.AUTH, reach=Reach.SELF)]),
        "code 'odd':",
    ),
    (lambda: rule(name="a b"), "rule 'a b':"),
    (lambda: rule(status=None), "rule 'odd':"),
    (lambda: rule(status=600), "rule 'odd':"),
    (lambda: rule(status=(404, 99)), "rule 'odd':"),
    (lambda: rule(text="Gone"), "rule 'odd': 'Gone'"),
    (lambda: Pack("a b", []), "pack 'a b':"),
    (lambda: Pack("a", [rule(), rule()]), "pack 'a':"),
    (lambda: Pack("a", [], confirm=[Confirm("gone")] * 2), "pack 'a':"),
    (lambda: Pack("a", [], confirm=[Confirm("odd")]), "pack 'a', Confirm:"),
    (lambda: Pack("a", [], codes=[CORE["gone"]]), "pack 'a':"),
    (lambda: Pack("a", [rule(says="x")]), "pack 'a', rule 'odd':"),
    (lambda: Pack("a", [rule(code="odd")]), "pack 'a', rule 'odd':"),
    (lambda: Pack("a", [rule(reach=Reach.TARGET)]), "pack 'a', rule 'odd':"),
    (
        lambda: Pack("a", [rule(code="unauthorized", reach=Reach.SELF)]),
        "pack 'a', rule 'odd':",
    ),
]


@pytest.mark.parametrize(("wrong", "names"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_names_its_field_and_what_was_given(wrong: Callable[[], object], names: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        wrong()
    field, _, given = names.rstrip(": ").partition(": ")
    assert str(refused.value).startswith(field)
    assert given in str(refused.value).removeprefix(field)


def test_the_edges_of_what_is_allowed_are_allowed() -> None:
    assert (whole(1, field="n"), whole(10**9, field="n"), whole(2, field="n", minimum=2, maximum=2)) == (1, 10**9, 2)
    assert (number(0, field="x", minimum=0, maximum=1), number(1, field="x", minimum=0, maximum=1)) == (0.0, 1.0)
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
