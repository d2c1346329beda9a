"""A wrong argument of a constructor is refused with its name, what was given and what is allowed."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tidegate import Backoff, Breaker, Queue, Retry, Target

THING = object()
NUMBERS: list[Any] = [True, "many", -1, float("nan"), THING]
DURATIONS: list[Any] = [True, "soon", -1, THING, []]
FUNCTIONS: list[Any] = ["name", 7, THING]
OBJECTS: list[Any] = ["name", 7, THING]

REQUIRED: dict[type, dict[str, Any]] = {
    Target: {"name": "api"}, Breaker: {"name": "api"}, Queue: {"url": "sqlite:///jobs.db"}, Backoff: {}, Retry: {},
}  # fmt: skip
# Wrong values of every argument, and words of the message that say what is allowed.
WRONG: dict[type, dict[str, tuple[list[Any], str]]] = {
    Target: {
        "name": ([None, 7, "", " api"], "printable characters"),
        "profile": (["web", None, []], "'requests', 'sync', 'jobs'"),
        "rules": (["spotify", 7], "tidegate.rules.spotify"),
        "faults": (["KeyError", 7], "codes"),
        "backoff": (["30s", 30, True], "Backoff"),
        "breaker": (["on", 5], "breaker={'consecutive': 5}"),
        "breaker_per": (["host", None], "'target' or 'key'"),
        "cooldown": (OBJECTS, "Cooldown(...)"),
        "rate": (NUMBERS, "a number from"),
        "concurrency": (NUMBERS, "a whole number from"),
        "wait": (DURATIONS, "seconds"),
        "deadline": (DURATIONS, "seconds"),
        "when_open": (["wait", None], "'fail-fast'"),
        "probe": (FUNCTIONS, "a function"),
        "probe_every": (DURATIONS, "seconds"),
        "probe_after": (["timeout", 7, None], "a set of codes"),
        "reprobe_every": (DURATIONS, "seconds"),
        "confirm": (["forbidden", 7, [7]], "[Confirm(...)]"),
        "groups": ([7, ["a"]], "give {"),
        "capacity": (OBJECTS, "Capacity(...)"),
        "title": ([None, 7], "a text"),
        "user": (FUNCTIONS, "a function"),
        "store": ([True, 7, []], "sqlite:///jobs.db"),
        "self_guard": (["yes", 1, None], "SelfGuard(hosts=5)"),
        "clock": ([None, 7, float], "now() and monotonic()"),
        "tuning": (OBJECTS, "Tuning(...)"),
    },
    Breaker: {
        "name": ([None, 7, "", " api"], "printable characters"),
        **dict.fromkeys(("max_requests", "min_requests", "consecutive"), (NUMBERS, "a whole number from")),
        **dict.fromkeys(("interval", "timeout", "window", "permit_timeout", "max_timeout"), (DURATIONS, "seconds")),
        **dict.fromkeys(("failure_ratio", "growth"), (NUMBERS, "a number")),
        **dict.fromkeys(("trip", "on_state_change", "counts_as_failure", "clock"), (FUNCTIONS, "a function")),
    },
    Queue: {
        "url": ([None, 7, []], "sqlite:///jobs.db"),
        "driver": (["mysql"], "'apsw' or 'sqlite3'"),
        "listen_url": ([7, []], "postgresql://user@host/database"),
        "clock": ([None, 7, float], "now() and monotonic()"),
        "inline": (["yes", 1, None], "True or False"),
        "queues": (["mail", 7, None], "a list of names"),
        "max_args": (NUMBERS, "a whole number from"),
        "retention": (["7d", 7, ["mail"]], "{'done': '7d'}"),
        "tuning": (OBJECTS, "Tuning(...)"),
    },
    Backoff: {
        **dict.fromkeys(("base", "cap"), (DURATIONS, "seconds")),
        **dict.fromkeys(("factor", "jitter"), (NUMBERS, "a number from")),
    },
    Retry: {"attempts": (NUMBERS, "a whole number from"), **dict.fromkeys(("base", "cap"), (DURATIONS, "seconds"))},
}  # fmt: skip
CASES = [
    pytest.param(made, name, given, allowed, id=f"{made.__name__}-{name}-{'object' if given is THING else repr(given)}")
    for made, arguments in WRONG.items()
    for name, (values, allowed) in arguments.items()
    for given in values
]


@pytest.mark.parametrize(("made", "name", "given", "allowed"), CASES)
def test_a_wrong_argument_is_named_with_what_was_given_and_what_is_allowed(
    made: type, name: str, given: Any, allowed: str
) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        made(**{**REQUIRED[made], name: given})

    shown = given[0] if name == "confirm" and isinstance(given, list) else given
    message = str(refused.value)
    assert name in message
    assert repr(shown)[:40] in message
    assert allowed in message


def test_every_argument_has_a_row() -> None:
    for made, arguments in WRONG.items():
        assert set(arguments) == set(inspect.signature(made).parameters), made
