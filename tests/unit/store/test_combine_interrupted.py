"""Writers that are interrupted, as by Ctrl-C, take nothing from the others."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.unit.store.combining import Crowd, Recorder
from tidegate.errors import StoreError, StoreFull
from tidegate.store.group_commit import GroupCommit


class Interrupts:
    """Interrupts the main thread as Ctrl-C does, but only where a test expects it."""

    def __init__(self) -> None:
        self._armed = False

    def strike(self, *_: object) -> None:
        if self._armed:
            self._armed = False  # once
            raise KeyboardInterrupt

    def send(self) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def run(self, work: Callable[[], object]) -> bool:
        """Whether *work* was interrupted."""
        finished = False
        with contextlib.suppress(KeyboardInterrupt):
            self._armed = True
            work()
            self._armed = False
            finished = True
        return not finished

    def once(self, work: Callable[[], object], when: Callable[[], bool]) -> None:
        """Interrupts *work* as soon as *when* is true."""

        def watch() -> None:
            deadline = time.monotonic() + 60
            while not when() and time.monotonic() < deadline:
                time.sleep(0.0005)
            self.send()

        watcher = threading.Thread(target=watch)
        watcher.start()
        assert self.run(work)
        watcher.join()


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    found = Interrupts()
    before = signal.signal(signal.SIGUSR1, found.strike)
    yield found
    signal.signal(signal.SIGUSR1, before)


def test_one_that_is_interrupted_while_it_waits_leaves_the_queue(
    combiner: GroupCommit, recorder: Recorder, interrupts: Interrupts
) -> None:
    crowd = Crowd(combiner, recorder)
    crowd.lead()

    interrupts.once(lambda: combiner.run(lambda: recorder.write("interrupted")), lambda: combiner.waiting == 1)
    crowd.add("after")

    assert crowd.finish()["after"] == "after"
    assert recorder.disk == ["leader", "after"]


def test_one_that_is_interrupted_with_others_behind_it_does_not_keep_them(
    combiner: GroupCommit, recorder: Recorder, interrupts: Interrupts
) -> None:
    crowd = Crowd(combiner, recorder)
    crowd.lead()
    queued = threading.Event()
    late = crowd.add_behind("bc", queued.set)

    interrupts.once(lambda: combiner.run(lambda: recorder.write("interrupted")), queued.is_set)
    late.join()

    assert crowd.finish() == {"leader": "leader", "b": "b", "c": "c"}
    assert recorder.disk == ["leader", "b", "c"]


def test_a_leader_that_is_interrupted_leaves_its_work_undone_and_that_of_the_others_to_them(
    combiner: GroupCommit, recorder: Recorder, interrupts: Interrupts
) -> None:
    crowd = Crowd(combiner, recorder)
    inside = threading.Event()

    def work() -> None:
        recorder.write("interrupted")
        inside.set()
        time.sleep(60)

    crowd.lead()
    queued = crowd.add_behind("ab", crowd.go_on.set)
    interrupts.once(lambda: combiner.run(work), inside.is_set)
    queued.join()

    assert crowd.finish() == {"leader": "leader", "a": "a", "b": "b"}
    assert recorder.disk == ["leader", "a", "b"]


def test_a_leader_that_is_interrupted_right_after_the_commit_answers_the_others(
    combiner: GroupCommit, recorder: Recorder
) -> None:
    crowd = Crowd(combiner, recorder)
    crowd.lead()
    commits: list[int] = []

    class Late(BaseException):
        pass

    original = recorder.execute

    def execute(sql: str) -> None:
        original(sql)
        if sql == "commit":
            commits.append(1)
            if len(commits) == 2:
                raise Late  # it is on disk, and the thread is interrupted before it knows

    recorder.execute = execute  # type: ignore[method-assign]
    for name in "abc":
        crowd.add(name)
    results = crowd.finish()

    assert isinstance(results["a"], Late)
    assert (results["b"], results["c"]) == ("b", "c")
    assert recorder.disk == ["leader", "a", "b", "c"]


class Late(BaseException):
    """An interrupt that strikes inside a statement."""


def test_a_leader_that_is_interrupted_before_it_has_begun_leaves_the_others_to_the_next(
    combiner: GroupCommit, recorder: Recorder
) -> None:
    crowd = Crowd(combiner, recorder)
    crowd.lead()
    for name in "abc":
        crowd.add(name)
    recorder.on["begin immediate"] = partial(_once, recorder, "begin immediate", Late())
    results = crowd.finish()

    assert isinstance(results["a"], Late)
    assert (results["b"], results["c"]) == ("b", "c")
    assert recorder.disk == ["leader", "b", "c"]


def test_what_was_written_alone_before_an_interrupt_is_answered_and_not_written_again(
    combiner: GroupCommit, recorder: Recorder
) -> None:
    tries: list[int] = []

    def huge() -> object:
        tries.append(1)
        if len(tries) == 1:
            recorder.in_transaction = False  # as SQLite does when the disk is full: now each is tried alone
            raise StoreFull("no room")
        if len(tries) == 2:
            raise Late
        return recorder.write("huge")

    crowd = Crowd(combiner, recorder)
    crowd.lead()
    crowd.add("a")
    crowd.add("b")
    crowd.add("huge", huge)
    crowd.add("c")
    results = crowd.finish()

    assert isinstance(results["a"], Late)
    assert {name: results[name] for name in ("b", "huge", "c")} == {"b": "b", "huge": "huge", "c": "c"}
    assert recorder.disk == ["leader", "a", "b", "huge", "c"]


def test_others_hear_of_it_when_an_interrupted_leader_cannot_take_back_what_it_did(
    combiner: GroupCommit, recorder: Recorder
) -> None:
    def work() -> None:
        raise Late

    crowd = Crowd(combiner, recorder)
    crowd.lead()
    crowd.add("a", work)
    crowd.add("b")
    recorder.on["rollback"] = partial(_once, recorder, "rollback", StoreError("disk I/O error"))
    results = crowd.finish()

    assert isinstance(results["a"], Late)
    assert isinstance(results["b"], StoreError)
    assert combiner.run(lambda: recorder.write("after")) == "after"
    assert recorder.disk == ["leader", "after"]


def _once(recorder: Recorder, sql: str, error: BaseException) -> None:
    del recorder.on[sql]
    raise error


def test_interrupts_at_any_moment_lose_neither_the_lead_nor_work(
    combiner: GroupCommit, recorder: Recorder, interrupts: Interrupts
) -> None:
    """The main thread is interrupted again and again while others write; all of theirs is done, and nobody hangs."""
    stop = threading.Event()

    def others(n: int) -> int:
        k = 0
        while not stop.is_set():
            assert combiner.run(partial(recorder.write, (n, k))) == (n, k)
            k += 1
        return k

    def interrupt() -> None:
        while not stop.wait(0.0002):
            interrupts.send()

    with ThreadPoolExecutor(5) as pool:
        running = [pool.submit(others, n) for n in range(4)]
        pool.submit(interrupt)
        cut = 0
        while cut < 100 and not any(each.done() for each in running):
            cut += interrupts.run(lambda: combiner.run(lambda: recorder.write("main")))
        stop.set()
        done = sum(each.result(60) for each in running)

    written = [each for each in recorder.disk if isinstance(each, tuple)]
    assert len(set(written)) == len(written) == done
