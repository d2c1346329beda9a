"""The clock of the store's host steps by days: nothing is deleted, expired or stuck because of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.databases import BOTH, Database
from tests.jobs.gating import Refusal, play, queue_on, working
from tests.store.jobs import rows
from tidegate import Again, Capacity, Queue, Target, outbox
from tidegate.clock import VirtualClock
from tidegate.errors import NotFound
from tidegate.events import NoticeKind
from tidegate.jobs import claim
from tidegate.jobs.claim import ReadyKey
from tidegate.outbox import NewNotice

DAY = 86400.0
MINUTE = 60.0

pytestmark = pytest.mark.parametrize("db", BOTH, indirect=True)


def sending(q: Queue) -> Any:
    @q.job(queue="mail", name="send", unique=lambda n: n, while_={"queued", "running", "done"}, expires="1h")
    async def send(n: int) -> None:
        await asyncio.sleep(0.01)

    return send


def there(q: Queue, *ids: int) -> list[str]:
    return [q.get(id_).state for id_ in ids]


def clock_notices(q: Queue) -> list[tuple[Any, ...]]:
    return rows(q.store, "select level, ended_at is not null from tg_notice where kind = 'clock' order by id")


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_is_days_ahead_for_a_while_deletes_and_expires_nothing(db: Database, restarted: bool) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:
        send = sending(q)
        jobs = [job.id for job in send.enqueue_many([(each,) for each in range(5)])]
        play(clock, lambda: _work(q, 30))
        assert there(q, *jobs) == ["done"] * 5
        waiting = send.options(due="10m").enqueue(7).id

        with queue_on(db, clock) as fresh:
            sending(fresh)

            async def ahead() -> None:
                if restarted:
                    clock.step_wall(8 * DAY)
                    assert fresh.clock.now() == clock.now()  # it does not know better before the database is opened
                async with working(fresh if restarted else q):
                    if not restarted:
                        clock.step_wall(8 * DAY)
                    await asyncio.sleep(45)
                    clock.step_wall(-8 * DAY)
                    await asyncio.sleep(2 * MINUTE)

            play(clock, ahead)

        assert there(q, *jobs) == ["done"] * 5
        assert there(q, waiting) == ["queued"]
        assert [send.enqueue(n).id for n in range(5)] == jobs  # so nothing is sent again
        assert clock_notices(q) == [("warning", 1 if db.sqlite else True)]
        play(clock, lambda: _work(q, 10 * MINUTE))
        assert there(q, waiting) == ["done"]


async def _work(q: Queue, seconds: float) -> None:
    async with working(q):
        await asyncio.sleep(seconds)


def test_a_clock_that_is_set_back_by_a_day_delays_neither_lost_jobs_nor_retries(db: Database) -> None:
    clock = VirtualClock()
    ran: list[tuple[str, float]] = []
    with queue_on(db, clock) as q:

        @q.job(queue="mail", name="send")
        async def send(what: str) -> None:
            ran.append((what, clock.monotonic()))
            if what == "retried" and len([each for each in ran if each[0] == what]) == 1:
                raise Again(20)

        send.enqueue("lost")
        q.store.write(lambda tx: claim.claim(tx, ReadyKey("mail", "", ""), 1, "dead", 30.0))
        send.enqueue("retried")

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(5)
                clock.step_wall(-DAY)
                await asyncio.sleep(MINUTE)

        play(clock, main)

    assert sorted(what for what, _ in ran) == ["lost", "retried", "retried"]


@pytest.mark.parametrize("step", [8 * DAY, -DAY])
def test_a_step_that_stays_moves_what_is_under_way_with_it(db: Database, step: float) -> None:
    clock = VirtualClock()
    ran: list[str] = []
    with queue_on(db, clock) as q:

        @q.job(queue="mail", name="send", expires="1h")
        async def send(what: str) -> None:
            ran.append(what)
            if what == "long":
                await asyncio.sleep(20 * MINUTE)
            if what == "retried" and ran.count(what) == 1:
                raise Again(12 * MINUTE)

        old = send.enqueue("old").id
        play(clock, lambda: _work(q, 10))
        long, retried = send.enqueue("long").id, send.enqueue("retried").id
        queued = send.options(due="10d").enqueue("queued").id

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(10)
                clock.step_wall(step)
                await asyncio.sleep(9 * MINUTE)
                assert ran == ["old", "long", "retried"]
                assert clock_notices(q) == [("warning", 0 if db.sqlite else False)]
                await asyncio.sleep(2 * MINUTE)  # the new time is believed by now
                assert abs(q.store.now() - clock.now()) < 1
                assert ran == ["old", "long", "retried"]
                await asyncio.sleep(10 * MINUTE)

        play(clock, main)
        assert ran == ["old", "long", "retried", "retried"]
        assert there(q, long, retried, queued, old) == ["done", "done", "queued", "done"]
        assert q.get(long).deaths == 0
        assert q.get(queued).expires_at == pytest.approx(clock.now() + 39 * MINUTE, abs=MINUTE)
        assert clock_notices(q) == [("warning", 1 if db.sqlite else True)]


def test_a_finished_job_is_kept_for_its_time_over_a_step_that_stays(db: Database) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:
        send = sending(q)
        done = send.enqueue(1).id
        play(clock, lambda: _work(q, 10))
        clock.step_wall(8 * DAY)
        play(clock, lambda: _work(q, 30 * MINUTE))
        assert abs(q.store.now() - clock.now()) < 1
        assert there(q, done) == ["done"]

        for day in range(1, 9):
            clock.advance(DAY)
            play(clock, lambda: _work(q, 2 * MINUTE))
            if day < 7:
                assert there(q, done) == ["done"]
        with pytest.raises(NotFound):
            q.get(done)


def test_after_a_reboot_on_a_clock_that_is_ahead_nothing_is_deleted_for_ten_minutes(db: Database) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:
        send = sending(q)
        done = send.enqueue(1).id
        play(clock, lambda: _work(q, 30))
        queued = send.options(due="10m").enqueue(2).id
    rebooted = VirtualClock(clock.now() + 8 * DAY)
    with queue_on(db, rebooted) as q:
        sending(q)
        play(rebooted, lambda: _work(q, 45))
        assert q.older_than("1d") == 0
        assert there(q, done) == ["done"]
        assert "expired" not in {event.code for event in q.events(queued)}
        play(rebooted, lambda: _work(q, 11 * MINUTE))  # the machine was off, after all
        with pytest.raises(NotFound):
            q.get(done)


@pytest.mark.parametrize("has_boot_id", [True, False])
@pytest.mark.parametrize("reboots", [1, 2])
@pytest.mark.parametrize("corrected", ["by a reboot", "while it runs"])
def test_a_clock_that_is_ahead_after_a_boot_expires_and_prunes_nothing_however_it_is_corrected(
    db: Database, has_boot_id: bool, reboots: int, corrected: str
) -> None:
    if not db.sqlite:
        pytest.skip("the server's clock counts, not the clock of a host that boots")
    ran: list[str] = []

    def declared(q: Queue) -> Any:
        return _noting(q, ran, expires="1h", unique=lambda what: what, while_={"queued", "running", "done"})

    def boot(at: float) -> VirtualClock:
        clock = VirtualClock(at)
        if not has_boot_id:
            clock.boot_id = ""
        return clock

    def worked(clock: VirtualClock, seconds: float, before: float = 0.0) -> None:
        """Works for some *seconds*, and corrects the clock before the last of them."""
        with queue_on(db, clock) as q:
            declared(q)

            assert q.older_than("1d") == 0  # before the first transaction, too

            async def main() -> None:
                async with working(q):
                    await asyncio.sleep(seconds - MINUTE)
                    clock.step_wall(-before)
                    await asyncio.sleep(MINUTE)

            play(clock, main)

    clock = boot(1_700_000_000.0)
    with queue_on(db, clock) as q:
        note = declared(q)
        done = note.enqueue("done").id
        play(clock, lambda: _work(q, 30))
        lost = note.enqueue("lost").id
        q.store.write(lambda tx: claim.claim(tx, ReadyKey("mail", "", ""), 1, "dead", 30.0))
        delayed = note.options(due="5m").enqueue("delayed").id
        later = note.options(due="50m").enqueue("later").id
        clock.advance(20)
        play(clock, lambda: _work(q, 1))
    for n in range(reboots):
        clock = boot(clock.now() + 10 + (8 * DAY if n == 0 else 0))
        is_last = n == reboots - 1 and corrected == "while it runs"
        worked(clock, 2 * MINUTE, 8 * DAY if is_last else 0)
    if corrected == "by a reboot":
        clock = boot(clock.now() + 10 - 8 * DAY)
        worked(clock, MINUTE)
    with queue_on(db, clock) as q:
        note = declared(q)
        assert note.enqueue("done").id == done
        assert q.older_than("1d") > 0
        # Within a minute after the correction. Delays are over by the clock that was ahead.
        assert sorted(ran) == ["delayed", "done", "later", "lost"]
        assert there(q, done, lost, delayed, later) == ["done"] * 4
        play(clock, lambda: _work(q, 10 * MINUTE))
        assert len(ran) == 4


def test_a_lease_that_was_extended_on_a_clock_that_is_ahead_ends_soon_after_its_correction(db: Database) -> None:
    if not db.sqlite:
        pytest.skip("the server's clock counts, not the clock of a host that boots")
    clock = VirtualClock()
    with queue_on(db, clock) as q:
        lost = _noting(q, [], attempts=1).enqueue("lost").id
        q.store.write(lambda tx: claim.claim(tx, ReadyKey("mail", "", ""), 1, "dead", 30.0))
    ahead = VirtualClock(clock.now() + 8 * DAY)
    with queue_on(db, ahead) as q:
        _noting(q, [], attempts=1)

        async def main() -> None:
            async with working(q, sweep_every=5.0):
                await asyncio.sleep(10)
                assert (q.get(lost).lease_until or 0) > clock.now() + DAY
                ahead.step_wall(-8 * DAY)
                await asyncio.sleep(MINUTE)

        play(ahead, main)
        job = q.get(lost)
        assert (job.state, job.error_code) == ("failed", "worker_lost")


@pytest.mark.parametrize("expires", [None, "1h"])
@pytest.mark.parametrize("has_parent", [False, True])
def test_a_delay_from_a_clock_that_is_ahead_ends_in_time_although_the_clock_was_also_set_ahead_since(
    db: Database, has_parent: bool, expires: str | None
) -> None:
    if not db.sqlite:
        pytest.skip("the server's clock counts, not the clock of a host that boots")
    ran: list[str] = []
    clock = VirtualClock()
    with queue_on(db, clock) as q:
        _noting(q, ran, expires=expires)
        play(clock, lambda: _work(q, 10))
    ahead = VirtualClock(clock.now() + 8 * DAY)
    with queue_on(db, ahead) as q:
        note = _noting(q, ran, expires=expires)
        play(ahead, lambda: _work(q, 10))
        parents = [note.options(due="2m").enqueue("parent")] if has_parent else []
        note.options(due="15m", after=parents).enqueue("delayed")
        ahead.step_wall(200)
        play(ahead, lambda: _work(q, 10))
    again = VirtualClock(ahead.now() + 70)  # its clock keeps the 200 seconds
    with queue_on(db, again) as q:
        _noting(q, ran, expires=expires)
        play(again, lambda: _work(q, MINUTE))
        again.step_wall(-8 * DAY)
        play(again, lambda: _work(q, 5 * MINUTE))
        assert "delayed" not in ran
        play(again, lambda: _work(q, 10 * MINUTE))
        assert ran == [*(["parent"] if has_parent else []), "delayed"]


@pytest.mark.parametrize("probe", ["fails", "stops"])
def test_a_hold_that_was_probed_on_a_clock_that_is_ahead_ends_in_time_after_its_correction(
    db: Database, probe: str
) -> None:
    if not db.sqlite:
        pytest.skip("the server's clock counts, not the clock of a host that boots")
    calls: list[float] = []
    target = Target("svc", breaker=None, backoff=None)

    def boot(clock: VirtualClock, q: Queue) -> Any:
        @q.job(queue="mail", name="call", target=target, key=lambda who: who)
        async def call(who: str) -> None:
            calls.append(clock.now())
            if len(calls) == 2 and probe == "stops":
                await asyncio.sleep(1000)
            if len(calls) < 3:
                raise Refusal(429, retry_after="40")

        return call

    clock = VirtualClock()
    with queue_on(db, clock) as q:
        called = boot(clock, q).enqueue("ada").id
        play(clock, lambda: _work(q, 10))
    assert len(calls) == 1
    ahead = VirtualClock(clock.now() + 8 * DAY)
    with queue_on(db, ahead) as q:
        boot(ahead, q)
        play(ahead, lambda: _work(q, 10))
        assert len(calls) == 2
        ahead.step_wall(-8 * DAY)
        play(ahead, lambda: _work(q, 2 * MINUTE))

        assert len(calls) == 3
        assert there(q, called) == ["done"]
        assert rows(q.store, "select count(*) from tg_hold") == [(0,)]


def test_after_a_reboot_on_a_clock_that_is_behind_nothing_waits_for_it(db: Database) -> None:
    clock = VirtualClock()
    ran: list[str] = []
    with queue_on(db, clock) as q:
        _noting(q, ran).enqueue("lost")
        q.store.write(lambda tx: claim.claim(tx, ReadyKey("mail", "", ""), 1, "dead", 30.0))
        play(clock, lambda: _work(q, 10))
    rebooted = VirtualClock(clock.now() - DAY)
    with queue_on(db, rebooted) as q:
        _noting(q, ran)
        play(rebooted, lambda: _work(q, MINUTE))

    assert ran == ["lost"]


def _noting(q: Queue, ran: list[str], **declared: Any) -> Any:
    @q.job(queue="mail", name="note", **declared)
    async def note(what: str) -> None:
        ran.append(what)

    return note


@pytest.mark.parametrize("step", [8 * DAY, -DAY])
def test_delays_and_children_go_on_over_a_step_and_dates_stay(db: Database, step: float) -> None:
    clock = VirtualClock()
    ran: dict[str, float] = {}
    with queue_on(db, clock) as q:

        @q.job(queue="mail", name="note")
        async def note(what: str) -> None:
            ran[what] = clock.monotonic()
            if what == "parent":
                await asyncio.sleep(15 * MINUTE)

        delayed, date = note.options(due="20m").enqueue("delayed"), clock.now() + 10 * DAY
        note.options(after=[note.enqueue("parent")]).enqueue("child")
        note.options(after=[delayed], due="30m").enqueue("late child")
        dated = note.options(due=date).enqueue("dated").id

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(10)
                clock.step_wall(step)
                await asyncio.sleep(35 * MINUTE)

        play(clock, main)
        assert abs(q.store.now() - clock.now()) < 1
        assert ran.keys() == {"delayed", "parent", "child", "late child"}
        assert ran["child"] == pytest.approx(15 * MINUTE, abs=5)
        assert ran["delayed"] == pytest.approx(20 * MINUTE, abs=15)
        assert ran["late child"] == pytest.approx(30 * MINUTE, abs=15)
        assert q.get(dated).due_at == date


@pytest.mark.parametrize("step", [8 * DAY, -DAY])
def test_what_was_sent_to_a_full_target_counts_for_its_time_over_a_step(db: Database, step: float) -> None:
    if not db.sqlite:
        pytest.skip("a virtual clock steps for all connections at once, before one of them has moved the stored times")
    clock = VirtualClock()
    sent: list[float] = []
    with queue_on(db, clock) as q:
        # It shows nothing of what it has taken, so that our own sends alone fill it.
        target = Target("full", backoff=None, capacity=Capacity(2, depth=lambda: 0, own="30m"))

        @q.job(queue="mail", name="send", target=target)
        async def send(n: int) -> None:
            sent.append(clock.monotonic())

        send.enqueue_many([(each,) for each in range(4)])

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(MINUTE)
                clock.step_wall(step)
                await asyncio.sleep(28 * MINUTE)
                assert abs(q.store.now() - clock.now()) < 1
                assert len(sent) == 2
                await asyncio.sleep(3 * MINUTE)

        play(clock, main)
    assert len(sent) == 4


def test_a_notice_from_before_a_step_back_is_followed_by_its_end(db: Database) -> None:
    clock = VirtualClock()
    place = outbox.NoticeSubject(subject="target", name="shop")
    with queue_on(db, clock) as q:
        _noting(q, [])
        trouble = NewNotice(
            kind=NoticeKind.FATAL, level="error", place=place, episode=clock.now(), title="t", message="m"
        )
        q.store.write(lambda tx: outbox.raise_notice(tx, trouble))
        clock.step_wall(-DAY)
        play(clock, lambda: _work(q, 11 * MINUTE))
        assert abs(q.store.now() - clock.now()) < 1
        q.store.write(lambda tx: outbox.resolve_notices(tx, place, (NoticeKind.FATAL,)))

        ((created, ended),) = rows(q.store, "select created_at, ended_at from tg_notice where name = 'shop'")
        assert ended - created == pytest.approx(11 * MINUTE, abs=MINUTE)


STATEMENTS = """
-- name: add
insert into shop_order (id, due_at, written_at) values (:id, {now} + 3600, {now});

-- name: left
select id, due_at - {now} from shop_order order by id;

-- name: shift_orders
update shop_order set due_at = due_at + :by, written_at = written_at + :by
where written_at < :after or written_at > :is;
"""


@pytest.mark.parametrize("step", [8 * DAY, -DAY])
@pytest.mark.parametrize("alone", [True, False])
def test_the_times_of_an_application_follow_once(db: Database, tmp_path: Path, step: float, alone: bool) -> None:
    """Also where another process, which does not know the application, has found the step."""
    clock = VirtualClock()
    table = "create table shop_order (id bigint primary key, due_at double precision, written_at double precision);"
    (tmp_path / "0001_shop.sql").write_text(table)

    def opened(q: Queue) -> Any:
        _noting(q, [])
        return q.db("shop", statements=STATEMENTS, migrations=tmp_path)

    with queue_on(db, clock) as q, queue_on(db, clock) as other:
        shop = opened(q)
        _noting(other, [])
        play(clock, lambda: _work(q, 10))
        shop.all("add", id=1)
        clock.step_wall(step)
        finder = q if alone else other
        play(clock, lambda: _work(finder, 11 * MINUTE))
        with queue_on(db, clock) as fresh:
            found = opened(fresh)
            play(clock, lambda: _work(fresh, 15))
            found.all("add", id=2)
            play(clock, lambda: _work(q, 15))
            assert abs(q.store.now() - clock.now()) < 1
            ((_, first), (_, second)) = found.all("left")
    assert first == pytest.approx(3600 - 11 * MINUTE - 30, abs=15)
    assert second == pytest.approx(3600 - 15, abs=5)
