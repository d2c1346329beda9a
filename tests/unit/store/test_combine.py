from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from tests.unit.store.combining import Crowd, Recorder
from tidegate.errors import StoreBusy, StoreError, StoreFull
from tidegate.store.group_commit import GroupCommit


def test_one_alone_commits_for_itself_without_a_savepoint(combiner: GroupCommit, recorder: Recorder) -> None:
    assert combiner.run(lambda: recorder.write(7)) == 7
    assert recorder.log == ["begin immediate", "commit"]
    assert recorder.disk == [7]


def test_those_who_wait_are_committed_together(combiner: GroupCommit, recorder: Recorder) -> None:
    crowd = Crowd(combiner, recorder)
    crowd.lead()
    for n in range(20):
        crowd.add(n)

    results = crowd.finish()

    wanted: dict[object, object] = {n: n for n in range(20)}
    assert results == wanted | {"leader": "leader"}
    assert recorder.disk == ["leader", *range(20)]
    assert recorder.commits == 2


def test_nobody_hears_of_success_before_the_commit(combiner: GroupCommit, recorder: Recorder) -> None:
    heard: list[int] = []
    recorder.on["commit"] = lambda: heard.append(len(crowd.results))
    crowd = Crowd(combiner, recorder)
    crowd.lead()
    crowd.add("a")
    crowd.add("b")
    crowd.finish()

    assert heard[0] == 0
    assert heard[1] <= 1  # the leader's own, which was committed before


def test_a_commit_takes_no_more_than_a_few_hundred(combiner: GroupCommit, recorder: Recorder) -> None:
    crowd = Crowd(combiner, recorder)
    crowd.lead()
    for n in range(300):
        crowd.add(n)

    assert len(crowd.finish()) == 301
    assert recorder.commits == 3


def test_one_that_fails_does_not_touch_the_others(combiner: GroupCommit, recorder: Recorder) -> None:
    def bad() -> None:
        recorder.write("half of it")
        raise ValueError("mine")

    crowd = Crowd(combiner, recorder)
    crowd.lead()
    crowd.add("a")
    crowd.add("bad", bad)
    crowd.add("b")
    results = crowd.finish()

    assert isinstance(results["bad"], ValueError)
    assert recorder.disk == ["leader", "a", "b"]
    assert recorder.commits == 2


def test_one_alone_that_fails_leaves_nothing(combiner: GroupCommit, recorder: Recorder) -> None:
    with pytest.raises(ZeroDivisionError):
        combiner.run(lambda: recorder.write(1) and 1 / 0)

    assert recorder.disk == []
    assert recorder.log == ["begin immediate", "rollback"]


def test_a_writer_that_cannot_begin_is_an_error_for_everybody_and_each_has_its_own(
    combiner: GroupCommit, recorder: Recorder
) -> None:
    crowd = Crowd(combiner, recorder)
    crowd.lead()
    crowd.add("a")
    crowd.add("b")
    tries: list[int] = []

    def busy() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise StoreBusy("locked")

    recorder.on["begin immediate"] = busy
    results = crowd.finish()

    assert isinstance(results["a"], StoreBusy)
    assert isinstance(results["b"], StoreBusy)
    assert results["a"] is not results["b"]
    assert recorder.disk == ["leader"]


def test_when_there_is_no_room_for_all_each_is_tried_alone(combiner: GroupCommit, recorder: Recorder) -> None:
    """The database takes the whole transaction back by itself; those that fit are written all the same."""

    def huge() -> None:
        recorder.in_transaction = False  # as SQLite does when the disk is full
        raise StoreFull("no room")

    crowd = Crowd(combiner, recorder)
    crowd.lead()
    crowd.add("a")
    crowd.add("huge", huge)
    crowd.add("b")
    results = crowd.finish()

    assert isinstance(results["huge"], StoreFull)
    assert recorder.disk == ["leader", "a", "b"]


def test_a_commit_that_fails_leaves_nothing_and_says_why(combiner: GroupCommit, recorder: Recorder) -> None:
    def full() -> None:
        raise StoreFull("no room")

    recorder.on["commit"] = full
    with pytest.raises(StoreFull):
        combiner.run(lambda: recorder.write(1))
    del recorder.on["commit"]

    assert (recorder.disk, recorder.in_transaction) == ([], False)


def test_when_what_was_written_cannot_be_taken_back_everybody_hears_of_it_and_the_next_one_goes_on(
    combiner: GroupCommit, recorder: Recorder
) -> None:
    def broken(sql: str) -> None:
        del recorder.on[sql]
        raise StoreError("disk I/O error")

    crowd = Crowd(combiner, recorder)
    crowd.lead()
    crowd.add("a")
    crowd.add("b")
    recorder.on["rollback"] = lambda: broken("rollback")
    recorder.on["savepoint piece"] = lambda: broken("savepoint piece")
    results = crowd.finish()

    assert isinstance(results["a"], StoreError)
    assert isinstance(results["b"], StoreError)
    assert combiner.run(lambda: recorder.write("after")) == "after"
    assert recorder.disk == ["leader", "after"]


def test_a_write_inside_a_write_is_refused(combiner: GroupCommit, recorder: Recorder) -> None:
    with pytest.raises(RuntimeError, match="itself"):
        combiner.run(lambda: combiner.run(lambda: 1))


def test_after_closing_there_is_an_error(combiner: GroupCommit) -> None:
    combiner.close()
    combiner.close()

    with pytest.raises(StoreError, match="closed"):
        combiner.run(lambda: 1)


def test_closing_waits_for_the_commit_that_is_under_way(combiner: GroupCommit, recorder: Recorder) -> None:
    crowd = Crowd(combiner, recorder)
    crowd.lead()
    closing = threading.Thread(target=combiner.close)
    closing.start()
    while not combiner.waiting:
        time.sleep(0.0005)
    assert crowd.finish() == {"leader": "leader"}
    closing.join(60)

    assert recorder.disk == ["leader"]


def test_thirty_two_threads_are_all_served_and_share_their_commits(recorder: Recorder) -> None:
    class Slow(Recorder):
        def execute(self, sql: str) -> None:
            super().execute(sql)
            if sql == "commit":
                time.sleep(0.001)

    slow = Slow()
    combiner = GroupCommit(slow)

    def work(n: int) -> list[Any]:
        return [combiner.run(partial(slow.write, (n, k))) for k in range(30)]

    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(work, range(32)))

    assert results == [[(n, k) for k in range(30)] for n in range(32)]
    assert len(slow.disk) == 32 * 30
    assert slow.commits < 32 * 30 / 3
