"""Which tests `make test` leaves to `make test-full`.

`make test` runs a representative of everything in five minutes. A test marked `full` runs in `make test-full` only.
Most of these marks are in the test files. Two rules are here:

- A test that runs once per database runs on SQLite alone in `make test`, except in the files of `ON_BOTH`, where SQL,
  locks or notifications matter: the store, and some of each package.
- Of a table with more than `SHORT` cases, `make test` runs the first, the last and every `STRIDE`-th one. Unit tests,
  which cost next to nothing, run every case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest

from tests.databases import APSW, BOTH, PIPELINED, POOLED, SQLITE

DATABASES = frozenset((*SQLITE, *BOTH, PIPELINED, POOLED))
ON_BOTH = (
    "tests/store/",
    "tests/acceptance/test_kills.py",
    "tests/apps/convert/test_states.py",
    "tests/apps/feeds/test_sources.py",
    "tests/apps/lidarr/test_enricher.py",
    "tests/apps/lidarr/test_submitter.py",
    "tests/apps/music/test_library.py",
    "tests/apps/tautulli/test_charts.py",
    "tests/apps/tautulli/test_syncing.py",
    "tests/notices/test_telling.py",
    "tests/admin/test_accounts.py",
    "tests/admin/test_actions.py",
    "tests/admin/test_activity.py",
    "tests/admin/test_explain.py",
    "tests/admin/test_failures.py",
    "tests/admin/test_metrics.py",
    "tests/admin/test_history.py",
    "tests/admin/test_listing.py",
    "tests/admin/test_inbox.py",
    "tests/admin/test_overview.py",
    "tests/jobs/test_barred.py",
    "tests/jobs/test_for_applications.py",
    "tests/jobs/test_gates_lanes.py",
    "tests/jobs/test_gates_limits.py",
    "tests/jobs/test_going_back.py",
    "tests/jobs/test_reporting.py",
    "tests/jobs/test_schedules.py",
    "tests/jobs/test_stepping_clocks.py",
    "tests/jobs/test_upgrades.py",
)


SAMPLED = tuple(f"tests/{name}/" for name in ("admin", "apps", "jobs", "net", "notices", "store", "web"))
SHORT = 3
STRIDE = 5


def mark_full(items: Sequence[pytest.Item]) -> None:
    """Adds the mark `full` to what `make test` need not repeat."""
    mark_repeats(items)
    mark_tables(items)


def mark_tables(items: Iterable[pytest.Item]) -> None:
    tables: dict[tuple[str, str | None], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.nodeid.startswith(SAMPLED) and not any(item.iter_markers("full")):
            tables[item.nodeid.partition("[")[0], database_of(item)].append(item)
    for cases in tables.values():
        if len(cases) > SHORT:
            for at, item in enumerate(cases):
                if at % STRIDE and item is not cases[-1]:
                    item.add_marker(pytest.mark.full)


def mark_repeats(items: Iterable[pytest.Item]) -> None:
    by_function: dict[str, list[tuple[pytest.Item, str]]] = defaultdict(list)
    for item in items:
        name = database_of(item)
        if name is not None:
            by_function[item.nodeid.partition("[")[0]].append((item, name))
    for runs in by_function.values():
        if len({name for _, name in runs}) > 1:
            for item, name in runs:
                if name not in representative(item):
                    item.add_marker(pytest.mark.full)


def database_of(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    values = () if callspec is None else callspec.params.values()
    return next((value for value in values if isinstance(value, str) and value in DATABASES), None)


def representative(item: pytest.Item) -> tuple[str, ...]:
    """The databases that `make test` runs the item on."""
    return BOTH if item.nodeid.startswith(ON_BOTH) else (APSW,)
