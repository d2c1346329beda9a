"""What is sampled: of each process its memory, handles and threads; of the database its log and its tables."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from tests.acceptance.checker import rows
from tests.soak.slope import Kind

MB = 1_000_000
SHARE_OF_MEMORY = 0.01  # an hour
SHARE_OF_TABLES = 0.10

# Lidarr's jobs go with its albums, not with the time: of these tables they are counted apart.
_LIDARR = "(select id from tg_job where queue = 'lidarr')"
OF_LIDARR = {"tg_job": f"id in {_LIDARR}", "tg_event": f"job in {_LIDARR}", "tg_link": f"parent in {_LIDARR}"}
APART = " of lidarr"
DATABASE = "soak.db"  # the file of SQLite, and those beside it

# Kept for days whatever the settings say, or for as long as there is room: they grow in a run of hours.
HISTORY = {
    "feeds_beat": "every poll, a day at least",
    "feeds_event": "what happened to a feed, a day at least",
    "feeds_item": "the items of a feed, up to 5000 each",
    "lidarr_event": "what happened to an album",
    "lidarr_wake": "one row each wake",
    "music_bad": "answers that made no sense, for days",
    "music_play": "what was heard",
    "tautulli_play": "what was played",
    "tautulli_tally": "what was played, by week",
    "tautulli_time": "what was played",
    "tg_activity": "what people did, 90 days",
    "tg_failure": "kinds of failures, for days",
    "tg_failure_hour": "failures by hour, for days",
    "tg_worker": "workers that died, a day",
}

# Emptied now and then by a schedule: up for ten minutes, and down.
EMPTIED = frozenset({"convert_file"})

# Kinds of handles: readers of SQLite; connections to PostgreSQL, of people's browsers and to services. How many of them
# are needed at once is chance, so that the fewest of a quarter of an hour say little. All other handles are counted.
POOLS = frozenset({"of the database", "that are sockets"})

Values = dict[str, float]


def kind_of(name: str) -> tuple[Kind, float]:
    """How a series is judged, and the share of its level that it may grow in an hour."""
    what, _, which = name.partition(" ")
    if what == "rows":
        kind = Kind.KEPT if which in HISTORY else Kind.BOUNDED if which in EMPTIED else Kind.SHARE
        return kind, SHARE_OF_TABLES
    return {
        "memory": (Kind.SHARE, SHARE_OF_MEMORY),
        "children": (Kind.BOUNDED, 0.0),
        "handles": (Kind.POOL if which in POOLS else Kind.EXACT, 0.0),
        "threads": (Kind.EXACT, 0.0),
        "log": (Kind.BOUNDED, 0.0),
        "database,": (Kind.KEPT, 0.0),
    }[what]


def sampled(processes: Mapping[str, psutil.Process], url: str) -> Values:
    """One sample of everything, by name."""
    found: Values = {}
    for name, process in processes.items():
        for what, value in _of_process(process):
            # What runs for ever moves to another when its worker stands still, with its handles and its children.
            series = f"{what} {name}" if what == "memory" else what
            found[series] = found.get(series, 0.0) + value
    found |= _of_sqlite(url) if url.startswith("sqlite") else _of_postgres(url)
    return found


def _of_process(process: psutil.Process) -> Iterator[tuple[str, float]]:
    with process.oneshot():
        yield "memory", process.memory_info().rss / MB
        yield "threads of all", process.num_threads()
    for kind, n in _handles(process.pid).items():
        yield f"handles {kind}", n
    yield "children of all", sum(_memory(each) for each in process.children(recursive=True)) / MB


def _handles(pid: int) -> Counter[str]:
    """How many handles of each kind a process has open."""
    found: Counter[str] = Counter()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found[_kind_of_handle(str(each.readlink()))] += 1
    return found


def _kind_of_handle(leads_to: str) -> str:
    if DATABASE in leads_to:
        return "of the database"
    return "that are sockets" if leads_to.startswith("socket:") else "of other kinds"


def _memory(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0.0


def _of_sqlite(url: str) -> Values:
    file = Path(url.removeprefix("sqlite:///"))
    tables = [str(name) for (name,) in rows(url, "select name from sqlite_master where type = 'table'")]
    wal = file.with_name(f"{file.name}-wal")
    return {
        "log of the database, MB": wal.stat().st_size / MB if wal.exists() else 0.0,
        "database, MB": file.stat().st_size / MB,
        **_counted(url, [name for name in tables if not name.startswith("sqlite_")]),
    }


def _of_postgres(url: str) -> Values:
    names = rows(url, "select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace")
    sizes = "select (select sum(size) from pg_ls_waldir()), pg_database_size(current_database())"
    ((log, size),) = rows(url, sizes)
    return {
        "log of the database, MB": float(log) / MB,
        "database, MB": float(size) / MB,
        **_counted(url, [str(name) for (name,) in names]),
    }


def _counted(url: str, tables: list[str]) -> Values:
    every = {name: (name, "") for name in tables}
    for name in OF_LIDARR.keys() & every.keys():
        every[name] = (name, f" where not {OF_LIDARR[name]}")
        every[name + APART] = (name, f" where {OF_LIDARR[name]}")
    counts = " union all ".join(f"select '{what}', count(*) from {name}{rule}" for what, (name, rule) in every.items())
    return {f"rows {what}": float(n) for what, n in rows(url, counts)}
