"""The code book checks itself, and what is written about it is true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate.faults.classification import classify, status_code
from tidegate.faults.codes import CORE, Code, CodeBook
from tidegate.faults.exceptions import CODE_OF_KIND, STRENGTH, ExceptionKind
from tidegate.faults.fault import Level, Reach, Reason
from tidegate.faults.heuristics import WORDS

DOCS = Path(__file__).parents[3] / "docs"
BREAKER = {True: "failure", False: "success", None: "not counted"}


def tables(page: str) -> dict[str, list[list[str]]]:
    """The tables of a page by their first heading cell: rows of cells, without the code quotes."""
    found: dict[str, list[list[str]]] = {}
    rows: list[list[str]] | None = None
    for line in (DOCS / page).read_text().splitlines():
        if not line.startswith("|"):
            rows = None
            continue
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if rows is None:
            rows = found[cells[0]] = []
        elif not set(cells[0]) <= {"-"}:
            rows.append(cells)
    return found


def test_the_reference_lists_every_code_as_it_is() -> None:
    assert tables("reference/codes.md")["code"] == [
        [
            code.name, "fatal" if code.fatal else "retriable", code.reason, code.reach, code.level,
            BREAKER[code.counts_as_failure], code.message, code.advice,
        ]
        for code in CORE.values()
    ]  # fmt: skip


def test_the_explanation_lists_the_statuses_that_are_special() -> None:
    usual = {3: "redirected", 4: "bad_request", 5: "upstream_failure"}
    special = {status: status_code(status) for status in range(300, 600) if status_code(status) != usual[status // 100]}

    assert tables("explanation/classifying.md")["status"] == [
        [str(status), code or "a good answer"] for status, code in special.items()
    ]


def test_the_explanation_lists_every_kind_with_its_code() -> None:
    listed = {kind: code for kind, _, code in tables("explanation/classifying.md")["kind"]}

    assert listed == CODE_OF_KIND


def test_the_explanation_lists_the_words_in_their_order() -> None:
    assert tables("explanation/classifying.md")["code"] == [[code, ", ".join(words)] for code, words in WORDS]


def test_every_kind_has_a_code_of_the_book_and_a_strength() -> None:
    assert set(CODE_OF_KIND) == set(STRENGTH) == set(ExceptionKind)
    assert set(CODE_OF_KIND.values()) | {code for code, _ in WORDS} <= set(CORE)


# The general rows of what the services around us answer.
GENERAL = {
    (200, 201, 202, 204, 206, 226, 304): None,
    (301, 302, 303, 307, 308): "redirected",
    (400, 405, 406, 411, 413, 414, 415, 421, 422, 431, 451): "bad_request",
    (401,): "unauthorized",
    (402,): "quota_exhausted",
    (403,): "forbidden",
    (404,): "not_found",
    (408,): "timeout",
    (409,): "conflict",
    (410,): "gone",
    (425, 500, 502, 504, *range(520, 528)): "upstream_failure",
    (429,): "rate_limited",
    (501,): "not_supported",
    (503,): "overloaded",
}


class Answer:
    def __init__(self, status: int) -> None:
        self.status_code = status


@pytest.mark.req("SYNC-01", "FEED-02")
@pytest.mark.parametrize(("status", "code"), [(status, code) for found, code in GENERAL.items() for status in found])
def test_a_bare_status_means_the_same_everywhere(status: int, code: str | None) -> None:
    fault = classify(Answer(status))

    assert (fault and fault.code) == code


@pytest.mark.req("SYNC-01")
def test_every_code_is_either_retriable_or_fatal_and_unknown_is_retriable() -> None:
    for code in CORE.values():
        fault = code.fault("test")
        assert fault.retriable is not fault.fatal
        assert fault.fatal is code.reason.fatal is code.fatal
        assert fault.as_json()["class"] == ("fatal" if code.fatal else "retriable")
    assert CORE["unexpected"].fault("unknown").retriable


@pytest.mark.req("FEED-03")
def test_what_is_expected_of_the_outside_world_is_a_warning_and_the_unknown_an_error() -> None:
    expected = ("rate_limited", "forbidden", "not_found", "gone", "upstream_failure", "network", "parse_error")

    assert {CORE[name].level for name in expected} == {Level.WARN}
    assert CORE["unexpected"].level is Level.ERROR


@pytest.mark.parametrize("reason", [Reason.THROTTLED, Reason.AUTH, Reason.QUOTA, Reason.CONFIG, Reason.CANCELLED])
def test_no_code_that_is_not_the_service_being_ill_trips_a_breaker(reason: Reason) -> None:
    assert {code.counts_as_failure for code in CORE.values() if code.reason is reason} == {None}


def test_a_refused_item_proves_that_the_service_answers() -> None:
    assert {code.counts_as_failure for code in CORE.values() if code.reason is Reason.ITEM} == {False}


def a_code(**changes: Any) -> Code:
    given: dict[str, Any] = {
        "name": "my_code", "reason": Reason.ITEM, "reach": Reach.ITEM, "message": "It failed.", "advice": "Wait.",
    }  # fmt: skip
    return Code(**{**given, **changes})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "a"}, "2 to 64 letters"),
        ({"name": "has space"}, "2 to 64 letters"),
        ({"name": "x" * 65}, "2 to 64 letters"),
        ({"name": "gone"}, "stands twice"),
        ({"message": " "}, "message"),
        ({"advice": "no full stop"}, "advice"),
        ({"reach": Reach.TARGET}, "cannot reach target"),
        ({"reason": Reason.AUTH, "reach": Reach.SELF}, "cannot reach only self"),
    ],
)
def test_a_wrong_row_is_refused_and_named(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as raised:
        CORE.extend(a_code(**changes))

    assert repr(changes.get("name", "my_code")) in str(raised.value)


def test_a_larger_book_leaves_the_first_one_alone() -> None:
    book = CORE.extend(a_code())

    assert "my_code" in book
    assert "my_code" not in CORE
    assert len(book) == len(CORE) + 1


def test_only_codes_go_into_a_book() -> None:
    with pytest.raises(TypeError, match="is no Code"):
        CodeBook(["gone"])  # type: ignore[list-item]


def test_a_fault_is_equal_to_its_like_and_cannot_be_changed() -> None:
    fault = CORE["gone"].fault("status:410", status=410, detail="x")

    assert fault == CORE["gone"].fault("status:410", status=410, detail="x")
    assert hash(fault) == hash(CORE["gone"].fault("status:410", status=410, detail="x"))
    with pytest.raises(AttributeError):
        fault.code = "other"  # type: ignore[misc]
