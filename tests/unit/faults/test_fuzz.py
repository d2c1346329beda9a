"""Whatever is thrown at it, `classify` gives one verdict, always the same one, and gives no secret away."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.unit.faults import strange
from tidegate.faults.classification import classify
from tidegate.faults.codes import CORE
from tidegate.faults.evidence import collect_evidence
from tidegate.faults.exceptions import CODE_OF_KIND
from tidegate.faults.fault import Fault
from tidegate.faults.heuristics import LASTFM_CODES, WORDS
from tidegate.faults.redaction import MAX_REDACTED
from tidegate.rules.lastfm import lastfm
from tidegate.rules.openai import openai
from tidegate.rules.spotify import spotify

PACKS = (lastfm, openai, spotify)
SAID = {word for _, words in WORDS for word in words} | {f"lastfm-{number}" for number in LASTFM_CODES}
FEW = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))


def check(what: Any) -> None:
    fault = classify(what)

    assert fault == classify(what)
    if fault is None:
        assert what is None or collect_evidence(what).status in {*range(200, 300), 304}
        return
    assert isinstance(fault, Fault)
    assert fault.retriable is not fault.fatal
    assert (fault.message, fault.advice) == (CORE[fault.code].message, CORE[fault.code].advice)
    assert (fault.reason, fault.reach, fault.level) == (
        CORE[fault.code].reason, CORE[fault.code].reach, CORE[fault.code].level,
    )  # fmt: skip
    assert known_rule(fault.rule)
    assert fault.status == 0 or 100 <= fault.status <= 599
    assert fault.retry_after is None or 0 < fault.retry_after < float("inf")
    assert len(fault.detail) <= MAX_REDACTED
    assert fault.detail.isprintable()
    assert strange.SECRET not in str(fault)
    for pack in PACKS:
        special = classify(what, pack, now=784111777.0)
        assert special == classify(what, pack, now=784111777.0)
        assert special is None or strange.SECRET not in str(special)


def known_rule(rule: str) -> bool:
    origin, _, which = rule.partition(":")
    match origin:
        case "status":
            return re.fullmatch("[1-5][0-9]{2}", which) is not None
        case "kind":
            return which in CODE_OF_KIND
        case "text":
            return which in SAID or re.fullmatch("[3-5][0-9]{2}", which) is not None
        case _:
            return rule == "unknown"


@pytest.mark.req("SYNC-01", "SYNC-02", "SYNC-03")
@FEW
@given(strange.errors)
def test_any_chain_of_exceptions_gets_one_verdict(error: BaseException) -> None:
    check(error)


@pytest.mark.req("SYNC-01")
@FEW
@given(strange.answers)
def test_any_answer_gets_one_verdict_or_is_good(answer: strange.Answer) -> None:
    check(answer)


@pytest.mark.req("SYNC-01", "SYNC-03")
@FEW
@given(strange.texts)
def test_any_message_gets_one_verdict(text: str) -> None:
    check(text)


@FEW
@given(strange.odd)
def test_any_object_at_all_gets_one_verdict(what: Any) -> None:
    check(what)


@pytest.mark.long
@pytest.mark.req("SYNC-01", "SYNC-02", "SYNC-03")
@pytest.mark.timeout(1800)
@MANY
@given(strange.anything)
def test_anything_gets_one_verdict_twenty_thousand_times(what: Any) -> None:
    check(what)


def test_nothing_is_no_failure() -> None:
    assert classify(None) is None


@pytest.mark.parametrize(
    "what",
    [object(), 503, b"timeout", TimeoutError, [], {"status": 503}, 1.5, True],
    ids=lambda what: type(what).__name__,
)
def test_an_object_that_is_neither_is_unknown(what: object) -> None:
    assert (fault := classify(what)) is not None
    assert (fault.code, fault.rule, fault.detail) == ("unexpected", "unknown", "")


def test_an_exception_whose_type_breaks_when_it_is_looked_at_is_still_judged() -> None:
    for error in (strange.Closed("x"), strange.Silent("x"), strange.NotEvenText("x"), strange.Broken("x")):
        assert (fault := classify(error)) is not None
        assert fault.code == "unexpected"
        assert fault.detail.startswith(type(error).__name__)


def test_an_object_that_lies_about_its_class_is_judged_wherever_it_stands() -> None:
    liar = strange.Liar()
    answer = strange.Answer(503, {"Retry-After": liar}, liar)
    error = strange.Carrier("no luck", liar)
    error.__dict__.update(response=liar, status=liar, headers=liar, reason=liar)

    assert [fault and fault.code for fault in map(classify, (liar, answer, error))] == [
        "unexpected", "overloaded", "unexpected",
    ]  # fmt: skip


def test_evidence_below_a_broken_exception_is_still_found() -> None:
    error = strange.Broken("no luck")
    error.__cause__ = ConnectionRefusedError(111, "no")

    assert (fault := classify(error)) is not None
    assert fault.rule == "kind:refused"
