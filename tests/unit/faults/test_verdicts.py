"""Every field of a verdict: the code, what decided, the status, the wait and the words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.faults.failing import AppError, StatusError, chained, verdict
from tidegate.errors import Held
from tidegate.faults.classification import classify, said_status, status_code
from tidegate.faults.evidence import Evidence
from tidegate.faults.exceptions import ExceptionKind
from tidegate.faults.fault import Fault, Reach
from tidegate.faults.rule import Pack, Rule

DATE, LATER = "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:50:37 GMT"
NOW = 784111777.0  # DATE
PACK = Pack("acme", [Rule(name="busy", code="overloaded", status=503, reach=Reach.OPERATION)])


def answer(status: int, body: object = b"", **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return SimpleNamespace(status_code=status, content=body, headers=named)


def fault_of(what: object, rules: Any = None, now: float | None = None) -> Fault:
    fault = classify(what, rules, now=now)
    assert fault is not None
    return fault


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (100, "unexpected"), (199, "unexpected"), (200, None), (299, None), (300, "redirected"), (304, None),
        (399, "redirected"), (400, "bad_request"), (401, "unauthorized"), (402, "quota_exhausted"),
        (403, "forbidden"), (404, "not_found"), (405, "bad_request"), (407, "misconfigured"), (408, "timeout"),
        (409, "conflict"), (410, "gone"), (425, "upstream_failure"), (429, "rate_limited"), (499, "bad_request"),
        (500, "upstream_failure"), (501, "not_supported"), (502, "upstream_failure"), (503, "overloaded"),
        (504, "upstream_failure"), (599, "upstream_failure"),
    ],
)  # fmt: skip
def test_a_bare_status_has_a_code_and_a_good_one_has_none(status: int, code: str | None) -> None:
    assert status_code(status) == code
    fault = classify(answer(status))
    assert (fault and (fault.code, fault.rule, fault.status)) == (code and (code, f"status:{status}", status))
    # A message about a good status is about something else.
    assert said_status(f"HTTP status {status}") == (status if code and status >= 300 else 0)


@pytest.mark.parametrize(
    ("seen", "code", "rule", "status"),
    [
        (Evidence(kind=ExceptionKind.TIMEOUT, status=503), "overloaded", "status:503", 503),
        (Evidence(kind=ExceptionKind.TIMEOUT, status=300), "redirected", "status:300", 300),
        (Evidence(kind=ExceptionKind.TIMEOUT, status=299), "timeout", "kind:timeout", 299),
        (Evidence(kind=ExceptionKind.TIMEOUT), "timeout", "kind:timeout", 0),
        (Evidence(kind=ExceptionKind.TIMEOUT, error=AppError("status 403")), "timeout", "kind:timeout", 0),
        (Evidence(error=AppError("status 403")), "forbidden", "text:403", 403),
        (Evidence(error=AppError("it said: slow down")), "rate_limited", "text:slow down", 0),
        (Evidence(error=AppError('<lfm><error code="9">, status 403')), "unauthorized", "text:lastfm-9", 403),
        (Evidence(error=KeyError("status 403")), "unexpected", "unknown", 0),
        (Evidence(error=KeyError("x"), status=403), "forbidden", "status:403", 403),
        (Evidence(error=KeyError("status 403"), kind=ExceptionKind.TIMEOUT), "timeout", "kind:timeout", 0),
        (Evidence(), "unexpected", "unknown", 0),
    ],
)
def test_a_status_decides_before_a_kind_and_that_before_words(
    seen: Evidence, code: str, rule: str, status: int
) -> None:
    fault = fault_of(seen)

    assert (fault.code, fault.rule, fault.status) == (code, rule, status)


def test_a_good_answer_and_nothing_at_all_are_no_fault() -> None:
    assert classify(None) is None
    assert classify(None, PACK) is None
    assert classify(Evidence(status=200)) is None
    assert classify(answer(404), [Rule(name="none", code=None, status=404)]) is None


@pytest.mark.parametrize("rules", [None, PACK], ids=["general", "pack"])
@pytest.mark.parametrize(
    ("headers", "now", "wait"),
    [
        ({"retry_after": "7"}, None, 7.0), ({"retry_after_ms": "1500"}, None, 1.5),
        ({"retry_after": "7", "retry_after_ms": "1500"}, None, 1.5), ({}, NOW, None),
        ({"retry_after": LATER, "date": DATE}, None, 60.0), ({"retry_after": LATER, "date": DATE}, NOW + 50, 60.0),
        ({"retry_after": LATER}, NOW, 60.0), ({"retry_after": LATER}, None, None), ({"retry_after": "x"}, NOW, None),
    ],
)  # fmt: skip
def test_the_wait_that_an_answer_asks_for_is_measured_by_its_own_date_and_then_by_ours(
    rules: Pack | None, headers: dict[str, str], now: float | None, wait: float | None
) -> None:
    fault = fault_of(answer(503, **headers), rules, now)

    assert fault.retry_after == wait
    assert fault.rule == ("status:503" if rules is None else "acme:busy")
    assert fault.reach is (Reach.TARGET if rules is None else Reach.OPERATION)


def test_headers_without_an_answer_ask_for_nothing() -> None:
    error = AppError("status 503")
    error.headers = {"retry-after": "7"}  # type: ignore[attr-defined]

    assert (verdict(error).status, verdict(error).retry_after) == (503, None)


@pytest.mark.parametrize(
    ("given", "wait"),
    [(60.0, 60.0), (0.0, 0.0), (60, None), (float("inf"), None), (float("nan"), None), ("60", None), (None, None)],
)
def test_a_shut_gate_asks_for_the_wait_it_knows(given: object, wait: float | None) -> None:
    class Shut(Held):
        retry_after = given  # type: ignore[assignment]

    shut = Shut("inner", None, "breaker", 0.0, None, None)

    assert verdict(shut).retry_after == wait
    assert (verdict(shut).code, verdict(shut).rule) == ("cancelled", "kind:held")


def test_the_longer_of_two_hints_to_wait_counts() -> None:
    def asked(after: float | None, **headers: str) -> float | None:
        rule = Rule(name="wait", code="rate_limited", status=429, after=lambda seen: after)
        return fault_of(answer(429, **headers), [rule]).retry_after

    assert (asked(5), asked(5, retry_after="9"), asked(5, retry_after="2")) == (5.0, 9.0, 5.0)
    assert (asked(0.5), asked(None), asked(None, retry_after="2")) == (0.5, None, 2.0)


@pytest.mark.parametrize(
    ("what", "detail"),
    [
        (answer(503, b"busy, token=abc"), "busy, token=***"),
        (answer(503, "b\u00fcsy"), "b\u00fcsy"),
        (answer(503, b"b\xffsy"), "b\ufffdsy"),
        (answer(503), ""),
        (5, ""),
        (SimpleNamespace(content=b"no answer"), ""),
        (AppError("no luck"), "AppError: no luck"),
        (AppError(), "AppError"),
        (StatusError(503, "busy"), "StatusError: busy"),
        (chained(AppError("above"), cause=StatusError(503, "below")), "AppError: above <- StatusError: below"),
        (chained(AppError(), cause=StatusError(503, "")), "AppError <- StatusError"),
        (chained(StatusError(200, "same"), cause=StatusError(503, "same")), "StatusError: same"),
        (chained(AppError("token=abc"), cause=StatusError(503, "key=abc")),
         "AppError: token=*** <- StatusError: key=***"),
        (AppError("x" * 999), "AppError: " + "x" * 489 + "\u2026"),
        (chained(AppError("x" * 900), cause=StatusError(503, "y" * 900)),
         "AppError: " + "x" * 237 + "\u2026 <- StatusError: " + "y" * 234 + "\u2026"),
        ("no luck", "RuntimeError: no luck"),
    ],
)  # fmt: skip
def test_the_detail_is_what_was_caught_and_what_tells_most(what: object, detail: str) -> None:
    fault = classify(what)

    assert fault is not None
    assert fault.detail == detail
    assert len(detail) <= 500


def test_a_rule_is_asked_first_and_never_about_what_is_our_own() -> None:
    every = Pack("all", [Rule(name="every", code="gone", test=lambda seen: True)])

    for what in (
        answer(404),
        AppError("boom"),
        TimeoutError("slow"),
        "no luck",
        chained(KeyError("x"), cause=TimeoutError()),
    ):
        assert (fault_of(what, every).code, fault_of(what, every).rule) == ("gone", "all:every")
    for what in (KeyError("x"), KeyboardInterrupt(), Held("a", None, "rate", 0.0, 1.0, 1.0)):
        assert fault_of(what, every).code in {"unexpected", "cancelled"}
    assert fault_of(Evidence(error=KeyError("x"), status=404), every).code == "gone"
    assert fault_of(Evidence(error=KeyError("x"), kind=ExceptionKind.TIMEOUT), every).code == "gone"
    assert fault_of(answer(404), iter(every.rules)).rule == "own:every"
    assert fault_of(answer(404), []).rule == "status:404"


class Unhashable(type):
    """A metaclass whose classes stand in no set and in no dict."""

    def __hash__(cls) -> int:
        raise TypeError("no hash")


@pytest.mark.parametrize("rules", [None, PACK])
def test_an_exception_whose_class_has_no_hash_gets_a_verdict_as_any_other(rules: Pack | None) -> None:
    odd = Unhashable("Odd", (Exception,), {})
    fault = classify(odd("boom"), rules)
    assert fault is not None
    assert fault.unclassified
