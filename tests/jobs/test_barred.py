"""A job that has ended, and of which what it would need is gone: nobody retries it, one by one or with others."""

from __future__ import annotations

import pytest

from tests.databases import APSW, POSTGRES, STDLIB, Database
from tests.jobs.building import work_for
from tests.jobs.gating import queue_on
from tidegate import Fail
from tidegate.clock import VirtualClock
from tidegate.errors import Rejected
from tidegate.jobs import actions


@pytest.mark.req("CNV-09")
@pytest.mark.parametrize("db", [APSW, STDLIB, POSTGRES], indirect=True)
def test_a_barred_job_stays_as_it_is_and_is_retried_by_nobody(db: Database) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:

        @q.job()
        async def read(n: int) -> None:
            raise Fail("bad_request")

        job, other = read.enqueue(1), read.enqueue(2)
        assert not q.forbid_retry(job), "a job that has not ended may need it"
        clock.run(work_for(1, q))
        assert q.forbid_retry(job)
        assert not q.forbid_retry(job)

        assert not q.retry(job)
        with pytest.raises(Rejected, match=f"job {job.id} "):
            q.store.write(lambda tx: actions.retry(tx, job.id, "ada"))
        assert q.retry_many(code="bad_request").matched == 1
        assert q.retry_many(1, code="bad_request").changed == 1
        assert other.state() == "queued"
        found = q.get(job)
        assert (found.state, found.error_code) == ("failed", "bad_request")
        assert [event.kind for event in q.events(job)] == ["queued", "processing", "failed", "barred"]
        assert q.store.read(lambda tx: actions.of_jobs(tx, [job.id])) == {job.id: (actions.FORGET,)}
