"""Old answers: the last good one per key, function and arguments, with its age, and bounded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.guard.scene import Answered, Scene, down, held
from tidegate.guard import Answer


class Service:
    def __init__(self) -> None:
        self.error: Exception | None = None
        self.served = 0

    def history(self, since: Any = 0, **more: Any) -> str:
        if self.error is not None:
            raise self.error
        self.served += 1
        return f"{since}/{self.served}"

    async def ahistory(self, since: int = 0) -> str:
        return self.history(since)


def test_a_fresh_answer_is_not_stale_and_an_old_one_says_its_age() -> None:
    scene, service = Scene(), Service()
    part = scene.target.key(7)
    assert part.call_stale(service.history, 5) == Answer("5/1", stale=False, age=0.0)
    service.error = down()
    scene.clock.advance("10m")

    assert part.call_stale(service.history, 5) == Answer("5/1", stale=True, age=600.0), "the call failed"
    scene.clock.advance("10s")
    assert part.call_stale(service.history, 5) == Answer("5/1", stale=True, age=610.0), "the call was held"


def test_it_is_the_same_awaited() -> None:
    scene, service = Scene(), Service()
    part = scene.target.key(7)
    assert scene.clock.run(part.acall_stale(service.ahistory, 5)).value == "5/1"
    service.error = down()
    scene.clock.advance("10m")

    answer = scene.clock.run(part.acall_stale(service.ahistory, 5))
    assert (answer.value, answer.stale, answer.age) == ("5/1", True, 600.0)


def test_where_there_is_no_old_answer_the_exception_is_raised() -> None:
    scene, service = Scene(), Service()
    service.error = down()
    with pytest.raises(ConnectionRefusedError):
        scene.target.key(7).call_stale(service.history, 5)
    with held("backoff"):
        scene.target.key(7).call_stale(service.history, 5)


@pytest.mark.parametrize("error", [Answered(401), Answered(404)])
def test_nothing_stands_in_for_what_cannot_pass(error: Exception) -> None:
    scene, service = Scene(), Service()
    scene.target.key(7).call_stale(service.history)
    service.error = error

    with pytest.raises(Answered):
        scene.target.key(7).call_stale(service.history)


@pytest.mark.parametrize(
    ("asked", "asked_then"), [((1,), (2,)), ((1,), (True,)), ((1,), (1.0,)), (("a",), ("b",)), ((), (0,))]
)
def test_an_answer_stands_in_only_for_the_same_question(asked: Any, asked_then: Any) -> None:
    scene, service = Scene(), Service()
    scene.target.key(7).call_stale(service.history, *asked)
    service.error = down()

    with pytest.raises(ConnectionRefusedError):
        scene.target.key(7).call_stale(service.history, *asked_then)


def test_the_answer_of_one_user_is_never_given_to_another() -> None:
    scene, service = Scene(), Service()
    scene.target.key(7).call_stale(service.history)
    service.error = down()

    with pytest.raises(ConnectionRefusedError):
        scene.target.key(8).call_stale(service.history)


def test_a_reconnect_forgets_the_answers_of_its_key_only() -> None:
    scene, service = Scene(), Service()
    for key in (7, 8):
        scene.target.key(key).call_stale(service.history)
    scene.target.key(7).clear()
    service.error = down()

    with pytest.raises(ConnectionRefusedError):
        scene.target.key(7).call_stale(service.history)
    assert scene.target.key(8).call_stale(service.history).stale


def test_the_shelf_is_bounded_and_the_oldest_goes_first() -> None:
    scene, service = Scene(), Service()
    for since in range(300):
        scene.target.key(7).call_stale(service.history, since)
    service.error = down()

    assert scene.target.key(7).call_stale(service.history, 299).value == "299/300"
    with held("backoff"):
        scene.target.key(7).call_stale(service.history, 0)


def test_arguments_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(TypeError, match="hashable"):
        Scene().target.call_stale(Service().history, [1])


def test_behind_serve_stale_a_guard_and_a_wrapper_serve_old_answers_by_themselves() -> None:
    scene, service = Scene(when_open="serve-stale"), Service()
    part = scene.target.key(7)
    guarded, aguarded, wrapped = part.guard()(service.history), part.guard()(service.ahistory), part.wrap(service)
    first = guarded(5), scene.clock.run(aguarded(5)), wrapped.history(6)
    service.error = down()
    part.clear()  # which forgets them
    with pytest.raises(ConnectionRefusedError):
        guarded(5)
    part.clear()
    service.error = None
    again = guarded(5), scene.clock.run(aguarded(5)), wrapped.history(6)
    service.error = down()

    assert first == ("5/1", "5/2", "6/3")
    assert again == ("5/4", "5/5", "6/6")
    assert (guarded(5), scene.clock.run(aguarded(5)), wrapped.history(6)) == again


def test_behind_serve_stale_arguments_without_a_hash_are_called_all_the_same() -> None:
    scene, service = Scene(when_open="serve-stale"), Service()

    assert scene.target.guard()(service.history)([1]) == "[1]/1"
    with pytest.raises(ValueError, match=r"^when_open .*'later'"):
        Scene(when_open="later")
