"""A wrong argument of a constructor is refused with its name, what was given and what is allowed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tidegate import Backoff, Breaker, Cooldown, Queue, Retry, Target
from tidegate.guard import Capacity
from tidegate.rules import Confirm, Rule

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
        "self_guard": (["yes", 1], "NetworkGuardPolicy(hosts=5)"),
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


def no_job() -> None: ...


@pytest.mark.parametrize(
    ("make", "meant"),
    [
        (lambda: Target("api", profile="request"), "'requests'"),  # type: ignore[arg-type]
        (lambda: Target("api", when_open="serve_stale"), "'serve-stale'"),  # type: ignore[arg-type]
        (lambda: Target("api", breaker_per="keys"), "'key'"),  # type: ignore[arg-type]
        (lambda: Target("api", breaker={"timout": 5}), "'timeout'"),  # type: ignore[arg-type]
        (lambda: Target("api", breaker={"fail_max": 5}), "'consecutive'"),  # type: ignore[arg-type]
        (lambda: Target("api", breaker={"reset_timeout": 5}), "'timeout'"),  # type: ignore[arg-type]
        (lambda: Target("api", rate="10/s"), r"Rate\(10, '1s'\)"),  # type: ignore[arg-type]
        (lambda: Target("api", cooldown=Cooldown({"notfound": (3, "1h")})), "'not_found'"),
        (lambda: Target("api", confirm=[Confirm("unauthorised")]), "'unauthorized'"),
        (lambda: Target("api", faults={KeyError: "bad_anwser"}), "'bad_answer'"),
        (lambda: Target("api", rules=[Rule(name="mine", status=418, code="gonee")]), "'gone'"),
        (lambda: Target("api").guard(key="usr")(lambda user: user), "'user'"),
        (lambda: Capacity(5, depth=int, ask="credit"), "'credits'"),  # type: ignore[arg-type]
        (lambda: Breaker("api").force("opn", "1h"), "'open'"),
        (lambda: Queue("sqlite:///jobs.db").job(unique="patth")(lambda path: None), "'path'"),
        (lambda: Queue("sqlite:///jobs.db").job(fail_fast_code="overload")(print), "'overloaded'"),
        (lambda: Queue("sqlite:///jobs.db").job(unique=True, while_={"queue"})(no_job), "'queued'"),
        (lambda: Queue("sqlite:///jobs.db", retention={"*": {"don": "7d"}}), "'done'"),
    ],
)
def test_a_name_that_is_nearly_right_gets_a_suggestion(make: Callable[[], object], meant: str) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"did you mean {meant}\?"):
        make()
