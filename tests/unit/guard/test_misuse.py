"""A mistake in how a target is used is said at once, in a sentence that tells what to do, and charged to nobody."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.unit.guard.scene import Scene, down
from tidegate import Cooldown, Target, classify, rules
from tidegate.faults import Confirm
from tidegate.rules import Rule

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"rules": "spotify"}, "rules: 'spotify'"),
    ({"rules": rules}, "tidegate.rules.spotify"),
    ({"rules": [3]}, "pack 'spotify': rules must be a list of Rule, got 3 in it; give Rule(...)"),
    ({"backoff": "30s"}, "backoff must be a Backoff or None, got '30s'; did you mean Backoff('30s')?"),
    ({"cooldown": {"gone": (1, "1h")}}, "cooldown must be a Cooldown or None, got {"),
    ({"breaker": "on"}, "got 'on'; did you mean breaker={'consecutive': 5}?"),
    ({"tuning": {"dice": 1}}, "tuning must be a Tuning or None"),
    ({"faults": [KeyError]}, "faults must map"),
    ({"breaker": True, "groups": ["a"]}, "groups must be a dict of lists of operations, got ['a']; give {"),
    (
        {"breaker": True, "groups": {"a": "recent"}},
        "groups['a'] must be a list of operations, got 'recent'; did you mean ['recent']?",
    ),
    ({"confirm": Confirm("forbidden")}, "confirm must be a list of Confirm or None, got Confirm("),
    ({"confirm": ["forbidden"]}, "got 'forbidden' in it; give [Confirm(...)]"),
    ({"probe": "http://x/health"}, "probe must be a function without parameters or None, got 'http://x/health'"),
    ({"user": 7}, "user must be a function of the key or None, got 7"),
]


@pytest.mark.parametrize(("given", "sentence"), WRONG)
def test_a_target_says_at_once_what_it_cannot_use(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TypeError) as refused:
        Target("spotify", **given)
    assert sentence in str(refused.value)


def test_what_a_target_can_use_it_takes() -> None:
    own = [Rule(name="mine", status=418, code="not_found")]
    target = Target("Tidal (Europe)", rules=own, cooldown=Cooldown({"gone": (1, "1h")}), confirm=[Confirm("forbidden")])
    assert target.name == "Tidal (Europe)"


def test_a_probe_of_a_doubt_must_be_a_function() -> None:
    wrong: Any = "ping"
    with pytest.raises(TypeError, match=r"Confirm\.probe .*'ping'"):
        Confirm("forbidden", probe=wrong)


def test_classify_says_what_rules_are() -> None:
    wrong: Any = "spotify"
    with pytest.raises(TypeError, match=r"rules: .*'spotify'"):
        classify(down(), wrong)


def test_a_guard_needs_no_parentheses() -> None:
    scene = Scene()

    @scene.target.guard
    def plays(user: int) -> int:
        return user

    @scene.target.key(7).guard
    async def aplays(user: int) -> int:
        raise down()

    assert plays(7) == 7
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(aplays(7))
    assert scene.holds(key=7) == ["backoff"]


def test_a_key_that_is_given_without_its_name_is_refused_with_what_to_write() -> None:
    wrong: Any = "user"
    with pytest.raises(TypeError, match=r"guard\(key='user'\)"):
        Scene().target.guard(wrong)


def test_a_guard_refuses_what_yields() -> None:
    def plays() -> Iterator[int]:
        yield 1

    async def aplays() -> AsyncIterator[int]:
        yield 1

    for fn in (plays, aplays):
        with pytest.raises(TypeError, match=f"guard: {fn.__name__} "):
            Scene().target.guard()(fn)


@pytest.mark.parametrize("breaker", [None, {"consecutive": 1}])
@pytest.mark.parametrize("key", ["users", lambda users: users])
def test_a_key_without_a_hash_is_refused_in_a_sentence(key: Any, breaker: Any) -> None:
    scene = Scene(breaker=breaker)

    @scene.target.guard(key=key)
    def recent(users: list[int]) -> None:
        raise down()

    with pytest.raises(TypeError, match=r"key: \[7\]"):
        recent([7])
    assert scene.target.unhealthy() == []


@pytest.mark.parametrize("form", ["call", "call_stale"])
def test_an_async_function_in_a_plain_call_is_refused_and_held_against_nobody(form: str) -> None:
    async def recent(user: int = 7) -> int:
        return user

    scene = Scene(breaker={"consecutive": 1}, concurrency=1)
    with pytest.raises(TypeError, match=r"call: .*target\.acall\("):
        getattr(scene.target, form)(recent)
    with pytest.raises(TypeError, match=r"use `await target.acall\(...\)`"):
        getattr(scene.target, form)(lambda: recent(7))
    assert (scene.target.explain(), scene.target.unhealthy()) == ([], [])
    assert scene.target.call(lambda: "ok") == "ok"  # its place was given back


@pytest.mark.parametrize("form", ["acall", "acall_stale"])
def test_a_plain_function_in_an_awaited_call_is_refused_and_held_against_nobody(form: str) -> None:
    scene = Scene(breaker={"consecutive": 1}, concurrency=1)
    with pytest.raises(TypeError, match=r"acall: .*target\.call\("):
        scene.clock.run(getattr(scene.target, form)(lambda: 7))
    assert (scene.target.explain(), scene.target.unhealthy()) == ([], [])
    assert scene.target.call(lambda: "ok") == "ok"


def test_a_future_is_awaited_as_a_coroutine_is() -> None:
    async def main() -> int:
        ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        ready.set_result(7)
        return await Target("spotify").acall(lambda: ready)

    assert asyncio.run(main()) == 7


def test_a_function_may_have_parameters_called_like_those_of_the_call() -> None:
    def named(**given: int) -> dict[str, int]:
        return given

    async def anamed(**given: int) -> dict[str, int]:
        return given

    scene = Scene()
    want = {"fn": 1, "self": 2}
    assert scene.target.call(named, fn=1, self=2) == want
    assert scene.target.call_stale(named, fn=1, self=2).value == want
    assert scene.clock.run(scene.target.acall(anamed, fn=1, self=2)) == want
    assert scene.clock.run(scene.target.acall_stale(anamed, fn=1, self=2)).value == want


def test_a_probe_of_the_other_colour_is_an_error_in_the_log_because_it_ends_no_open_state(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def ping() -> None: ...

    scene = Scene(breaker={"consecutive": 1}, probe=ping, backoff=None)
    scene.fail(down())
    with caplog.at_level(logging.INFO, "tidegate.target"):
        assert scene.reason() == "breaker"
    found = [each for each in caplog.records if each.message.startswith("probe_failed name=spotify")]
    assert [each.levelno for each in found] == [logging.ERROR]
    assert "`def`" in found[0].message


NO_PARAMETERS: Any = lambda: None  # noqa: E731


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (lambda fn: Target("api", probe=fn), "probe is called with 0 arguments"),
        (lambda _: Target("api", user=NO_PARAMETERS), "user is called with 1 argument,"),
        (lambda _: Confirm("forbidden", probe=NO_PARAMETERS), "Confirm.probe is called with 1 argument,"),
    ],
)
def test_a_function_that_could_not_be_called_is_refused_with_its_signature(made: Any, shown: str) -> None:
    def ping(url: str, timeout: int = 5) -> None: ...

    with pytest.raises(TypeError, match=shown) as refused:
        made(ping)
    assert ("ping(url: 'str', timeout: 'int' = 5)" in str(refused.value)) is shown.startswith("probe")


@pytest.mark.parametrize("fn", [lambda: None, lambda timeout=5: None, lambda *urls: None, dict, [].clear])
def test_a_probe_needs_no_argument(fn: Any) -> None:
    assert Target("api", probe=fn).for_jobs().probe is fn
