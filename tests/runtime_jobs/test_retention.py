"""How long final jobs are kept: by queue, for all other queues, and by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate import NotThere, Queue
from tidegate.runtime.clock import VirtualClock
from tidegate.testing import work_for


@pytest.mark.parametrize(
    ("retention", "gone_after"),
    [
        ({}, {"mail": 7, "sync": 7}),
        ({"*": {"done": "2d"}}, {"mail": 2, "sync": 2}),
        ({"*": {"done": "2d"}, "mail": {"done": "4d"}}, {"mail": 4, "sync": 2}),
        ({"mail": {"failed": "1d"}}, {"mail": 7, "sync": 7}),
    ],
    ids=["defaults", "all", "one apart", "another state"],
)
def test_a_done_job_is_kept_as_long_as_its_queue_says(
    tmp_path: Path, retention: dict[str, dict[str, str]], gone_after: dict[str, int]
) -> None:
    clock = VirtualClock()
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock, inline=True, retention=retention) as q:

        @q.job(queue="mail")
        async def send(n: int) -> None: ...

        @q.job(queue="sync")
        async def pull(n: int) -> None: ...

        jobs = {"mail": send.enqueue(1).id, "sync": pull.enqueue(1).id}
        clock.run(work_for(q, "1h"))
        seen = dict.fromkeys(jobs, 0)
        for day in range(1, 9):
            clock.run(work_for(q, "1d", poll_every=3600.0, sweep_every=3600.0))
            for queue, id_ in jobs.items():
                if seen[queue] == 0 and not _there(q, id_):
                    seen[queue] = day
        assert seen == gone_after


def _there(q: Queue, id_: int) -> bool:
    try:
        return q.get(id_).state == "done"
    except NotThere:
        return False
