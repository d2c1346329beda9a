"""Who gets the free slots: fair over queues, targets and keys, past whatever is held."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest

from tests.databases import BOTH, Database
from tests.jobs.gating import Service, play, queue_on, working
from tidegate import Target
from tidegate.clock import VirtualClock
from tidegate.jobs import claim as job_claim
from tidegate.jobs.claim import START, RoundRobinCursor
from tidegate.jobs.fetch import ClaimRequest, Claims, claim
from tidegate.jobs.gates import ClaimGates
from tidegate.store.base import Params, Row, Tx

pytestmark = pytest.mark.parametrize("db", BOTH, indirect=True)


class Watched(Tx):
    """A transaction that notes which statements are run."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.names: list[str] = []

    def query(self, name: str, params: Params | None = None) -> list[Row]:
        self.names.append(name)
        return self._tx.query(name, params)

    def query_many(self, name: str, rows: Sequence[Params], params: Params | None = None) -> list[Row]:
        self.names.append(name)
        return self._tx.query_many(name, rows, params)

    def execute(self, sql: str) -> None:
        self._tx.execute(sql)

    def lock_migrations(self) -> None:
        self._tx.lock_migrations()

    def named(self, beginning: str) -> list[str]:
        return self._tx.named(beginning)

    def others_write(self, table: str) -> bool:
        return self._tx.others_write(table)


def test_a_quiet_key_does_not_wait_behind_a_noisy_one(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock)
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc"), key=lambda who: who)
        async def call(who: str) -> None:
            await service.call(who)

        call.enqueue_many([(each,) for each in ["noisy"] * 200])
        call.enqueue("quiet")

        async def main() -> None:
            async with working(q, concurrency=4):
                await asyncio.sleep(3)

        play(clock, main)

    assert service.times("quiet")[0] == 0


def test_a_quiet_target_does_not_wait_behind_one_with_many_keys(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock)
    with queue_on(db, clock) as q:

        @q.job(target=Target("a-noisy"), key=lambda n: n, name="noisy")
        async def noisy(n: int) -> None:
            await service.call("noisy")

        @q.job(target=Target("z-quiet"), name="quiet")
        async def quiet(n: int) -> None:
            await service.call("quiet")

        noisy.enqueue_many([(each,) for each in range(300)])
        quiet.enqueue_many([(each,) for each in range(10)])

        async def main() -> None:
            async with working(q, concurrency=4):
                await asyncio.sleep(4.5)

        play(clock, main)

    # Two of four slots each, for as long as both have work.
    assert sum(who == "quiet" for _, who in service.calls) == 10
    assert sum(who == "noisy" for at, who in service.calls if at < 5) == 10


def test_one_slot_goes_round_over_all_keys(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock)
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc"), key=lambda who: who)
        async def call(who: str) -> None:
            await service.call(who)

        call.enqueue_many([(who,) for who in "abcde" for _ in range(4)])

        async def main() -> None:
            async with working(q, concurrency=1):
                await asyncio.sleep(25)

        play(clock, main)

    order = [who for _, who in service.calls]
    assert [set(order[at : at + 5]) for at in range(0, 20, 5)] == [set("abcde")] * 4


def test_one_slot_goes_round_over_all_targets_and_queues(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock)
    with queue_on(db, clock) as q:
        for name in "abc":

            @q.job(queue=f"of-{name}", target=Target(name), name=name)
            async def call(who: str) -> None:
                await service.call(who)

            call.enqueue_many([(each,) for each in [name] * 4])

        async def main() -> None:
            async with working(q, concurrency=1):
                await asyncio.sleep(15)

        play(clock, main)

    order = [who for _, who in service.calls]
    assert [set(order[at : at + 3]) for at in range(0, 12, 3)] == [set("abc")] * 4


def test_the_order_in_which_a_database_sorts_names_keeps_nobody_from_their_turn(db: Database) -> None:
    """Many a PostgreSQL puts B between a and c."""
    clock = VirtualClock()
    with queue_on(db, clock) as q:
        for name in "aBc":

            @q.job(queue="all", target=Target(name), name=name)
            async def call(who: str) -> None: ...

            call.enqueue_many([(each,) for each in [name] * 2])

        def turn(tx: Tx, rounds: RoundRobinCursor) -> Claims:
            gates = ClaimGates({}, lambda: 0.5).turn(tx, "w", clock.now())
            fronts = sorted(job_claim.ready(tx, ["all"]).targets, key=lambda front: front.target.lower())
            return claim(tx, gates, fronts, ClaimRequest(worker="w", lease=30.0, room=1, slots=1, rounds=rounds))

        rounds, order = START, list[str]()
        for _ in range(6):
            taken = q.store.write(partial(turn, rounds=rounds))
            rounds = taken.rounds
            order += [job.target for job in taken.jobs]

    assert [set(order[at : at + 3]) for at in (0, 3)] == [set("aBc")] * 2


def test_within_a_key_the_most_urgent_and_then_the_oldest_goes_first(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock)
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc"))
        async def call(who: str) -> None:
            await service.call(who)

        for who, priority in (("second", 0), ("third", 0), ("first", 5)):
            call.options(priority=priority).enqueue(who)

        async def main() -> None:
            async with working(q, concurrency=1):
                await asyncio.sleep(4)

        play(clock, main)

    assert [who for _, who in service.calls] == ["first", "second", "third"]


@pytest.mark.parametrize("held", [300, 3000])
def test_keys_that_are_held_do_not_keep_others_from_their_turn(db: Database, held: int) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0)
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc"), key=lambda n: f"{n:06}")
        async def call(n: int) -> None:
            await service.call(n)

        call.enqueue_many([(each,) for each in range(held + 1)])
        spotted = q.target("svc")
        spotted.key("000000").disable("1h")

        def disable_all(tx: Tx) -> None:
            from tidegate.targets import actions

            for n in range(held):
                actions.disable_key(tx, "svc", f"{n:06}", "test", "1h")

        q.store.write(disable_all)

        async def main() -> None:
            async with working(q, concurrency=4):
                await asyncio.sleep(2)

        play(clock, main)

    assert [who for _, who in service.calls] == [held]


def test_a_shut_target_is_not_scanned(db: Database) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:
        target = Target("svc", breaker=True)

        @q.job(target=target, key=lambda n: n)
        async def call(n: int) -> None: ...

        call.enqueue_many([(each,) for each in range(50)])
        q.target("svc").force("open", "1h")
        gates = ClaimGates({"svc": target.for_jobs()}, lambda: 0.5)

        def look(tx: Tx) -> list[str]:
            from tidegate.jobs.fetch import FetchRequest, fetch
            from tidegate.store.migrate import Schema, core_migrations

            watched = Watched(tx)
            wish = FetchRequest(worker="w", queues=frozenset({"default"}), room=10, slots=10, lease=30, promote=False)
            done = fetch(watched, gates, [], wish, clock.now(), Schema(core_migrations()))
            assert not done.claimed
            assert done.opens_at == clock.now() + 3600
            return watched.names

        names = q.store.write(look)

    assert names == ["fronts", "migrations"]  # the schema is looked at once per process


def test_queues_of_other_workers_cost_one_look_each(db: Database) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:

        @q.job(queue="mine", name="mine")
        async def mine(n: int) -> None: ...

        @q.job(queue="theirs", name="theirs", target=Target("svc"), key=lambda n: n)
        async def theirs(n: int) -> None: ...

        theirs.enqueue_many([(each,) for each in range(20)])
        mine.enqueue(1)
        found = q.store.read(lambda tx: job_claim.ready(tx, {"mine", "nobody"}).targets)

    assert [front.place for front in found] == [("mine", "")]
