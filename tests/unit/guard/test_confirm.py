"""Confirm on a target: sightings end with a success on any path, probes decide in either colour."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.guard.scene import Answered, CountedClock, Scene, down
from tidegate import Held, fault_of, rules
from tidegate.faults import Confirm


def code(scene: Scene, error: Exception, key: int = 7) -> str | None:
    """The verdict on *error*, told by a guarded function of whichever path the target takes."""

    @scene.target.key(key).guard(operation="recent")
    def recent() -> None:
        raise error

    scene.wait(key=key)
    with pytest.raises(type(error)) as caught:
        recent()
    fault = fault_of(caught.value)
    return None if fault is None else fault.code


def quietly_succeed(scene: Scene, key: int = 7) -> None:
    scene.target.key(key).guard(operation="recent")(lambda: "ok")()


def test_a_success_ends_the_count_also_where_nothing_else_was_wrong() -> None:
    scene = Scene(confirm=[Confirm("not_found", times=2, apart=0, becomes="gone", until_then="not_found")])

    assert code(scene, Answered(404)) == "not_found"
    quietly_succeed(scene)
    assert code(scene, Answered(404)) == "not_found", "a success came between"
    assert code(scene, Answered(404)) == "gone"


def test_the_short_way_is_taken_again_when_nothing_is_in_doubt_any_more() -> None:
    clock = CountedClock()
    scene = Scene(confirm=[Confirm("not_found", times=2, apart=0, until_then="not_found")], clock=clock)
    code(scene, Answered(404))
    reads = []
    for _ in range(3):
        before = clock.reads
        quietly_succeed(scene)
        reads.append(clock.reads - before)

    assert reads[0] > 0
    assert reads[1:] == [0, 0]


def test_a_refusal_is_believed_at_the_second_sighting() -> None:
    scene = Scene(rules=rules.navidrome)
    scene.fail(Answered(401))
    assert scene.holds() == ["backoff"]
    scene.fail(Answered(401))
    assert scene.holds() == ["fatal"]


@pytest.mark.parametrize(("times", "told"), [(1, ["cap", "recovered"]), (2, ["cap"])])
def test_a_fault_of_one_item_shows_that_the_target_is_well_once_it_is_believed(times: int, told: list[str]) -> None:
    scene = Scene(confirm=[Confirm("not_found", times=times, apart=0, until_then="gone")])
    scene.fail(*[down()] * 7)
    scene.fail(Answered(404))

    assert scene.notices() == told
    scene.fail(Answered(404))
    assert scene.notices() == ["cap", "recovered"]


def test_a_reconnect_forgets_the_sightings() -> None:
    scene = Scene(rules=rules.navidrome)
    scene.fail(Answered(401))
    scene.target.key(7).clear()
    scene.fail(Answered(401))

    assert scene.holds() == ["backoff"]


class Probe:
    """A probe that fails or not, in either colour, and remembers for which key."""

    def __init__(self, error: Exception | None, *, colour: str) -> None:
        self.error, self.keys = error, list[Any]()
        self.ask: Any = self._ask if colour == "def" else self._aask

    def _ask(self, key: Any) -> None:
        self.keys.append(key)
        if self.error is not None:
            raise self.error

    async def _aask(self, key: Any) -> None:
        await asyncio.sleep(1)
        self._ask(key)


@pytest.mark.parametrize("colour", ["def", "async def"])
@pytest.mark.parametrize(
    ("said", "probe_says", "believed"),
    [
        (Answered(401), None, "upstream_failure"),
        (Answered(401), Answered(401), "unauthorized"),
        (Answered(401), Answered(403), "unauthorized"),
        (Answered(401), down(), "upstream_failure"),
        (Answered(401), Held("other", None, "backoff", 0, 1, 1), "upstream_failure"),
    ],
)
def test_a_probe_decides_at_once(colour: str, said: Exception, probe_says: Exception | None, believed: str) -> None:
    probe = Probe(probe_says, colour=colour)
    scene = Scene(confirm=[Confirm("unauthorized", probe=probe.ask)])

    async def recent() -> None:
        raise said

    def ask() -> None:
        scene.call(said) if colour == "def" else scene.clock.run(scene.target.key(7).acall(recent))

    with pytest.raises(Answered) as caught:
        ask()
    fault = fault_of(caught.value)
    assert fault is not None
    assert (fault.code, probe.keys) == (believed, [7])


@pytest.mark.parametrize("status", [500, 503])
@pytest.mark.req("CNV-08")
def test_a_passing_fault_is_believed_when_the_probe_fails_in_passing_too(status: int) -> None:
    probe = Probe(down(), colour="def")
    confirm = [Confirm("upstream_failure", probe=probe.ask, becomes="overloaded", until_then="timeout")]
    scene = Scene(confirm=confirm)

    assert code(scene, Answered(500)) == "overloaded"
    probe.error = None
    assert code(scene, Answered(500)) == "timeout"


def test_an_async_probe_of_a_plain_function_is_a_mistake_that_confirms_nothing() -> None:
    probe = Probe(None, colour="async def")
    scene = Scene(confirm=[Confirm("unauthorized", probe=probe.ask)])

    assert code(scene, Answered(401)) == "upstream_failure"


def test_a_verdict_that_is_broken_off_gives_its_permit_back() -> None:
    probe = Probe(None, colour="async def")
    scene = Scene(confirm=[Confirm("unauthorized", probe=probe.ask)], concurrency=1, breaker=True)

    async def recent() -> None:
        raise Answered(401)

    async def main() -> None:
        task = asyncio.create_task(scene.target.key(7).acall(recent))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    scene.clock.run(main())
    assert scene.reason() is None
