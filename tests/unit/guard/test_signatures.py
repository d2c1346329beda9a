"""What `help(Target)`, `help(Queue)` and `help(Breaker)` show: users' options first, then the clock and the tuning."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

from tidegate import Breaker, BreakerOptions, Queue, Target
from tidegate.guard import Tuning

OPTIONS = {
    Target: """
        name profile rules faults backoff breaker breaker_per cooldown rate concurrency wait deadline when_open probe
        probe_every probe_after reprobe_every confirm groups capacity title user store self_guard clock tuning
    """,
    Queue: "url queues retention max_args listen_url driver inline clock tuning",
    Breaker: """
        name max_requests interval timeout min_requests failure_ratio consecutive window trip on_state_change
        counts_as_failure permit_timeout max_timeout growth clock
    """,
}
EACH = pytest.mark.parametrize("made", OPTIONS)


@EACH
def test_the_options_are_these_in_this_order(made: type) -> None:
    assert list(inspect.signature(made).parameters) == OPTIONS[made].split()


@EACH
def test_what_only_tests_change_is_not_an_option(made: type) -> None:
    assert not {each.name for each in fields(Tuning)} & set(inspect.signature(made).parameters)


@EACH
def test_no_default_is_shown_as_an_address_in_memory(made: type) -> None:
    assert " at 0x" not in str(inspect.signature(made))


def test_editors_can_complete_the_breaker_of_a_target() -> None:
    own = {"name", "clock", "counts_as_failure"}  # which the target sets

    assert BreakerOptions in get_args(get_type_hints(Target.__init__)["breaker"])
    assert set(get_type_hints(BreakerOptions)) == set(inspect.signature(Breaker).parameters) - own
