"""One run on one database: the fire, then quiet until everything has ended, then the verdict."""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import psycopg

from tests.acceptance.checker import Verdict, rows
from tests.chaos.attack import Attack, Field
from tests.chaos.clocks import Clock, clock_library
from tests.chaos.copies import Copies
from tests.chaos.crew import Crew, crew
from tests.chaos.disks import small_disk
from tests.chaos.judge import judge
from tests.chaos.orders import Orders
from tests.chaos.proxy import WireThread, wire_to
from tests.chaos.schedule import blows
from tests.chaos.server import ServerUnderFire, server_under_fire

WORKERS = 4
_STILL = "select 1 from tg_job where kind <> 'sweeps' and state not in ('done', 'failed', 'cancelled') limit 1"
_ANY = "select 1 from tg_job where state not in ('done', 'failed', 'cancelled') limit 1"
_STUCK_COLUMNS = ("id", "kind", "state", "suspect", "attempt", "created_at", "due_at", "last_at", "lease_until")
_STUCK = f"""select {", ".join(_STUCK_COLUMNS)} from tg_job
    where state not in ('done', 'failed', 'cancelled') order by id limit 3"""
_STATES = "select state, count(*) from tg_job where kind <> 'sweeps' group by state"
_OUT_OF_MEMORY = "select count(*) from tg_event where code in ('child_memory', 'child_died')"
_JOINED = "select count(*) from tg_job where kind = 'joins' and state = 'done'"
_PARENTS = "select count(*) from tg_job where kind = 'gives'"
_OPEN = ("blocked", "waiting", "ready", "running")
_OUTLIVED = re.compile(r'"event": "lease_lost", "job": (\d+), "fence": (\d+)')
_EVERY = 5.0  # seconds between two lines of progress
_START = 300.0  # seconds that the workers may take to begin
_HOPELESS = 20  # workers that ended by themselves: nothing more can be learned
COPIED = "a copy can be made under fire"
COPIES = "a copy that was made under fire can be put back"
PROCESSES = "processes end only as they are told"
FILE = "nothing is acknowledged without a file, and that is said"
ENDS = "all jobs come to an end"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What one run is."""

    database: str  # sqlite or postgres
    seconds: float
    seed: int
    folder: Path
    plant: str = ""
    patience: float = 300.0  # seconds of quiet until everything must have ended
    late: float = 150.0  # seconds that blows may come late, on a slow machine, before they are left out
    often: float = 1.0  # times as many blows
    mount: bool = True  # the small disk, where that is allowed
    only: str = ""  # one kind of blow, and no other


@dataclass
class Outcome:
    """How it went."""

    plan: Plan
    verdict: Verdict = field(default_factory=Verdict)
    done: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    notes: dict[str, str] = field(default_factory=dict)  # such as why there are no steps of clocks
    broken: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    figures: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def wrong(self) -> dict[str, list[str]]:
        """Every promise that was broken, and the cases."""
        return {**self.verdict.wrong, **self.broken}

    def copied(self, copies: Copies) -> None:
        """Adds what became of the copies. One that was not made is noted, as long as another one was."""
        for why in copies.failed:
            self.notes["a copy was not made"] = " ".join(why.split())[:300]
        for promise, cases in ((COPIED, copies.unmade()), (COPIES, copies.wrong())):
            if cases:
                self.broken[promise] += cases
        self.figures |= {"copies made, and put back": len(copies.made), "copies not made": len(copies.failed)}


def run(plan: Plan, say: Say) -> Outcome:
    """The whole of it; nothing of it is left but its folder."""
    outcome = Outcome(plan)
    began = time.monotonic()
    with _field(plan, outcome) as (at, orders):
        attack = Attack(at)
        _fire(plan, attack, outcome, say)
        say(f"{plan.database}: quiet")
        attack.over()
        _quiet(plan, at, orders, outcome, say)
        outcome.verdict = judge(
            at.url,
            acknowledged=orders.acknowledged,
            begun=orders.begun,
            made=orders.made,
            drafts=orders.drafts,
            killed=orders.killed,
            paused=orders.paused,
            outdated=orders.outdated,
            restored=orders.restored,
            outlived=_outlived(at.crew),
        )
        say(f"{plan.database}: {outcome.verdict}")
        _add(outcome, at.copies, at.crew, attack)
    outcome.seconds = time.monotonic() - began
    return outcome


@contextlib.contextmanager
def _field(plan: Plan, outcome: Outcome) -> Iterator[tuple[Field, Orders]]:
    with contextlib.ExitStack() as stack:
        folder = plan.folder / plan.database
        folder.mkdir(parents=True)
        disk = stack.enter_context(small_disk(folder / "disk", mount=plan.mount))
        outcome.notes["the disk is"] = disk.how
        server: ServerUnderFire | None = None
        wire: WireThread | None = None
        if plan.database == "sqlite":
            url = theirs = f"sqlite:///{folder / 'disk' / 'jobs.db'}"
        else:
            server = stack.enter_context(server_under_fire(mount=plan.mount))
            if server.clock is None:
                outcome.notes["THE CLOCK OF THE SERVER IS NOT STEPPED"] = server.why_no_clock
            if server.disk is None:
                outcome.notes["THE DISK OF THE SERVER IS NOT FILLED"] = "there may be no mount here"
            wire = stack.enter_context(wire_to(server.server.socket))
            url, theirs = server.server.url, f"postgresql://postgres@127.0.0.1:{wire.wire.port}/postgres"
        orders = Orders(
            url=theirs,
            folder=str(folder),
            results=str(folder / "disk"),
            slow=0.3 if plan.plant else 0.02,
            plant=plan.plant,
        )
        clocks = _clocks(plan, folder, outcome)
        # A machine has one clock: on SQLite all processes share it, on PostgreSQL each worker may be a host.
        shared = clocks[0] if clocks else None
        of_workers = [*clocks] if len(clocks) > 1 else [shared] * WORKERS
        people = stack.enter_context(crew(orders.write(), of_workers, shared if len(clocks) == 1 else None, folder))
        (folder / "copies").mkdir()
        copies = Copies(url, folder / "copies", server.server if server else None)
        yield Field(url, people, copies, disk, clocks, orders, server, wire), orders


def _outlived(people: Crew) -> set[tuple[int, int]]:
    """Attempts whose worker lived on: it reached the database after it had lost their lease."""
    logs = [seat.log.read_text(errors="replace") for seat in people.started if seat.log.exists()]
    return {(int(job), int(fence)) for log in logs for job, fence in _OUTLIVED.findall(log)}


def _clocks(plan: Plan, folder: Path, outcome: Outcome) -> list[Clock]:
    library, why = clock_library(folder)
    if library is None:
        outcome.notes["NO CLOCK IS STEPPED"] = why
        return []
    return [Clock(library, folder / f"clock-{i}") for i in range(1 if plan.database == "sqlite" else WORKERS)]


def _fire(plan: Plan, attack: Attack, outcome: Outcome, say: Say) -> None:
    at = attack.at
    drawn = blows(plan.seed, plan.seconds, at.there, plan.often)
    # What is not possible when it is due is tried again, and keeps nothing else waiting.
    due = [blow for blow in drawn if plan.only in ("", blow.kind)]
    _until_they_work(at, say)
    began = said = time.monotonic()
    while due and (passed := time.monotonic() - began) < plan.seconds + plan.late and len(at.crew.wrong) < _HOPELESS:
        at.crew.tend()
        attack.tend()
        tried: set[str] = set()
        for blow in [blow for blow in due if blow.at <= passed]:
            if blow.kind not in tried and attack.strike(blow):
                due.remove(blow)
            tried.add(blow.kind)
            at.crew.tend()
        if time.monotonic() - said > _EVERY:
            said = time.monotonic()
            say(_progress(plan, at, attack, said - began))
        time.sleep(0.05)
    while time.monotonic() - began < plan.seconds:
        at.crew.tend()
        attack.tend()
        time.sleep(0.05)
    outcome.done = attack.done
    outcome.left_out = Counter(blow.kind for blow in due)


def _until_they_work(at: Field, say: Say) -> None:
    """So that the blows hit work and no mere starting, however slow the machine is."""
    end = time.monotonic() + _START
    while time.monotonic() < end and len(at.crew.wrong) < WORKERS:
        at.crew.tend()
        with contextlib.suppress(apsw.Error, psycopg.Error):
            if len(rows(at.url, "select id from tg_worker")) >= WORKERS and _states(at.url).get("done", 0) > 0:
                return
        time.sleep(0.1)
    say("the workers have not begun to work")


def _progress(plan: Plan, at: Field, attack: Attack, passed: float) -> str:
    try:
        found = _states(at.url)
        jobs = f"{found.get('done', 0)} done, {sum(found.get(each, 0) for each in _OPEN)} open"
    except (apsw.Error, psycopg.Error) as error:
        jobs = f"the database does not answer ({type(error).__name__})"
    hits = ", ".join(f"{kind} {n}" for kind, n in sorted(attack.done.items()) if n)
    return f"{plan.database}: {passed:4.0f} s, {jobs}; {hits}"


def _states(url: str) -> dict[str, int]:
    return {state: int(n) for state, n in rows(url, _STATES)}


def _quiet(plan: Plan, at: Field, orders: Orders, outcome: Outcome, say: Say) -> None:
    """Until every job has ended and a sweep that began afterwards is over; then everybody is asked to leave."""
    people = at.crew
    orders.enough.touch()
    end = time.monotonic() + plan.patience

    def sweeps() -> int:
        return orders.swept.read_text().count("\n")

    def waited(why: str, true: Callable[[], bool]) -> None:
        said = time.monotonic()
        while time.monotonic() < end:
            people.tend()
            if at.server is not None:
                at.server.tend()
            with contextlib.suppress(apsw.Error, psycopg.Error):
                if true():
                    return
            if time.monotonic() - said > _EVERY:
                said = time.monotonic()
                say(f"{plan.database}: {why}")
            time.sleep(0.1)
        stuck = [dict(zip(_STUCK_COLUMNS, row, strict=True)) for row in rows(at.url, _STUCK)]
        outcome.broken[ENDS].append(f"in vain for {plan.patience:g} s: {why}; {_states(at.url)}, such as {stuck}")

    waited("the last jobs are still to end", lambda: not rows(at.url, _STILL))
    before = sweeps()
    # The first one to end may have begun before the last job ended.
    waited("the last sweep is still to end", lambda: sweeps() >= before + 2)
    people.no_more_jobs()
    waited("the last sweep is still to end", lambda: not rows(at.url, _ANY))
    before_that = people.stops.copy()
    people.leave()
    waited("workers were asked to leave", lambda: not people.leaving)
    if badly := {code: n for code, n in (people.stops - before_that).items() if code}:
        people.wrong.append(f"in quiet, a worker that is asked to leave does so with code 0, not {badly}")


def _add(outcome: Outcome, copies: Copies, people: Crew, attack: Attack) -> None:
    if odd := sorted(set(people.stops) - {0, 1}):
        people.wrong.append(f"a stop ends with code 0, or 1 when it took too long, not {odd}")
    if people.wrong:
        outcome.broken[PROCESSES] += people.wrong
    outcome.figures |= {
        "workers that left when asked": people.stops[0], "workers that took too long to leave": people.stops[1],
        "worker processes started": people.starts, "of these, without a database to start on": people.not_started,
        "leaders killed inside a transaction": attack.in_transaction,
    }  # fmt: skip
    outcome.copied(copies)
    outcome.figures |= {
        "workers that were replaced by a new version": attack.rollout.replaced,
        "children that ran out of memory or were killed": int(rows(attack.at.url, _OUT_OF_MEMORY)[0][0]),
        "jobs with parents, done": int(rows(attack.at.url, _JOINED)[0][0]),
        "parents that retention left": int(rows(attack.at.url, _PARENTS)[0][0]),
    }
    if attack.on_file is not None:
        outcome.figures |= attack.on_file.figures()
        if attack.on_file.wrong:
            outcome.broken[FILE] += attack.on_file.wrong
    if attack.on_server is not None:
        outcome.figures |= attack.on_server.figures()
