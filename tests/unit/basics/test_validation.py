"""What a policy may be given: each refusal names the field, the value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tidegate.validation import number, share, valid_name, whole


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "x" * 201, "\x00"])
def test_a_name_that_could_break_a_line_or_a_label_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^name: "):
        valid_name(name, field="name")


def test_a_usual_name_is_taken_as_it_is() -> None:
    assert valid_name("tautulli-api é", field="name") == "tautulli-api é"
    with pytest.raises(TypeError, match=r"^name: "):
        valid_name(7, field="name")


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (lambda v: whole(v, field="f"), 0),
        (lambda v: whole(v, field="f"), True),
        (lambda v: whole(v, field="f"), 1.0),
        (lambda v: whole(v, field="f"), 10**10),
        (lambda v: number(v, field="f", minimum=0, maximum=1), math.nan),
        (lambda v: number(v, field="f", minimum=0, maximum=1), 2),
        (lambda v: number(v, field="f", minimum=0, maximum=1), "1"),
        (lambda v: share(v, field="f"), 0),
        (lambda v: share(v, field="f"), 1.01),
        (lambda v: share(v, field="f"), False),
    ],
)
def test_numbers_that_are_not_allowed_are_refused(check: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(ValueError, match=r"^f: "):
        check(value)


def test_numbers_that_are_allowed_are_given_back() -> None:
    assert (whole(3, field="f"), number(1, field="f", minimum=0, maximum=1), share(1, field="f")) == (3, 1.0, 1.0)
