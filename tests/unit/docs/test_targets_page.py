"""The page about targets lists what the code has."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

from tests.unit.faults.test_codes import tables
from tidegate import Backoff, Cooldown, Held, Rate, Retry, Target
from tidegate.faults import Confirm
from tidegate.guard import Health, Hold, TargetKey, Tuning
from tidegate.guard.hold import EndedBy

PAGE = "reference/targets.md"
TEXT = (Path(__file__).parents[3] / "docs" / PAGE).read_text()
CALLS = {"guard", "call", "acall", "call_stale", "acall_stale", "wrap", "transport", "adapter"}


def listed(heading: str) -> list[str]:
    return [row[0] for row in tables(PAGE)[heading]]


def public(owner: type) -> set[str]:
    return {name for name in vars(owner) if not name.startswith("_")}


def test_every_option_of_a_target_is_listed_in_its_order() -> None:
    assert listed("option") == list(inspect.signature(Target).parameters)


def test_every_default_that_is_a_plain_value_is_the_one_of_the_code() -> None:
    for name, default, *_ in tables(PAGE)["option"]:
        known = inspect.signature(Target).parameters[name].default
        if isinstance(known, bool):
            assert default == str(known)
        elif name in ("when_open", "profile", "breaker_per", "confirm"):
            assert default == f'"{known}"'
        elif known == "profile":
            assert default == "the profile's"
        elif isinstance(known, str) and known:
            assert default.replace(" ", "") == known


def test_all_of_the_tuning_is_listed_in_its_order() -> None:
    assert listed("of Tuning") == [each.name for each in fields(Tuning)]


def test_everything_that_can_be_called_or_asked_is_listed() -> None:
    assert {cell.split("(")[0] for cell in listed("call")} == CALLS
    assert {cell.split("(")[0] for cell in listed("method")} == public(TargetKey) - CALLS - {"name"} | {"key"}
    # For jobs the runtime asks for the numbers, nobody else.
    assert {cell.split("(")[0] for cell in listed("of the target")} == public(Target) - {"key", "for_jobs"}


@pytest.mark.parametrize("heading", ["method", "of the target"])
def test_the_arguments_of_what_can_be_asked_are_those_of_the_code(heading: str) -> None:
    for cell in listed(heading):
        name, _, rest = cell.partition("(")
        if rest:
            known = [each for each in inspect.signature(getattr(Target, name)).parameters if each != "self"]
            assert [each for each in rest.rstrip(")").split(", ") if each] == known, name


@pytest.mark.parametrize("policy", [Backoff, Rate, Retry, Cooldown, Confirm])
def test_every_argument_of_a_policy_is_listed(policy: type) -> None:
    assert f"{policy.__name__}({', '.join(inspect.signature(policy).parameters)})" in listed("policy")


def test_the_fields_of_what_is_raised_and_returned_are_told() -> None:
    told = {name for cell in listed("field of Held") for name in re.findall(r"\w+", cell)}
    assert told == public(Held)
    for value in (Hold, Health):
        said = TEXT.partition(f"`{value.__name__}` has ")[2].partition(". A\n")[0].partition("\n\n")[0]
        assert set(re.findall(r"`(\w+)`", said)) == {each.name for each in fields(value)}
    ended_by = TEXT.partition("`ended_by` (")[2].partition(")")[0]
    named = set(re.findall(r'`"(\w+)"`', ended_by))
    assert named
    assert named <= set(EndedBy)
