"""The short way to be told no by an open breaker: it says and counts what the long way does."""

from __future__ import annotations

import gc
import inspect
import threading
import traceback
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.unit.guard.scene import Answered, Scene, down, held
from tidegate import Breaker, BreakerOpen, Held
from tidegate.faults import Confirm

OPENS = {"consecutive": 2, "timeout": "120s"}


class Api:
    """A client of both colours that fails as long as *error* is there."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.calls = 0

    def history(self, since: int = 0) -> int:
        """The plays since then."""
        self.calls += 1
        if self.error is not None:
            raise self.error
        return since

    async def ahistory(self, since: int = 0) -> int:
        return self.history(since)


def opened(**numbers: Any) -> tuple[Scene, Api, Any]:
    """A target whose breaker two failures have opened, and its client."""
    scene = Scene(backoff=None, breaker=OPENS, **numbers)
    api = Api()
    wrapped = scene.target.wrap(api)
    api.error = down()
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            wrapped.history(5)
    api.calls = 0
    return scene, api, wrapped


def breaker_of(scene: Scene) -> Breaker:
    assert scene.target.breaker is not None
    return scene.target.breaker


def forms(scene: Scene, wrapped: Any) -> dict[str, Callable[[], Any]]:
    return {"def": lambda: wrapped.history(5), "async def": lambda: scene.clock.run(wrapped.ahistory(5))}


@pytest.mark.req("BRK-02", "BRK-08")
@pytest.mark.parametrize("form", ["def", "async def"])
def test_a_rejection_says_who_why_and_until_when_and_is_counted_and_calls_nobody(form: str) -> None:
    scene, api, wrapped = opened()
    scene.clock.advance(20)
    with pytest.raises(BreakerOpen) as caught:
        forms(scene, wrapped)[form]()

    now, refused = scene.clock.now(), caught.value
    assert (refused.target, refused.key, refused.reason) == ("spotify", None, "breaker")
    assert refused.since == pytest.approx(now - 20)
    assert refused.until == pytest.approx(now + 100)
    assert refused.retry_after == pytest.approx(100)
    assert breaker_of(scene).totals == {"success": 0, "failure": 2, "rejected": 1}
    assert api.calls == 0


def test_the_key_is_in_what_a_rejection_says() -> None:
    scene, _, _ = opened()
    recent = scene.target.guard(key="user")(lambda user: user)
    with pytest.raises(BreakerOpen) as caught:
        recent(user=9)
    assert caught.value.key == 9
    with pytest.raises(BreakerOpen) as caught:
        scene.target.key(8).wrap(Api()).history()
    assert caught.value.key == 8


@pytest.mark.parametrize("form", ["def", "async def"])
def test_what_stands_before_the_breaker_is_said_first(form: str) -> None:
    scene, _, wrapped = opened()
    call = forms(scene, wrapped)[form]
    with held("breaker"):
        call()
    scene.target.pause("10s")
    with held("paused"):
        call()
    scene.clock.advance(11)
    with held("breaker"):
        call()
    scene.target.key(None).disable("20s")
    with held("cooldown"):
        call()
    scene.target.key(None).enable()
    with held("breaker"):
        call()


@pytest.mark.parametrize(
    ("error", "reason"), [(Answered(401), "fatal"), (Answered(429, {"Retry-After": "30"}), "retry_after")]
)
def test_a_key_that_may_not_go_is_told_its_own_reason(error: Exception, reason: str) -> None:
    scene, api, wrapped = opened()
    breaker_of(scene).reset()
    api.error = error
    with pytest.raises(Answered):
        wrapped.history()
    breaker_of(scene).force("open", "1h")
    with held(reason):
        wrapped.history()


@pytest.mark.req("BRK-02", "BRK-03")
@pytest.mark.parametrize("form", ["def", "async def"])
def test_the_first_call_after_the_open_time_is_a_trial(form: str) -> None:
    scene, api, wrapped = opened()
    call = forms(scene, wrapped)[form]
    scene.clock.advance(119.9)
    with held("breaker"):
        call()
    scene.clock.advance(0.2)
    api.error = None
    assert call() == 5
    assert breaker_of(scene).state == "half-open"
    assert [call(), call()] == [5, 5]
    assert breaker_of(scene).state == "closed"


def test_times_follow_a_wall_clock_that_was_stepped() -> None:
    scene, _, wrapped = opened()
    scene.clock.step_wall(7200)
    with pytest.raises(BreakerOpen) as caught:
        wrapped.history()
    assert caught.value.until == pytest.approx(scene.clock.now() + 120)


def test_a_health_probe_is_asked_while_the_breaker_is_open() -> None:
    asked: list[float] = []
    _, api, wrapped = opened(probe=lambda: asked.append(1))
    api.error = None

    assert wrapped.history(5) == 5
    assert asked == [1]


def test_a_breaker_with_a_clock_of_its_own_rejects_too_and_a_wait_comes_before_it() -> None:
    own = Breaker("own", consecutive=1, timeout=50, clock=lambda: 1e6)
    scene, api = Scene(breaker=own, backoff=None), Api()
    wrapped = scene.target.wrap(api)
    api.error = Answered(503, {"Retry-After": "30"})
    with pytest.raises(Answered):
        wrapped.history()
    with held("retry_after"):
        wrapped.history()
    scene.clock.advance(31)
    with held("breaker") as caught:
        wrapped.history()
    assert caught.value.until == pytest.approx(scene.clock.now() + 50)


def test_only_the_group_whose_breaker_is_open_is_rejected() -> None:
    scene = Scene(backoff=None, breaker=OPENS, groups={"slow": ["ahistory"]})
    wrapped = scene.target.wrap(Api())
    scene.target.breakers["slow"].force("open", "1h")

    assert wrapped.history(5) == 5
    with held("breaker"):
        scene.clock.run(wrapped.ahistory(5))


def test_an_old_answer_stands_in_while_the_breaker_is_open() -> None:
    scene = Scene(backoff=None, breaker=OPENS, when_open="serve-stale")
    wrapped = scene.target.wrap(Api())
    assert wrapped.history(5) == 5
    breaker_of(scene).force("open", "1h")
    assert wrapped.history(5) == 5
    with held("breaker"):
        wrapped.history(6)


def test_a_success_is_remembered_where_a_later_doubt_asks_for_it() -> None:
    doubted = Confirm("overloaded", times=2, apart="5s", good=True, until_then="overloaded", only_worked=True)
    failures = []
    for worked in (False, True):
        scene, api = Scene(backoff=None, breaker=OPENS, confirm=(doubted,)), Api()
        wrapped = scene.target.wrap(api)
        for _ in range(2 * worked):
            wrapped.history()
        api.error = Answered(503)
        with pytest.raises(Answered):
            wrapped.history()
        failures.append(breaker_of(scene).counts.failures)
    assert failures == [0, 1]


# -- the exception -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["def", "async def"])
def test_each_rejection_is_an_error_of_its_own_and_goes_when_nobody_holds_it(form: str) -> None:
    scene, _, wrapped = opened()
    call = forms(scene, wrapped)[form]
    found: list[BreakerOpen] = []
    for _ in range(3):
        with pytest.raises(BreakerOpen) as caught:
            call()
        found.append(caught.value)
        del caught
    assert len({id(each) for each in found}) == 3
    assert len({len(traceback.extract_tb(each.__traceback__)) for each in found}) == 1
    assert [each.__context__ for each in found] == [None] * 3

    def gone() -> weakref.ref[BreakerOpen]:
        try:
            wrapped.history()
        except BreakerOpen as error:
            return weakref.ref(error)
        raise AssertionError("it was not rejected")

    gc.disable()
    try:
        assert gone()() is None
    finally:
        gc.enable()


def test_a_rejection_within_another_error_tells_of_both() -> None:
    _, _, wrapped = opened()
    mine: dict[str, int] = {}

    def call() -> None:
        try:
            mine["missing"]
        except KeyError:
            wrapped.history()

    with pytest.raises(BreakerOpen) as caught:
        call()
    assert isinstance(caught.value.__context__, KeyError)


def test_threads_get_their_own_key_and_every_rejection_is_counted() -> None:
    scene, _, _ = opened()
    recent = scene.target.guard(key="user")(lambda user: user)
    wrong: list[object] = []

    def work(user: int) -> None:
        for _ in range(300):
            try:
                recent(user)
                wrong.append("called")
            except Held as error:
                if error.key != user:
                    wrong.append(error.key)

    threads = [threading.Thread(target=work, args=(user,)) for user in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []
    assert breaker_of(scene).totals["rejected"] == 8 * 300


# -- the wrapper -------------------------------------------------------------------------------------------------------


def test_a_method_replaced_on_the_client_or_its_class_is_seen_at_the_next_call() -> None:
    scene, api = Scene(backoff=None, breaker=OPENS), Api()
    wrapped: Any = scene.target.wrap(api)
    before, abefore = wrapped.history, wrapped.ahistory
    assert before(1) == 1

    async def seven(self: Api, since: int) -> int:
        return 7

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Api, "history", lambda self, since: 6)
        patch.setattr(Api, "ahistory", seven)
        assert (wrapped.history(1), before(1), scene.clock.run(wrapped.ahistory(1))) == (6, 6, 7)
        assert scene.clock.run(abefore(1)) == 7
    assert wrapped.history(1) == 1
    vars(api)["history"] = lambda since: 8
    assert wrapped.history(1) == 8
    wrapped.history = lambda since: 9
    assert wrapped.history(1) == 9
    del wrapped.history
    assert wrapped.history(1) == 1
    vars(api)["history"] = partial(seven, api)
    assert scene.clock.run(wrapped.history(1)) == 7
    wrapped.history = 5
    assert wrapped.history == 5, "no method any more"


def test_a_kept_method_looks_like_the_clients_and_what_it_keeps_is_not_seen() -> None:
    scene, api = Scene(backoff=None, breaker=OPENS), Api()
    wrapped = scene.target.wrap(api)

    assert wrapped.history is wrapped.history
    assert (wrapped.history.__name__, wrapped.history.__doc__) == ("history", "The plays since then.")
    assert list(inspect.signature(wrapped.history).parameters) == ["since"]
    assert inspect.iscoroutinefunction(wrapped.ahistory)
    assert not inspect.iscoroutinefunction(wrapped.history)
    assert vars(wrapped) == vars(api) == {"error": None, "calls": 0}
    gone = weakref.ref(wrapped)
    gc.disable()
    try:
        del wrapped
        assert gone() is None
    finally:
        gc.enable()


def test_a_plain_method_that_returns_something_to_await_is_judged_by_that_alone() -> None:
    class Early:
        def history(self) -> Any:
            async def later() -> int:
                raise down()

            return later()

    scene = Scene(backoff=None, breaker=OPENS)
    wrapped = scene.target.wrap(Early())
    with pytest.raises(ConnectionRefusedError):
        scene.clock.run(wrapped.history())
    assert breaker_of(scene).totals["success"] == 1


def test_a_property_that_gives_another_function_each_time_is_asked_each_time() -> None:
    class Turns:
        n = 0

        @property
        def turn(self) -> Callable[[], int]:
            self.n += 1
            n = self.n
            return lambda: n

    wrapped = Scene(backoff=None, breaker=OPENS).target.wrap(Turns())
    assert [wrapped.turn() for _ in range(3)] == [1, 2, 3]
