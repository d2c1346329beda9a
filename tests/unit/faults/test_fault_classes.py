"""`faults=`: codes of classes of exceptions, those of the target before those of its pack."""

from __future__ import annotations

import asyncio

import pytest

from tidegate import Held, classify
from tidegate.errors import BreakerOpen
from tidegate.faults.rule import Faults, Pack, pack_of


def verdict(error: BaseException, faults: Faults, of_pack: Faults | None = None) -> tuple[str, bool]:
    fault = classify(error, pack_of(Pack("svc", (), faults=of_pack), "svc", faults))
    assert fault is not None
    return fault.code, fault.own_bug


def test_the_target_is_asked_before_its_pack() -> None:
    assert verdict(KeyError("x"), {KeyError: "bad_answer"}, {KeyError: None}) == ("bad_answer", False)
    assert verdict(KeyError("x"), {LookupError: "bad_answer"}, {KeyError: None}) == ("bad_answer", False)
    assert verdict(KeyError("x"), {ValueError: "bad_answer"}, {KeyError: None}) == ("unexpected", True)


@pytest.mark.parametrize(
    "faults", [{LookupError: "bad_answer", KeyError: None}, {KeyError: None, LookupError: "bad_answer"}]
)
def test_the_most_specific_class_decides(faults: Faults) -> None:
    assert verdict(KeyError("x"), faults) == ("unexpected", True)
    assert verdict(IndexError("x"), faults) == ("bad_answer", False)


@pytest.mark.parametrize("broad", [Exception, BaseException])
@pytest.mark.parametrize("kind", [Held, BreakerOpen])
def test_what_an_inner_target_held_is_not_a_failure_of_the_outer_one(
    kind: type[Held], broad: type[BaseException]
) -> None:
    held = kind.__new__(kind)
    assert verdict(held, {broad: "bad_answer"}) == ("cancelled", False)
    assert verdict(ExceptionGroup("tasks", [held]), {broad: "bad_answer"}) == ("cancelled", False)
    assert verdict(held, {Held: "bad_answer"}) == ("bad_answer", False), "named by its class"


def test_a_cancelled_call_is_not_a_failure() -> None:
    assert verdict(asyncio.CancelledError(), {BaseException: "bad_answer"}) == ("cancelled", False)
