"""Carries out blows. What lasts is begun and ended by the clock, so that blows of all kinds overlap."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import psycopg

from tests.acceptance.checker import rows
from tests.chaos.clocks import Clock
from tests.chaos.copies import Copies
from tests.chaos.crew import Crew, Seat
from tests.chaos.disks import SizeLimit, SmallDisk
from tests.chaos.on_file import OnFile
from tests.chaos.on_server import OnServer
from tests.chaos.orders import Orders
from tests.chaos.proxy import WireThread
from tests.chaos.rollout import Rollout
from tests.chaos.schedule import Blow
from tests.chaos.server import ServerUnderFire

_AT_WORK = "select pid from tg_worker"
_LEADERS = "select holder from tg_leader order by name <> 'sweeper'"
_FARTHEST = 400 * 86400.0  # seconds
_STEPS = (10, 600, 10 * 86400.0, _FARTHEST)
_HELD = "select id, fence from tg_job where state = 'running' and lease_by like '%-{}-%'"
_DONE_AGAIN = "select 1 from tg_job where state = 'running' and ({})"
_STILL_OPEN = "select 1 from tg_job where state in ('blocked', 'waiting', 'ready', 'running') and id in ({})"
_LONGEST_PAUSE = 180.0  # seconds that a paused worker's jobs may take to be done again, on a slow machine
_NEED_ROOM = ("harm the file", "roll out a version")
_TRIES = 40  # to find the leader in the middle of a transaction
_OPEN = "select 1 from pg_stat_activity where xact_start is not null and application_name = '{}'"


@dataclass
class Field:
    """Everything that can be hit."""

    url: str  # past the wire
    crew: Crew
    copies: Copies
    disk: SmallDisk | SizeLimit
    clocks: list[Clock]
    orders: Orders
    server: ServerUnderFire | None = None
    wire: WireThread | None = None

    @property
    def there(self) -> set[str]:
        """What some kinds of blows need."""
        found = {"clock": self.clocks, "postgres": self.server, "file": self.server is None}
        more = {} if (it := self.server) is None else {"disk of the server": it.disk, "clock of the server": it.clock}
        return {name for name, each in (*found.items(), *more.items()) if each}

    @property
    def every_clock(self) -> list[Clock]:
        """That of the server included."""
        return [*self.clocks, *([self.server.clock] if self.server and self.server.clock else [])]


@dataclass
class Watch:
    """One who is paused, and the jobs that it held with their fences."""

    seat: Seat
    held: dict[int, int]


@dataclass
class Attack:
    """What has been done, and what is still to end."""

    at: Field
    done: Counter[str] = field(default_factory=Counter)
    in_transaction: int = 0  # leaders that were killed in the middle of one
    on_server: OnServer | None = None
    on_file: OnFile | None = None
    _ends: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    _watched: list[Watch] = field(default_factory=list)
    _put_in: int = 0  # how long the list of acknowledged jobs was when the enqueuer was killed last
    _copying: list[threading.Thread] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _full: bool = False  # the disk

    def __post_init__(self) -> None:
        if self.at.server is not None and self.at.wire is not None:
            self.on_server = OnServer(self.at.server, self.at.wire, self._until)
        else:
            file = Path(self.at.url.removeprefix("sqlite:///"))
            self.on_file = OnFile(file, self.at.orders, self.at.crew, self.at.copies, self._until, self._tend_all)
        self.rollout = Rollout(self.at.url, self.at.orders, self.at.crew, self._until, self._over)
        self.at.copies.environment = lambda: self.at.crew.environment

    def strike(self, blow: Blow) -> bool:
        """False when it is not possible just now."""
        do: dict[str, Callable[[Blow], bool]] = {
            "kill a worker": self._kill, "kill the leader": self._kill_leader, "kill the enqueuer": self._kill_enqueuer,
            "pause a worker": self._pause, "stop a worker": self._stop, "fill the disk": self._fill,
            "step a clock": self._step, "copy the database": self._copy,
            "roll out a version": lambda _: self.rollout.begin(),
            **({} if self.on_server is None else self.on_server.strikes()),
            **({} if self.on_file is None else self.on_file.strikes()),
        }  # fmt: skip
        if self._full and blow.kind in _NEED_ROOM:
            return False
        hit = do[blow.kind](blow)
        self.done[blow.kind] += hit
        return hit

    def tend(self) -> None:
        """Ends what has lasted long enough; wakes a worker while another one does its job again."""
        now = time.monotonic()
        for watch in list(self._watched):
            if watch.seat.paused_until is None or self._done_again(watch):
                self._watched.remove(watch)
                self.at.crew.wake(watch.seat)
        for each in [each for each in self._ends if each[0] <= now]:
            self._ends.remove(each)
            each[1]()
        if self.at.server is not None:
            self.at.server.tend()
        self.rollout.tend()

    def _tend_all(self) -> None:
        self.at.crew.tend()
        self.tend()

    def _done_again(self, watch: Watch) -> bool:
        """Whether another one is at it, or all of it has ended."""
        newer = " or ".join(f"(id = {job} and fence > {fence})" for job, fence in watch.held.items())
        jobs = ", ".join(map(str, watch.held))
        try:
            again = rows(self.at.url, _DONE_AGAIN.format(newer))
            return bool(again or not rows(self.at.url, _STILL_OPEN.format(jobs)))
        except (apsw.Error, psycopg.Error):
            return False

    def over(self) -> None:
        """Everything is as it should be again, but for those who were killed."""
        self._over.set()
        for _, end in self._ends:
            end()
        self._ends.clear()
        for seat in self.at.crew.seats:
            self.at.crew.wake(seat)
        for clock in self.at.every_clock:
            clock.step(0)
        for thread in self._copying:
            thread.join()

    def _until(self, seconds: float, end: Callable[[], None]) -> None:
        self._ends.append((time.monotonic() + seconds, end))

    def _victim(self, blow: Blow) -> Seat | None:
        """One of those at work, as long as another one is: on a slow machine, starting takes longer than working."""
        free = self._at_work()
        return free[int(blow.roll * len(free))] if len(free) > 1 else None

    def _at_work(self) -> list[Seat]:
        try:
            known = {pid for (pid,) in rows(self.at.url, _AT_WORK)}
        except (apsw.Error, psycopg.Error):
            return []
        return [seat for seat in self.at.crew.free() if seat.process and seat.process.pid in known]

    def _kill(self, blow: Blow) -> bool:
        # Now and then one that starts, too.
        seat = self.at.crew.free()[-1] if blow.roll < 0.1 and self.at.crew.free() else self._victim(blow)
        if seat is not None:
            self.at.crew.kill(seat)
        return seat is not None

    def _kill_enqueuer(self, blow: Blow) -> bool:
        """Only one that has put something in: on a slow machine, starting takes longer than that."""
        there = self.at.orders.acknowledged.stat().st_size
        if there == self._put_in:
            return False
        self._put_in = there
        self.at.crew.kill(self.at.crew.enqueuer)
        return True

    def _kill_leader(self, blow: Blow) -> bool:
        """Stops whoever sweeps for all, again and again, until that is in the middle of a transaction; kills it."""
        crew, seat = self.at.crew, next(iter(self._leaders()), None)
        if seat is None or len(self._at_work()) < 2:
            return False
        dice = random.Random(blow.roll)
        for _ in range(_TRIES):
            time.sleep(dice.random() * 0.05)
            crew.signal(seat, signal.SIGSTOP)
            if self._inside(seat):
                self.in_transaction += 1
                break
            crew.signal(seat, signal.SIGCONT)
        crew.kill(seat)
        return True

    def _leaders(self) -> list[Seat]:
        """Those at work who do something for all; the sweeper comes first."""
        try:
            holders = [str(holder) for (holder,) in rows(self.at.url, _LEADERS)]
        except (apsw.Error, psycopg.Error):
            return []
        by_pid = {seat.process.pid: seat for seat in self._at_work() if seat.process}
        return [by_pid[pid] for pid in (int(holder.split("-")[-2]) for holder in holders) if pid in by_pid]

    def _inside(self, seat: Seat) -> bool:
        """Whether this one, which stands still, has a transaction open."""
        if self.at.server is not None:
            time.sleep(0.05)  # what it had sent has arrived by then, and was answered
            try:
                return bool(rows(self.at.url, _OPEN.format(seat.name)))
            except psycopg.Error:
                return False
        try:
            connection = apsw.Connection(self.at.url.removeprefix("sqlite:///"), apsw.SQLITE_OPEN_READWRITE)
        except apsw.Error:
            return False
        connection.set_busy_timeout(150)  # what the others have open is closed by then
        try:
            connection.execute("begin immediate")
        except apsw.Error:
            return True
        else:
            return False
        finally:
            connection.close()

    def _pause(self, blow: Blow) -> bool:
        seat = self._victim(blow)
        if seat is None or seat.process is None:
            return False
        self.at.crew.pause(seat, blow.lasts)
        # SQLite has one writer: while that is paused, nobody does its jobs again.
        locks_all = self.at.server is None and self._inside(seat)
        if blow.roll < 0.7 and not locks_all:  # the others wake when they wake
            with contextlib.suppress(apsw.Error, psycopg.Error):
                if held := dict(rows(self.at.url, _HELD.format(seat.process.pid))):
                    self._watched.append(Watch(seat, held))
                    seat.paused_until = time.monotonic() + _LONGEST_PAUSE
        return True

    def _stop(self, blow: Blow) -> bool:
        seat = self._victim(blow)
        if seat is not None:
            self.at.crew.stop(seat)
        return seat is not None

    def _fill(self, blow: Blow) -> bool:
        disk, pids = self.at.disk, self.at.crew.pids()
        if self._full:
            return False

        def free() -> None:
            disk.free(pids)
            self._full = False

        disk.fill(pids)
        self._full = True
        self._until(blow.lasts, free)
        return True

    def _step(self, blow: Blow) -> bool:
        clocks = self.at.clocks
        if len(clocks) == 1:
            dice = random.Random(blow.roll)  # all processes of the one host see the same step
            clocks[0].step(dice.choice(_STEPS) * (2 * dice.random() - 1))
        else:
            # Whoever does something for all may do most harm by it.
            dice, leaders = random.Random(blow.roll), self._leaders()
            clock = dice.choice(leaders).clock if leaders and dice.random() < 0.5 else dice.choice(clocks)
            assert clock is not None
            clock.step(dice.choice(_STEPS) * (2 * dice.random() - 1))
        return True

    def _copy(self, blow: Blow) -> bool:
        thread = threading.Thread(target=self.at.copies.make_one, args=(self._over,), daemon=True)
        thread.start()
        self._copying.append(thread)
        return True
