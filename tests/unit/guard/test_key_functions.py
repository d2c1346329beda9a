"""A key that a function of the user's makes of the arguments: asked before the call, whatever stands there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.guard.scene import Scene, down

OPENS = {"consecutive": 2, "timeout": "120s"}


def guarded(scene: Scene, colour: str, fn: Callable[[dict[str, int]], Any]) -> Callable[[dict[str, int]], Any]:
    """*fn* of either colour, whose key is in the one thing that it is given."""

    async def afn(request: dict[str, int]) -> Any:
        return fn(request)

    guard = scene.target.guard(key=lambda request: request["user"])
    if colour == "def":
        return guard(fn)
    agreed = guard(afn)
    return lambda request: scene.clock.run(agreed(request))


@pytest.mark.parametrize("colour", ["def", "async def"])
@pytest.mark.parametrize("breaker", [None, OPENS])
def test_a_call_that_changes_its_arguments_is_on_record_for_the_key_that_they_named(breaker: Any, colour: str) -> None:
    def take(request: dict[str, int]) -> None:
        del request["user"]
        raise down()

    scene = Scene(breaker=breaker)
    with pytest.raises(ConnectionRefusedError):
        guarded(scene, colour, take)({"user": 7})

    assert [(each.key, each.failures) for each in scene.target.unhealthy()] == [(7, 1)]
    if scene.target.breaker is not None:
        assert scene.target.breaker.counts.failures == 1


@pytest.mark.parametrize("colour", ["def", "async def"])
@pytest.mark.parametrize("breaker", [None, OPENS])
def test_a_success_that_changes_its_arguments_ends_the_run_of_the_key_that_they_named(
    breaker: Any, colour: str
) -> None:
    scene = Scene(breaker=breaker, backoff=None)
    scene.fail(down())
    assert [each.key for each in scene.target.unhealthy()] == [7]

    def take(request: dict[str, int]) -> str:
        del request["user"]
        return "ok"

    assert guarded(scene, colour, take)({"user": 7}) == "ok"
    assert scene.target.unhealthy() == []


@pytest.mark.req("BRK-08")
@pytest.mark.parametrize("colour", ["def", "async def"])
@pytest.mark.parametrize("state", ["open", "closed"])
def test_without_a_key_nothing_is_called_and_nothing_counted(state: str, colour: str) -> None:
    scene = Scene(breaker=OPENS)
    called: list[object] = []
    breaker = scene.target.breaker
    assert breaker is not None
    breaker.force(state, "1m")
    with pytest.raises(KeyError, match="user"):
        guarded(scene, colour, called.append)({})

    assert called == []
    assert (breaker.counts.requests, breaker.totals["rejected"]) == (0, 0)


def test_a_parameter_by_position_only_is_not_taken_for_another_argument_of_its_name() -> None:
    scene = Scene()

    @scene.target.guard(key="user")
    def recent(user: int, /, **filters: int) -> None:
        raise down()

    with pytest.raises(ConnectionRefusedError):
        recent(7, user=8)

    assert [each.key for each in scene.target.unhealthy()] == [7]
