from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.databases import POSTGRES, Database
from tests.store.jobs import Clock, Jobs, new
from tidegate.errors import UniqueTaken
from tidegate.jobs import insert, outcome, settle
from tidegate.jobs.job import AttemptOutcome, Claimed, StoredState
from tidegate.jobs.outcome import Again, KindPolicy
from tidegate.store.base import Tx


def test_a_new_store_has_no_numbers(jobs: Jobs) -> None:
    assert jobs.tallies() == {}


def test_the_numbers_are_those_of_each_queue(jobs: Jobs) -> None:
    jobs.put(
        new(queue="a"), new(queue="a", due_at=jobs.clock.now + 9), new(queue="b", key="x"), new(queue="b", key="x")
    )

    assert jobs.tallies() == {("a", "ready"): 1, ("a", "waiting"): 1, ("b", "ready"): 1}


@pytest.mark.req("CNV-15")
def test_adding_up_changes_no_number_and_leaves_one_row_for_each(jobs: Jobs) -> None:
    for n in range(20):
        jobs.one(queue=f"q{n % 2}")
    jobs.fail(1)
    before = {key: n for key, n in jobs.tallies().items() if n}

    assert jobs.store.write(settle.fold_counters) > len(before)

    assert jobs.tallies() == before
    assert jobs.sql("select count(*) from tg_tally") == [(len(before),)]
    assert jobs.store.write(settle.fold_counters) == 0  # what stands in one row is not written once more


@pytest.mark.req("CNV-15")
def test_failures_and_retries_are_counted_for_ever(jobs: Jobs) -> None:
    for code in ("gone", "gone", "timeout"):
        jobs.fail(jobs.one(), code=code)
    jobs.retry(1)
    jobs.fail(1, code="gone")
    for id_ in (1, 2, 3):
        jobs.forget(id_)

    assert {key[1]: n for key, n in jobs.tallies().items() if "total" in key[1]} == {
        "failed_total:gone": 3, "failed_total:timeout": 1, "bad_total": 4, "manual_retry_total": 1, "took_total:0": 4,
    }  # fmt: skip


def test_a_transaction_that_fails_leaves_no_number(jobs: Jobs) -> None:
    def work(tx: Tx) -> None:
        insert.enqueue(tx, [new()])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        jobs.store.write(work)

    assert jobs.tallies() == {}


def test_nothing_is_lost_while_others_add_and_two_leaders_add_up(db: Database, jobs: Jobs, clock: Clock) -> None:
    stores = [Jobs(db.open(clock), clock) for _ in range(4)]
    stop = threading.Event()

    def put(mine: Jobs) -> int:
        for n in range(60):
            mine.put(*(new(queue=f"q{n % 3}") for _ in range(3)))
        return 0

    def fold(mine: Jobs) -> int:
        taken = 0
        while not stop.is_set():
            taken += mine.store.write(settle.fold_counters)
        return taken

    with ThreadPoolExecutor(4) as pool:
        folding = [pool.submit(fold, each) for each in stores[2:]]
        list(pool.map(put, stores[:2]))
        stop.set()
        assert sum(each.result() for each in folding) > 0
    for each in stores:
        each.store.close()

    assert {key: n for key, n in jobs.tallies().items() if n} == {(f"q{n}", "ready"): 120 for n in range(3)}


class Life:
    """Does anything that can be done to a store, at random; `check` compares its numbers with what is there."""

    def __init__(self, jobs: Jobs, seed: int) -> None:
        self.jobs, self.dice = jobs, random.Random(seed)
        self.ids: list[int] = []
        self.held: list[Claimed] = []  # also leases that were lost long ago

    def step(self) -> None:
        self.dice.choice([
            self.put, self.put, self.put_child, self.claim, self.claim, self.settle, self.settle, self.renew,
            self.retry, self.cancel, self.forget, self.wait, self.sweep, self.refuse, self.fold,
        ])()  # fmt: skip

    def some(self) -> int:
        return self.dice.choice(self.ids) if self.ids else 0

    def put(self) -> None:
        now, dice = self.jobs.clock.now, self.dice
        wanted = [
            new(
                dice.choice([None, None, "x", "y"]), queue=dice.choice("ab"), lane=dice.choice("mn"),
                due_at=dice.choice([None, now - 5, now + 20]), expires_in=dice.choice([None, None, 30]),
                most_attempts=dice.randint(1, 3), priority=dice.randint(-1, 1),
            )
            for _ in range(dice.randint(1, 3))
        ]  # fmt: skip
        self.ids += [each.id for each in self.jobs.put(*wanted) if each.created]

    def put_child(self) -> None:
        try:
            wanted = new(self.dice.choice([None, "x", "z"]), queue="a", parents=(self.some(), self.some()))
            self.ids += [each.id for each in self.jobs.put(wanted) if each.created]
        except ValueError:
            assert not all(self._there(id_) for id_ in wanted.parents)

    def _there(self, id_: int) -> bool:
        return bool(self.jobs.sql(f"select 1 from tg_job where id = {id_}"))

    def claim(self) -> None:
        self.held += self.jobs.claim(
            self.dice.randint(1, 4), f"w{self.dice.randint(1, 3)}", self.dice.choice("mn"), self.dice.choice("ab")
        )
        self.held += self.jobs.claim(2, "w1", "", "a")

    def settle(self) -> None:
        chosen = [self.held.pop(self.dice.randrange(len(self.held))) for _ in range(min(3, len(self.held)))]
        ways: list[Callable[[Claimed], AttemptOutcome]] = [
            lambda job: outcome.done(job, "1"),
            lambda job: outcome.failed(job, self.dice.choice(["gone", "timeout"]), "No."),
            lambda job: outcome.again(job, Again(self.dice.choice([0, 5])), KindPolicy()),
            lambda job: outcome.released(job, unsent=self.dice.random() < 0.5),
            outcome.cancelled,
        ]
        self.jobs.settle(*(self.dice.choice(ways)(job) for job in chosen))
        if self.dice.random() < 0.2:
            self.held += chosen  # and it is said twice

    def renew(self) -> None:
        self.jobs.renew(*self.held)

    def retry(self) -> None:
        with contextlib.suppress(UniqueTaken):
            self.jobs.retry(self.some())

    def cancel(self) -> None:
        self.jobs.cancel(self.some())

    def forget(self) -> None:
        if self.dice.random() < 0.5:
            self.jobs.forget(self.some())
        else:
            stage = self.dice.choice([StoredState.DONE, StoredState.FAILED, StoredState.CANCELLED])
            self.jobs.prune(stage, self.jobs.clock.now - 20, 3, "a")

    def wait(self) -> None:
        self.jobs.clock.advance(self.dice.choice([0.1, 5, 31]))

    def sweep(self) -> None:
        self.jobs.promote()
        self.jobs.take_back()
        self.jobs.expire()

    def refuse(self) -> None:
        self.ids.append(self.jobs.refuse(queue="b"))

    def fold(self) -> None:
        self.jobs.store.write(settle.fold_counters)


@pytest.mark.parametrize("seed", range(4))
def test_the_numbers_are_exactly_what_is_there_whatever_was_done(jobs: Jobs, seed: int) -> None:
    life = Life(jobs, seed)
    for n in range(300):
        life.step()
        if n % 10 == 0:
            jobs.check()


@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
def test_the_numbers_are_exact_after_many_lives_at_once(db: Database, jobs: Jobs, clock: Clock) -> None:
    """Eight connections do anything to the same jobs at the same time; none is refused, and all adds up in the end."""
    stores = [Jobs(db.open(clock), clock) for _ in range(8)]
    lives = [Life(each, seed) for seed, each in enumerate(stores)]
    shared: list[int] = []
    for life in lives:
        life.ids = shared

    def live(life: Life) -> None:
        for _ in range(120):
            life.step()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(live, lives))
    for each in stores:
        each.store.close()
