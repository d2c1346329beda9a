from __future__ import annotations

from functools import partial

import pytest

from tests.databases import APSW, POSTGRES, STDLIB
from tests.store.jobs import Jobs, new
from tidegate.jobs.claim import ReadyTarget
from tidegate.store.base import Tx
from tidegate.targets import table
from tidegate.targets.table import StoredKeyHealth

EVERYWHERE = pytest.mark.parametrize("db", [APSW, STDLIB, POSTGRES], indirect=True)

ALL = [(queue, target) for queue in ("p", "q", "r") for target in ("", "s", "t")]


def _held(row: StoredKeyHealth, tx: Tx) -> None:
    table.put_hold(tx, row)


def places(fronts: list[ReadyTarget]) -> list[tuple[str, str]]:
    return [front.place for front in fronts]


def test_without_ready_jobs_there_is_no_front_and_no_lane(jobs: Jobs) -> None:
    jobs.one(lane="a", due_at=jobs.clock.now + 10)
    jobs.done(jobs.one(lane="b"))

    assert jobs.fronts() == []
    assert jobs.lanes() == []


@EVERYWHERE
def test_a_front_is_a_queue_and_a_target_with_ready_jobs(jobs: Jobs) -> None:
    jobs.put(*(new(queue=queue, target=target, lane=lane) for queue, target in reversed(ALL) for lane in "ab"))

    assert places(jobs.fronts()) == ALL


@pytest.mark.parametrize(
    "wanted", [("p",), ("q",), ("r",), ("p", "r"), ("q", "r"), ("p", "q", "r"), ("x",), ("x", "q")]
)
def test_only_the_fronts_of_the_wanted_queues_are_found(jobs: Jobs, wanted: tuple[str, ...]) -> None:
    jobs.put(*(new(queue=queue, target=target) for queue, target in ALL))

    assert places(jobs.fronts(*wanted)) == [place for place in ALL if place[0] in wanted]


def test_a_queue_whose_name_is_part_of_another_is_another_queue(jobs: Jobs) -> None:
    jobs.put(*(new(queue=queue) for queue in ("a", "aa", "a.b", "b")))

    assert places(jobs.fronts("a")) == [("a", "")]
    assert places(jobs.fronts("aa", "b")) == [("aa", ""), ("b", "")]


def test_a_front_says_what_the_store_knows_of_its_gates(jobs: Jobs) -> None:
    now = jobs.clock.now
    jobs.put(new(queue="p"), new(queue="q", target="t"))
    jobs.store.write(lambda tx: tx.query("queue_pause", {"name": "p", "until": now + 5, "actor": "ada"}))
    jobs.store.write(lambda tx: tx.query("target_pause", {"name": "t", "until": now + 7, "actor": "ada"}))

    paused, held = jobs.fronts()

    assert (paused.queue_paused_until, paused.paused_until, paused.breaker) == (now + 5, None, None)
    assert (held.queue_paused_until, held.paused_until, held.breaker) == (None, now + 7, "closed")


@EVERYWHERE
def test_each_lane_is_named_once_however_many_jobs_it_has(jobs: Jobs) -> None:
    jobs.put(*(new(lane=lane) for lane in "bab" * 30))

    assert [lane.lane for lane in jobs.lanes()] == ["a", "b"]


@pytest.mark.parametrize("after", [None, "", "a", "b", "bb", "f", "z"])
@pytest.mark.parametrize("most", [1, 3, 7, 10])
def test_lanes_are_found_after_one_of_them_in_order(jobs: Jobs, after: str | None, most: int) -> None:
    names = ["", "a", "b", "c", "d", "e", "f"]
    jobs.put(*(new(lane=lane) for lane in reversed(names)))
    jobs.put(new(lane="aa", queue="p"), new(lane="bb", target="t"), new(lane="cc", queue="r"))

    found = [lane.lane for lane in jobs.lanes(after=after, most=most)]

    assert found == [lane for lane in names if after is None or lane > after][:most]


@EVERYWHERE
def test_a_walk_meets_each_of_many_lanes_once(jobs: Jobs) -> None:
    jobs.put(*(new(lane=f"{n:04}") for n in range(300)))

    seen: list[str] = []
    while page := [lane.lane for lane in jobs.lanes(after=seen[-1] if seen else None, most=20)]:
        seen += page

    assert seen == [f"{n:04}" for n in range(300)]


def test_a_large_lane_does_not_hide_a_small_one(jobs: Jobs) -> None:
    jobs.put(*(new(lane="big", priority=9) for _ in range(2000)))
    small = jobs.one(lane="small")

    assert [lane.lane for lane in jobs.lanes(most=5)] == ["big", "small"]
    assert jobs.claim(5, lane="small")[0].id == small


@EVERYWHERE
def test_a_lane_says_what_holds_it(jobs: Jobs) -> None:
    now = jobs.clock.now
    jobs.put(*(new(target="t", lane=lane) for lane in "abcd"))
    for row in (
        StoredKeyHealth(target="t", lane="a", reason="backoff", since=now, until=now + 60, failures=1),
        StoredKeyHealth(target="t", lane="b", reason="fatal", since=now, until=None, failures=1),
        StoredKeyHealth(target="t", lane="c", reason="open", since=now, failures=2),
        StoredKeyHealth(target="other", lane="d", reason="fatal", since=now, until=None, failures=1),
    ):
        jobs.store.write(partial(_held, row))

    found = {lane.lane: (lane.hold, lane.hold_until) for lane in jobs.lanes(ReadyTarget("q", "t"))}

    assert found == {"a": ("backoff", now + 60), "b": ("fatal", None), "c": (None, None), "d": (None, None)}
    jobs.store.write(lambda tx: tx.query("hold_drop", {"target": "t", "lane": "b"}))
    assert jobs.lanes(ReadyTarget("q", "t"))[1].hold is None


def test_a_shut_lane_costs_no_write_and_its_jobs_no_attempt(jobs: Jobs) -> None:
    jobs.put(*(new(target="t", lane="a") for _ in range(100)))
    row = StoredKeyHealth(target="t", lane="a", reason="fatal", since=0.0, until=None, failures=1)
    jobs.store.write(lambda tx: table.put_hold(tx, row))
    before = (
        jobs.sql("select sum(attempt), sum(fence), count(*) from tg_job"),
        jobs.sql("select count(*) from tg_event"),
    )

    for _ in range(10):
        assert jobs.lanes(ReadyTarget("q", "t"))[0].hold == "fatal"

    assert (
        jobs.sql("select sum(attempt), sum(fence), count(*) from tg_job"),
        jobs.sql("select count(*) from tg_event"),
    ) == before
