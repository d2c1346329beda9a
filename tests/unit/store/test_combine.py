from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from tidegate.errors import StoreBusy, StoreError, StoreFull
from tidegate.store.combine import Combiner


class Recorder:
    """Stands for a connection: keeps what was executed, and what is on disk."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.in_transaction = False
        self.open: list[object] = []  # what the transaction has written
        self.marks: list[int] = []
        self.disk: list[object] = []
        self.on: dict[str, Callable[[], None]] = {}

    def execute(self, sql: str) -> None:
        self.log.append(sql)
        if sql in self.on:
            self.on[sql]()
        match sql:
            case "begin immediate":
                assert not self.in_transaction
                self.in_transaction, self.open = True, []
            case "commit":
                assert self.in_transaction
                self.disk += self.open
                self.in_transaction = False
            case "rollback":
                assert self.in_transaction
                self.in_transaction = False
            case "savepoint piece":
                self.marks.append(len(self.open))
            case "rollback to piece":
                del self.open[self.marks[-1] :]
            case "release piece":
                self.marks.pop()

    def write(self, what: object) -> object:
        assert self.in_transaction
        self.open.append(what)
        return what

    @property
    def commits(self) -> int:
        return self.log.count("commit")


class Crowd:
    """A leader that is held inside its commit while others queue up behind it."""

    def __init__(self, combiner: Combiner, recorder: Recorder) -> None:
        self.combiner, self.recorder = combiner, recorder
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.results: dict[object, object] = {}
        self.threads: list[threading.Thread] = []

    def lead(self) -> None:
        def work() -> object:
            self.inside.set()
            assert self.go_on.wait(60)
            return self.recorder.write("leader")

        self.add("leader", work)
        assert self.inside.wait(60)

    def add(self, name: object, work: Callable[[], object] | None = None) -> None:
        waiting, led = self.combiner.waiting, bool(self.threads)

        def run() -> None:
            try:
                self.results[name] = self.combiner.run(work or (lambda: self.recorder.write(name)))
            except BaseException as error:
                self.results[name] = error

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.threads.append(thread)
        deadline = time.monotonic() + 60
        while led and self.combiner.waiting == waiting and time.monotonic() < deadline:
            time.sleep(0.0005)  # until it stands in the queue

    def add_behind(self, names: str, then: Callable[[], None] = lambda: None) -> threading.Thread:
        """These queue up as soon as somebody stands there."""

        def run() -> None:
            while not self.combiner.waiting:
                time.sleep(0.0005)
            for name in names:
                self.add(name)
            then()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def finish(self) -> dict[object, object]:
        self.go_on.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()
        return self.results


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def combiner(recorder: Recorder) -> Iterator[Combiner]:
    found = Combiner(recorder)
    yield found
    assert not recorder.in_transaction
    with contextlib.suppress(StoreError):  # it was closed
        assert found.run(lambda: "still works") == "still works"


def test_one_alone_commits_for_itself_without_a_savepoint(combiner: Combiner, recorder: Recorder) -> None:
    assert combiner.run(lambda: recorder.write(7)) == 7
    assert recorder.log == ["begin immediate", "commit"]
    assert recorder.disk == [7]


def test_those_who_wait_are_committed_together(combiner: Combiner, recorder: Recorder) -> None:
    crowd = Crowd(combiner, recorder)
    crowd.lead()
    for n in range(20):
        crowd.add(n)

    results = crowd.finish()

    wanted: dict[object, object] = {n: n for n in range(20)}
    assert results == wanted | {"leader": "leader"}
    assert recorder.disk == ["leader", *range(20)]
    assert recorder.commits == 2


def test_nobody_hears_of_success_before_the_commit(combiner: Combiner, recorder: Recorder) -> None:
    heard: list[int] = []
    recorder.on["commit"] = lambda: heard.append(len(crowd.results))
    crowd = Crowd(combiner, recorder)
    crowd.lead()
    crowd.add("a")
    crowd.add("b")
    crowd.finish()

    assert heard[0] == 0
    assert heard[1] <= 1  # the leader's own, which was committed before


def test_a_commit_takes_no_more_than_a_few_hundred(combiner: Combiner, recorder: Recorder) -> None:
    crowd = Crowd(combiner, recorder)
    crowd.lead()
    for n in range(300):
        crowd.add(n)

    assert len(crowd.finish()) == 301
    assert recorder.commits == 3


def test_one_that_fails_does_not_touch_the_others(combiner: Combiner, recorder: Recorder) -> None:
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


def test_one_alone_that_fails_leaves_nothing(combiner: Combiner, recorder: Recorder) -> None:
    with pytest.raises(ZeroDivisionError):
        combiner.run(lambda: recorder.write(1) and 1 / 0)

    assert recorder.disk == []
    assert recorder.log == ["begin immediate", "rollback"]


def test_a_writer_that_cannot_begin_is_an_error_for_everybody_and_each_has_its_own(
    combiner: Combiner, recorder: Recorder
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


def test_when_there_is_no_room_for_all_each_is_tried_alone(combiner: Combiner, recorder: Recorder) -> None:
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


def test_a_commit_that_fails_leaves_nothing_and_says_why(combiner: Combiner, recorder: Recorder) -> None:
    def full() -> None:
        raise StoreFull("no room")

    recorder.on["commit"] = full
    with pytest.raises(StoreFull):
        combiner.run(lambda: recorder.write(1))
    del recorder.on["commit"]

    assert (recorder.disk, recorder.in_transaction) == ([], False)


def test_a_write_inside_a_write_is_refused(combiner: Combiner, recorder: Recorder) -> None:
    with pytest.raises(RuntimeError, match="would wait for itself"):
        combiner.run(lambda: combiner.run(lambda: 1))


def test_after_closing_there_is_an_error(combiner: Combiner) -> None:
    combiner.close()
    combiner.close()

    with pytest.raises(StoreError, match="closed"):
        combiner.run(lambda: 1)


def test_closing_waits_for_the_commit_that_is_under_way(combiner: Combiner, recorder: Recorder) -> None:
    crowd = Crowd(combiner, recorder)
    crowd.lead()
    closing = threading.Thread(target=combiner.close)
    closing.start()
    while not combiner.waiting:
        time.sleep(0.0005)
    assert crowd.finish() == {"leader": "leader"}
    closing.join(60)

    assert recorder.disk == ["leader"]


# -- interrupted ------------------------------------------------------------------------------------------------


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
    combiner: Combiner, recorder: Recorder, interrupts: Interrupts
) -> None:
    crowd = Crowd(combiner, recorder)
    crowd.lead()

    interrupts.once(lambda: combiner.run(lambda: recorder.write("interrupted")), lambda: combiner.waiting == 1)
    crowd.add("after")

    assert crowd.finish()["after"] == "after"
    assert recorder.disk == ["leader", "after"]


def test_one_that_is_interrupted_with_others_behind_it_does_not_keep_them(
    combiner: Combiner, recorder: Recorder, interrupts: Interrupts
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
    combiner: Combiner, recorder: Recorder, interrupts: Interrupts
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
    combiner: Combiner, recorder: Recorder
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


def test_interrupts_at_any_moment_lose_neither_the_lead_nor_work(
    combiner: Combiner, recorder: Recorder, interrupts: Interrupts
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


def test_thirty_two_threads_are_all_served_and_share_their_commits(recorder: Recorder) -> None:
    class Slow(Recorder):
        def execute(self, sql: str) -> None:
            super().execute(sql)
            if sql == "commit":
                time.sleep(0.001)

    slow = Slow()
    combiner = Combiner(slow)

    def work(n: int) -> list[Any]:
        return [combiner.run(partial(slow.write, (n, k))) for k in range(30)]

    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(work, range(32)))

    assert results == [[(n, k) for k in range(30)] for n in range(32)]
    assert len(slow.disk) == 32 * 30
    assert slow.commits < 32 * 30 / 3
