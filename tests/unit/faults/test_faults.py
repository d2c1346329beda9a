"""Faults, codes and notices as values: every field, every default, and what is told of them."""

from __future__ import annotations

import itertools
import logging

import pytest

from tidegate.events import Event, EventKind, Notice, NoticeKind
from tidegate.faults.codes import CORE, Code, CodeBook
from tidegate.faults.fault import Fault, Level, Reach, Reason, breaker_verdict, fault_from
from tidegate.faults.redaction import fingerprint, normalise

ROW = Code(name="odd", reason=Reason.CONFIG, reach=Reach.TARGET, level=Level.INFO, message="It is odd.", advice="Wait!")


def test_a_fault_of_a_row_has_everything_of_the_row_and_nothing_of_its_own() -> None:
    assert ROW.fault("odd:rule") == Fault(
        code="odd", reason=Reason.CONFIG, reach=Reach.TARGET, level=Level.INFO, message="It is odd.", advice="Wait!",
        rule="odd:rule", status=0, retry_after=None, detail="",
    )  # fmt: skip


def test_a_fault_has_what_was_seen_beside_what_the_row_says() -> None:
    seen = ROW.fault("r", reach=Reach.ITEM, status=418, retry_after=2.5, detail="hot")
    assert seen == fault_from(ROW, "r", Reach.ITEM, 418, 2.5, "hot")
    assert (seen.reach, seen.status, seen.retry_after, seen.detail) == (Reach.ITEM, 418, 2.5, "hot")
    assert fault_from(ROW, "r", None, 0, None, "").reach is Reach.TARGET


def test_a_fault_as_json_has_these_fields_and_no_detail() -> None:
    seen = ROW.fault("odd:rule", status=418, retry_after=2.5, detail="for the log alone")
    assert seen.as_json() == {
        "code": "odd", "class": "fatal", "reason": "config", "reach": "target", "level": "INFO", "status": 418,
        "retry_after": 2.5, "message": "It is odd.", "advice": "Wait!", "rule": "odd:rule",
    }  # fmt: skip
    found = seen.as_json()
    assert {type(found[each]) for each in ("reason", "reach", "level")} == {str}
    assert CORE["network"].fault("x").as_json()["class"] == "retriable"


def test_only_what_no_rule_knew_is_unclassified() -> None:
    assert [CORE["unexpected"].fault(rule).unclassified for rule in ("unknown", "kind:tls", "")] == [True, False, False]


def test_the_reasons_that_going_again_cannot_help_are_fatal() -> None:
    assert [reason.value for reason in Reason if reason.fatal] == ["auth", "quota", "config", "contract", "item"]
    for reason in Reason:
        made = Code(name="odd", reason=reason, reach=Reach.OPERATION, message="Odd.", advice="Odd.")
        assert (made.fatal, made.fault("x").fatal, made.fault("x").retriable) == (
            reason.fatal,
            reason.fatal,
            not reason.fatal,
        )


@pytest.mark.parametrize(("reason", "reach"), list(itertools.product(Reason, Reach)))
def test_a_breaker_counts_what_shows_that_the_service_is_ill_or_that_it_answers(reason: Reason, reach: Reach) -> None:
    ill = {"transient": True, "overloaded": True, "contract": True, "item": False}
    verdict = None if reach == "self" else ill.get(reason)
    made = Code(name="odd", reason=reason, reach=reach, message="Odd.", advice="Odd.")
    assert breaker_verdict(reason, reach) is verdict
    assert made.counts_as_failure is verdict
    assert made.fault("x").counts_as_failure is verdict


def test_a_fault_spreads_further_from_the_item_to_the_machine() -> None:
    assert [(reach.value, reach.rank) for reach in Reach] == [
        ("item", 0), ("operation", 1), ("credential", 2), ("target", 3), ("self", 4),
    ]  # fmt: skip


def test_the_levels_are_those_of_the_standard_library() -> None:
    assert {level.value: level.number for level in Level} == {
        "DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING, "ERROR": logging.ERROR,
    }  # fmt: skip
    assert Code(name="odd", reason=Reason.ITEM, reach=Reach.ITEM, message="Odd.", advice="Odd.").level is Level.WARN


def test_a_book_is_a_mapping_of_its_codes_in_their_order() -> None:
    other = Code(name="b" * 64, reason=Reason.AUTH, reach=Reach.CREDENTIAL, message="Is it? ", advice="Go!\n")
    book = CodeBook([ROW]).extend(other)
    assert (list(book), len(book), book["odd"], book["b" * 64]) == (["odd", "b" * 64], 2, ROW, other)
    assert repr(book) == "<CodeBook of 2 codes>"
    assert "even" not in book
    with pytest.raises(KeyError):
        book["even"]


@pytest.mark.parametrize(
    ("reason", "reach"),
    [
        (Reason.ITEM, Reach.ITEM), (Reason.ITEM, Reach.OPERATION), (Reason.AUTH, Reach.OPERATION),
        (Reason.AUTH, Reach.TARGET), (Reason.TRANSIENT, Reach.SELF), (Reason.CONFIG, Reach.ITEM),
    ],
)  # fmt: skip
def test_a_row_may_reach_as_far_as_its_reason_does(reason: Reason, reach: Reach) -> None:
    row = Code(name="o1", reason=reason, reach=reach, message="Odd.", advice="Odd.")
    assert CodeBook([row])["o1"] is row


def test_a_fingerprint_is_the_same_today_and_tomorrow() -> None:
    assert fingerprint("spotify", "not_found", "no album 5") == "5cceb5bb2c3669e7"
    assert fingerprint("é", "gone", "\ud800") == "0c34e306c51be6a8"


@pytest.mark.parametrize(
    ("message", "left"),
    [
        ("  job 17 took\t3.5 s ", "job … took … s"),
        ("a 'b' «c» “d” \"e\"", "a … … … …"),
        (" " * 799 + "ab", "a"),
        ("x" * 300, "x" * 200),
        ("GET https://a.example/x failed", "GET … failed"),
        ("cannot open /srv/a: gone", "cannot open …: gone"),
        ("DEADBEEF0123 at 0xFF", "… at …"),
        ("it said HTTP 503 to job 503 (HTTP 404).", "it said HTTP 503 to job … (HTTP 404)."),
        ("HTTP 5030 is none", "HTTP … is none"),
    ],
)
def test_what_varies_is_an_ellipsis_and_the_rest_stays(message: str, left: str) -> None:
    assert normalise(message) == left


def test_every_kind_of_notice_has_its_icon() -> None:
    icons = {
        kind.value: Notice(kind=kind, target="api", episode=1.0, title="T", message="M").icon for kind in NoticeKind
    }
    assert icons == {
        "fatal": "error", "cap": "warning", "disabled": "warning", "recovered": "success", "own_link": "warning",
        "clock": "warning",
    }  # fmt: skip


def test_an_event_says_nothing_that_it_was_not_given() -> None:
    event = Event(kind=EventKind.TARGET_PAUSED, at=1.0, target="api")
    assert (event.key, event.operation, event.user, event.fault, event.notice, event.fields) == (None,) * 5 + ({},)
    notice = Notice(kind=NoticeKind.CAP, target="api", episode=1.0, title="T", message="M")
    assert (notice.key, notice.operation, notice.advice, notice.code) == (None, None, "", "")
