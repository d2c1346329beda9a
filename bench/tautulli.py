"""The client behind its breaker beside the bare one, and a history of a million rows: synced, again, and drawn."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import NoReturn

from bench.breaker import PREBUILT, ok, raise_prebuilt
from bench.row import Row, at_most
from bench.timing import araises, nanoseconds, raises
from tidegate import Breaker, Queue, Target
from tidegate.apps import Installed, install
from tidegate_apps.tautulli import charts
from tidegate_apps.tautulli.app import app
from tidegate_apps.tautulli.client import PACK, HistoryQuery, Tautulli
from tidegate_apps.tautulli.guarded_client import SyncStopped, bare_client
from tidegate_apps.tautulli.models import PlayHistory
from tidegate_apps.tautulli.settings import TautulliSettings
from tidegate_apps.tautulli.sync import HistorySync, Synced

clock = time.perf_counter

GUARDED, REJECTED, SYNCED, AGAIN, CHARTS = 1.05, 3.0, 1.05, 2.0, 150.0
_PAGE = 0.025  # seconds that a page takes where the simulator takes its time
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata")


@dataclass(frozen=True, slots=True)
class Size:
    rows: int = 1_000_000
    per_day: int = 1000
    calls: int = 4000  # of each client
    rounds: int = 21
    turns: int = 5  # of reading and syncing; at the last, a page takes its time
    charts: int = 40  # of each stretch of time


def run(size: Size | None = None) -> list[Row]:
    size = size or Size()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        simulated = stack.enter_context(_simulated(size))
        queue = stack.enter_context(Queue(f"sqlite:///{Path(folder) / 'plays.db'}", inline=True))
        there = install(app, queue, TautulliSettings.model_validate({**simulated.settings, "timeout": "60s"}))
        stack.enter_context(there.closing)
        return [*calls(there, size), *rejections(there, size), *history(there, size, simulated.busy)]


@dataclass(frozen=True, slots=True)
class Simulated:
    """A Tautulli in a process of its own.

    *busy*: seconds of CPU that it has spent; given a number, it takes at least as many for an answer from then on.
    """

    settings: dict[str, str]
    busy: Callable[..., float]


@contextmanager
def _simulated(size: Size) -> Iterator[Simulated]:
    server = Path(__file__).with_name("tautulli_server.py")
    command = [sys.executable, "-P", str(server), str(size.rows), str(size.per_day)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        asked, said = child.stdin, child.stdout
        assert asked is not None
        assert said is not None

        def busy(least: float | str = "") -> float:
            asked.write(f"{least}\n")
            asked.flush()
            return float(said.readline())

        try:
            url, key = said.readline().split()
            yield Simulated({"url": url, "api_key": key}, busy)
        finally:
            asked.close()
            child.wait()


def calls(there: Installed[TautulliSettings], size: Size) -> list[Row]:
    """One by one in turns, by the clock on the wall, for the simulator is on the same machine.

    What else the machine does then delays both alike, and the quicker quarter of each is the least disturbed.
    """
    bare, guarded = bare_client(there), there.jobs.api.client
    for client in (bare, guarded):
        client.status()  # connects
    spent: dict[str, list[float]] = {"bare": [], "guarded": []}
    pairs = [("bare", bare), ("guarded", guarded)]
    for _ in range(size.calls):
        pairs.reverse()
        for name, client in pairs:
            began = clock()
            client.status()
            spent[name].append(clock() - began)
    quick = {name: sorted(found)[len(found) // 4] for name, found in spent.items()}
    note = f" ({quick['bare'] * 1e6:.0f} us bare)"
    return [
        at_most("tautulli: guarded call on the simulator", quick["guarded"] / quick["bare"], GUARDED, "x bare", note)
    ]


class Waiting:
    """A client of the other colour: what is rejected is not asked anyway."""

    async def status(self) -> str:
        return "ok"


class Prebuilt:
    def status(self) -> NoReturn:
        PREBUILT.__traceback__ = None
        raise PREBUILT

    async def astatus(self) -> NoReturn:
        PREBUILT.__traceback__ = None
        raise PREBUILT


def rejections(there: Installed[TautulliSettings], size: Size) -> list[Row]:
    """Of its breaker, and of the whole client behind it, which also knows of pauses and rests, in both colours.

    Tripped by calls that failed, not by hand: what the target remembers of them is then asked too.
    """
    logging.getLogger("tidegate.breaker").setLevel(logging.ERROR)
    shut = Breaker("bench-tautulli", **there.settings.breaker)
    shut.force("open", "1h")
    target = Target("bench-tautulli-api", "sync", rules=PACK, backoff=None, breaker=there.settings.breaker)
    client, waiting, prebuilt = target.wrap(bare_client(there)), target.wrap(Waiting()), Prebuilt()
    while target.breaker is not None and target.breaker.state != "open":
        with suppress(ConnectionRefusedError):
            target.call(_refused)
    spent = nanoseconds({
        "prebuilt": (raises, raise_prebuilt), "breaker": (raises, shut(ok)), "client": (raises, client.status),
        "prebuilt, found": (raises, _looked_up(prebuilt)), "client, found": (raises, _looked_up(client)),
        "prebuilt, awaited": (araises, prebuilt.astatus), "client, awaited": (araises, waiting.status),
    }, rounds=size.rounds)  # fmt: skip
    logging.getLogger("tidegate.breaker").setLevel(logging.NOTSET)

    def row(what: str, found: str, of: str) -> Row:
        return at_most(what, spent[found] / spent[of], REJECTED, "x prebuilt", f" ({spent[found]:,.0f} ns)")

    return [
        row("tautulli: rejection by its open breaker", "breaker", "prebuilt"),
        row("tautulli: rejection of a call of the client", "client", "prebuilt"),
        row("tautulli: the same, its method looked up too", "client, found", "prebuilt, found"),
        row("tautulli: the same of an async client", "client, awaited", "prebuilt, awaited"),
    ]


def _looked_up(client: Prebuilt | Tautulli) -> Callable[[], object]:
    """A call as people write it, which finds the method first."""

    def call() -> object:
        return client.status()

    return call


def _refused() -> NoReturn:
    raise ConnectionRefusedError


@dataclass(frozen=True, slots=True)
class Turn:
    """A part of the history: seconds that a row took as it came, as a play, and in the sync; and who was busy then."""

    raw: float
    typed: float
    synced: float
    simulator: float  # the share of the time of the sync in which it worked
    cores: float  # how many of them the sync itself had


def history(there: Installed[TautulliSettings], size: Size, busy: Callable[..., float]) -> list[Row]:
    """A first sync in long parts, for the end of each waits for its last rows; some of its pages are read around it.

    Most are synced as quickly as the simulator makes pages, with the same processors. At the last it takes its time and
    leaves them to the sync, as a service on a machine of its own does.
    """
    step = max(500, -(-size.rows // size.turns))
    *parts, last = (range(first, min(first + step, size.rows)) for first in range(0, size.rows, step))
    turns = [_turn(there, size.rows, part, busy) for part in parts]
    busy(_PAGE)
    paced = _turn(there, size.rows, last, busy)
    busy(0)
    assert there.db.all("total")[0][0] == size.rows
    again = min(_timed(HistorySync(there.db, bare_client(there), 500, time.time).run)[0] for _ in range(4))
    rates = [1 / median(getattr(turn, name) for turn in turns) for name in ("raw", "typed", "synced")]
    shares = [median(turn.synced / getattr(turn, name) for turn in turns) for name in ("raw", "typed")]
    working = f"{median(turn.simulator for turn in turns):.0%}, its own process {median(t.cores for t in turns):.0%}"
    rows = [
        Row("tautulli: pages read and not stored", f"{rates[1]:,.0f} rows/s ({rates[0]:,.0f} without typed plays)"),
        Row(f"tautulli: first sync of {size.rows:,} rows", f"{rates[2]:,.0f} rows/s (simulator busy {working})"),
        at_most("tautulli: first sync beside reading alone", shares[1], SYNCED, "x",
                f" ({shares[0]:.2f}x without typed plays)"),
        at_most(f"tautulli: the same where a page takes {_PAGE * 1000:.0f} ms", paced.synced / paced.typed, SYNCED, "x",
                f" ({1 / paced.synced:,.0f} rows/s)"),
        at_most("tautulli: sync again, nothing changed", again, AGAIN, " s"),
    ]  # fmt: skip
    return [*rows, *drawings(there, size)]


def _turn(there: Installed[TautulliSettings], rows: int, part: range, busy: Callable[[], float]) -> Turn:
    client, pages = bare_client(there), part[:: max(500, len(part) // 50 // 500 * 500)]

    def read() -> tuple[float, float]:
        return _read(client, pages, lambda page: page.said), _read(client, pages, lambda page: page.plays)

    before, spent, own, began = read(), busy(), time.process_time(), clock()
    with suppress(SyncStopped):
        _syncing(there, rows, part.stop).run()
    took = clock() - began
    simulator, cores = (busy() - spent) / took, (time.process_time() - own) / took
    raw, typed = map(mean, zip(before, read(), strict=True))
    return Turn(raw, typed, took / len(part), simulator, cores)


def _syncing(there: Installed[TautulliSettings], rows: int, most: int) -> HistorySync:
    """Of so many *rows*, which ends when the first *most* of them have been read."""
    place = [0]

    def told(read: int, filtered: int) -> None:
        place[0] = rows - filtered + read

    def stop() -> bool:
        return place[0] >= most

    return HistorySync(there.db, bare_client(there), there.settings.page, time.time, stop, told)


def drawings(there: Installed[TautulliSettings], size: Size) -> list[Row]:
    """In the zone in which it takes longest, of some whose hours are those of UTC and some whose are not."""
    before, rows = os.environ.get("TZ"), []
    for chosen in charts.RANGES.values():
        found = dict[float, str]()
        for zone in ZONES:
            os.environ["TZ"] = zone
            time.tzset()
            spent, waited = zip(*(_drawn(there, chosen) for _ in range(size.charts)), strict=True)
            found[_p95(spent)] = f" (in {zone}; on the wall {_p95(waited):.0f} ms)"
        longest = max(found)
        rows.append(at_most(f"tautulli: charts, {chosen.word.lower()}, p95", longest, CHARTS, " ms", found[longest]))
    os.environ.pop("TZ")
    os.environ.update({} if before is None else {"TZ": before})
    time.tzset()
    return rows


def _read(client: Tautulli, pages: range, look: Callable[[PlayHistory], object]) -> float:
    """Seconds in which the simulator can send a row and the client can read it, on pages that begin at these rows."""
    began = clock()
    for start in pages:
        look(client.get_history(HistoryQuery(start=start, length=500, oldest_first=True)))
    return (clock() - began) / (len(pages) * 500)


def _p95(found: Sequence[float]) -> float:
    """In milliseconds."""
    return sorted(found)[min(len(found) - 1, int(len(found) * 0.95))] * 1000


def _drawn(there: Installed[TautulliSettings], chosen: charts.Range) -> tuple[float, float]:
    """Seconds of CPU, which other tenants of the machine cannot inflate, and seconds on the wall."""
    spent, began = time.thread_time(), clock()
    there.db.read(lambda tx: (tx.all("total"), charts.charts(tx, chosen, time.time())))
    return time.thread_time() - spent, clock() - began


def _timed(work: Callable[[], Synced]) -> tuple[float, Synced]:
    began = clock()
    found = work()
    return clock() - began, found
