"""The comparison with other queues counts what ran, was lost or is stuck, and shows it in tables."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from bench.peers import queues
from bench.peers.queue_jobs import MARK
from bench.peers.queues import LIBRARIES, Kills, Library, Peer

ROOT = Path(__file__).parents[3]
LIBRARY = LIBRARIES[0]


def results(**found: list[float]) -> defaultdict[str, list[float]]:
    return defaultdict(list, {name.replace("_", " "): values for name, values in found.items()})


@pytest.mark.parametrize("module", sorted({each.module for each in LIBRARIES}))
def test_each_queue_has_a_module_with_the_same_four_names(module: str) -> None:
    tree = ast.parse((ROOT / "bench" / "peers" / "queue_libraries" / f"{module}.py").read_text(encoding="utf-8"))
    functions = {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    values = {
        each.targets[0].id
        for each in tree.body
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
    }

    assert {"setup", "client", "worker", "remaining"} <= functions | values


def test_a_mark_that_is_half_written_does_not_count(tmp_path: Path) -> None:
    servers: Any = None
    peer = Peer(LIBRARY, servers, tmp_path, 0)
    assert peer.marks() == []
    peer.marks_file.write_bytes(MARK.pack(7, 1.5) + MARK.pack(7, 2.5) + MARK.pack(8, 3.0)[:9])

    assert peer.marks() == [(7, 1.5), (7, 2.5)]
    assert peer.ran() == 1


def test_medians_are_shown_and_what_a_queue_cannot_do_is_a_dash() -> None:
    found = {"RQ 2, Redis": results(one=[100.0, 300.0], drain_one=[50.0], cpu_one=[20.4])}

    assert queues.rate_table(found).splitlines()[-1] == "| RQ 2, Redis | 200 | - | 50 | - | - | 20 us |"


def test_the_start_of_jobs_is_shown_by_its_median_and_its_95th_percentile() -> None:
    found = {"RQ 2, Redis": results(starts=[float(n) for n in range(100)])}

    assert queues.start_table(found).splitlines()[-1] == "| RQ 2, Redis | 49.5 ms | 95 ms |"


def test_lost_repeated_and_stuck_jobs_are_shown_apart() -> None:
    kills = {"RQ 2, Redis": Kills(jobs=2_000, lost=9, twice=1, stuck=3, landed=10)}

    assert queues.kill_table(kills).splitlines()[-1] == "| RQ 2, Redis | 2,000 | 10 of 10 | 9 | 1 | 3 |"


def test_the_page_about_scaling_shows_rows_of_tidegate_alone() -> None:
    ours = Library(name="Tidegate", module="tidegate_jobs", package="tidegate", store="SQLite", jobs=1)
    found = {ours.title: results(one=[10.0]), "RQ 2, Redis": results(one=[99.0])}

    shown = queues.cost_table(found)
    assert "| SQLite | enqueue one by one | 10 jobs/s |" in shown
    assert "99" not in shown
