from __future__ import annotations

import math
from typing import Any

import pytest

from tests.databases import EVERY
from tests.store.jobs import Jobs, new

pytestmark = pytest.mark.parametrize("db", EVERY, indirect=True)


def test_a_job_that_is_put_in_is_ready_and_has_all_that_was_asked(jobs: Jobs) -> None:
    id_ = jobs.one(queue="mail", kind="send", args='{"to":1}', target="smtp", lane="7", priority=5, most_attempts=3)

    job = jobs.get(id_)

    assert (job.queue, job.kind, job.args, job.target, job.lane) == ("mail", "send", '{"to":1}', "smtp", "7")
    assert (job.stage, job.state, job.priority, job.most_attempts) == ("ready", "queued", 5, 3)
    assert (job.attempt, job.fence, job.deaths, job.manual_retries) == (0, 0, 0, 0)
    assert job.created_at == job.due_at == jobs.clock.now
    assert jobs.history(id_) == "queued"


def test_nothing_asked_is_nothing_done(jobs: Jobs) -> None:
    assert jobs.put() == []


def test_many_jobs_come_back_in_the_order_they_were_given(jobs: Jobs) -> None:
    taken = jobs.put(*(new(args=str(n), key=n if n % 3 == 0 else None) for n in range(50)))

    assert [jobs.get(each.id).args for each in taken] == [str(n) for n in range(50)]
    assert all(each.created for each in taken)


def test_ids_grow(jobs: Jobs) -> None:
    ids = [each.id for each in jobs.put(*(new() for _ in range(20)))]

    assert ids == sorted(ids)
    assert jobs.one() > ids[-1]


@pytest.mark.parametrize(
    ("due", "stage"), [(None, "ready"), (-10.0, "ready"), (0.0, "ready"), (0.001, "waiting"), (3600.0, "waiting")]
)
@pytest.mark.parametrize("key", [None, "x"])
def test_a_job_waits_while_its_time_is_ahead(jobs: Jobs, due: float | None, stage: str, key: str | None) -> None:
    id_ = jobs.one(key, due_at=None if due is None else jobs.clock.now + due)

    assert jobs.stage(id_) == stage


def test_a_waiting_job_is_ready_when_its_time_has_come(jobs: Jobs) -> None:
    id_ = jobs.one(due_at=jobs.clock.now + 10)

    assert jobs.promote() == 0
    jobs.clock.advance(10)
    assert jobs.promote() == 1
    assert jobs.stage(id_) == "ready"
    assert jobs.promote() == 0


@pytest.mark.parametrize("moment", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["due_at", "due_in", "expires_in"])
def test_a_time_that_is_none_is_refused(jobs: Jobs, moment: float, field: str) -> None:
    wrong: dict[str, Any] = {field: moment}

    with pytest.raises(ValueError, match=field):
        jobs.put(new(), new(**wrong))

    assert jobs.fronts() == []


def test_a_lane_with_a_nul_is_refused(jobs: Jobs) -> None:
    with pytest.raises(ValueError, match="NUL"):
        jobs.put(new(), new(lane="a\0b"))

    assert jobs.fronts() == []


@pytest.mark.parametrize("text", ["é 漢 🎵", "'; drop table tg_job; --", "%s %(x)s {now} :now ?", "\\", "\n\t\x1f\x7f"])
def test_any_text_comes_back_as_it_was(jobs: Jobs, text: str) -> None:
    job = jobs.get(jobs.one(text, queue=text, kind=text, args=text, lane=text, target=text))

    assert [job.queue, job.kind, job.args, job.lane, job.target, job.unique_key] == [text] * 6
    assert jobs.claim(lane=text, queue=text, target=text)[0].args == text


@pytest.mark.parametrize("size", [0, 1, 100_000, 1_000_000])
def test_arguments_may_be_large(jobs: Jobs, size: int) -> None:
    assert len(jobs.get(jobs.one(args="x" * size)).args) == size


@pytest.mark.req("CNV-02")
def test_a_refused_job_is_failed_at_once_and_holds_nothing(jobs: Jobs) -> None:
    id_ = jobs.refuse("not_pdf", "This is no PDF.", key="k")
    job = jobs.get(id_)

    assert (job.stage, job.error_code, job.error_message) == ("failed", "not_pdf", "This is no PDF.")
    assert job.finished_at == jobs.clock.now
    assert job.attempt == job.fence == 0
    assert job.unique_key is None
    assert jobs.history(id_) == "refused"
    assert jobs.put(new("k"))[0].created
    assert jobs.tallies()["q", "failed_total:not_pdf"] == 1


def test_all_is_written_or_nothing(jobs: Jobs) -> None:
    with pytest.raises(ValueError, match="999"):
        jobs.put(new(), new("x"), new(parents=(999,)))

    assert jobs.fronts() == []
    assert jobs.tallies() == {}
