"""A connection that writes down what it is told, and a crowd that wants to write at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tidegate.store.group_commit import GroupCommit


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

    def __init__(self, combiner: GroupCommit, recorder: Recorder) -> None:
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
