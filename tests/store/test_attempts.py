"""Any order of claims, deaths, failures, stops and retries, compared step by step with a model without a database."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.databases import APSW, POSTGRES, STDLIB
from tests.store.attempt_model import ModelJob
from tests.store.jobs import LEASE, Jobs
from tidegate.faults.codes import CORE
from tidegate.guard.backoff import Backoff
from tidegate.jobs import outcome as job_outcome
from tidegate.jobs.claim import ReadyTarget
from tidegate.jobs.job import AttemptOutcome, Claimed
from tidegate.jobs.outcome import Again, KindPolicy
from tidegate.targets import table as target_table
from tidegate.targets.table import StoredKeyHealth

MOST_JOBS = 4
POLICY = KindPolicy(attempts=10, per_code={"conflict": 2}, backoff=Backoff(4, cap=100, jitter=0))


class Attempts(RuleBasedStateMachine):
    """The same done to a store and to the model."""

    jobs: ClassVar[Jobs]

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[int, ModelJob] = {}
        self.leases: list[Claimed] = []  # every one that was ever given out

    @initialize()
    def empty(self) -> None:
        for table in ("tg_job", "tg_event", "tg_tally", "tg_hold"):
            self.jobs.store.write(lambda tx, table=table: tx.execute(f"delete from {table}"))  # type: ignore[misc]

    @property
    def now(self) -> float:
        return self.jobs.clock.now

    # -- work ----------------------------------------------------------------------------------------------------

    @rule(most=st.integers(1, 6))
    @precondition(lambda self: len(self.model) < MOST_JOBS)
    def put(self, most: int) -> None:
        self.model[self.jobs.one(most_attempts=most, target="t")] = ModelJob(most, self.now)

    @rule(n=st.integers(1, MOST_JOBS), worker=st.sampled_from("ab"))
    def claim(self, n: int, worker: str) -> None:
        ready = sorted(id_ for id_, job in self.model.items() if job.state == "ready" and not job.suspect)[:n]
        for id_ in ready:
            self.model[id_].claimed(self.now, worker)

        taken = self.jobs.claim(n, worker, target="t")

        assert [(job.id, job.attempt, job.fence) for job in taken] == [
            (id_, self.model[id_].attempt, self.model[id_].fence) for id_ in ready
        ]
        assert all(job.attempt <= job.most_attempts for job in taken)
        self.leases += taken

    @rule(pick=st.integers(0, 50), worker=st.sampled_from("ab"))
    def claim_alone(self, pick: int, worker: str) -> None:
        suspects = sorted(id_ for id_, job in self.model.items() if job.state == "ready" and job.suspect)
        assert self.jobs.suspects() == suspects
        if suspects:
            id_ = suspects[pick % len(suspects)]
            self.model[id_].claimed(self.now, worker)
            self.leases.append(self.jobs.take_suspect(id_, worker))

    @rule(pick=st.integers(0, 50))
    @precondition(lambda self: self.leases)
    def clear(self, pick: int) -> None:
        lease = self.leases[pick % len(self.leases)]
        job = self.model[lease.id]
        job.suspect = job.suspect and not job.holds(lease.fence)
        self.jobs.clear(lease)

    def end(self, pick: int, outcome: Any) -> None:
        """Settles a lease, which may have been lost long ago."""
        lease = self.leases[pick % len(self.leases)]
        ended: AttemptOutcome = outcome(lease)
        counted = self.model[lease.id].holds(lease.fence)
        self.model[lease.id].ended(
            lease.fence, self.now, str(ended.ending), str(ended.stage), wait=ended.wait or 0.0, refund=ended.refund,
            code=ended.code, result=ended.result, attempt=lease.attempt,
        )  # fmt: skip

        settled = self.jobs.settle(ended)

        assert bool(settled.counted) == counted

    @rule(pick=st.integers(0, 50))
    @precondition(lambda self: self.leases)
    def finish(self, pick: int) -> None:
        self.end(pick, lambda job: job_outcome.done(job, f'"{job.fence}"'))

    @rule(pick=st.integers(0, 50))
    @precondition(lambda self: self.leases)
    def fail_for_good(self, pick: int) -> None:
        self.end(pick, lambda job: job_outcome.failed(job, "bad_request", "No."))

    @rule(pick=st.integers(0, 50), code=st.sampled_from(["timeout", "conflict", "unauthorized", "not_found"]))
    @precondition(lambda self: self.leases)
    def fail(self, pick: int, code: str) -> None:
        self.end(pick, lambda job: job_outcome.after_fault(job, CORE[code].fault("test"), POLICY, 0.5))

    @rule(pick=st.integers(0, 50), delay=st.sampled_from([0, 7]), keep=st.booleans())
    @precondition(lambda self: self.leases)
    def ask_for_another_attempt(self, pick: int, delay: int, keep: bool) -> None:
        self.end(pick, lambda job: job_outcome.again(job, Again(delay, keep_attempt=keep), POLICY))

    @rule(pick=st.integers(0, 50), wait=st.sampled_from([None, 3.0]))
    @precondition(lambda self: self.leases)
    def release_unsent(self, pick: int, wait: float | None) -> None:
        self.end(pick, lambda job: job_outcome.released(job, unsent=True, wait=wait))

    @rule(pick=st.integers(0, 50))
    @precondition(lambda self: self.leases)
    def shut_down(self, pick: int) -> None:
        self.end(pick, lambda job: job_outcome.released(job, unsent=False))

    @rule(pick=st.integers(0, 50))
    @precondition(lambda self: self.leases)
    def stop_as_asked(self, pick: int) -> None:
        self.end(pick, job_outcome.cancelled)

    @rule(pick=st.integers(0, 50))
    @precondition(lambda self: self.leases)
    def save(self, pick: int) -> None:
        lease = self.leases[pick % len(self.leases)]
        job = self.model[lease.id]
        holds = job.holds(lease.fence)
        if holds:
            job.saved = f'"{lease.fence}"'

        assert self.jobs.save(lease, f'"{lease.fence}"') == holds

    @rule()
    @precondition(lambda self: self.leases)
    def renew(self) -> None:
        held = {lease.id: lease for lease in self.leases if self.model[lease.id].holds(lease.fence)}
        for id_ in held:
            self.model[id_].lease_until = self.now + LEASE

        newest = {lease.id: lease for lease in self.leases}  # some of them lost: they must not come back
        renewed = {each.id: each for each in self.jobs.renew(*newest.values())}

        assert renewed.keys() == held.keys()
        assert all(each.stop_asked == self.model[id_].stop_asked for id_, each in renewed.items())

    # -- time ----------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 3, 11, 25, LEASE + 1]))
    def wait(self, seconds: float) -> None:
        self.jobs.clock.advance(seconds)

    @rule()
    def take_back(self) -> None:
        lost = [job for job in self.model.values() if job.state == "running" and job.lease_until < self.now]
        taken = [job.lost(self.now) for job in lost]

        assert self.jobs.take_back() == sum(taken)

    @rule(worker=st.sampled_from("ab"))
    def survive(self, worker: str) -> None:
        for job in self.model.values():
            job.survived(worker)

        self.jobs.survive(worker)

    @rule()
    def die(self) -> None:
        """All workers at once."""
        self.wait(LEASE + 1)
        self.take_back()

    @rule()
    def promote(self) -> None:
        due = [job for job in self.model.values() if job.state == "waiting" and job.due_at <= self.now]
        for job in due:
            job.state = "ready"

        assert self.jobs.promote() == len(due)

    # -- people and gates ----------------------------------------------------------------------------------------

    @rule(pick=st.integers(0, 50))
    @precondition(lambda self: self.model)
    def retry(self, pick: int) -> None:
        id_ = sorted(self.model)[pick % len(self.model)]

        assert self.jobs.retry(id_) == self.model[id_].retried(self.now)

    @rule(pick=st.integers(0, 50))
    @precondition(lambda self: self.model)
    def cancel(self, pick: int) -> None:
        id_ = sorted(self.model)[pick % len(self.model)]

        assert self.jobs.cancel(id_) == self.model[id_].cancelled(self.now)

    @rule(until=st.sampled_from([None, 10.0]))
    def hold(self, until: float | None) -> None:
        """A shut gate is seen by whoever looks, and changes no job."""
        row = StoredKeyHealth(
            target="t", lane="", reason="fatal", since=self.now, failures=1, until=until and self.now + until
        )
        self.jobs.store.write(lambda tx: target_table.put_hold(tx, row))
        lanes = self.jobs.lanes(ReadyTarget("q", "t"))
        ready = any(job.state == "ready" for job in self.model.values())

        assert [lane.hold for lane in lanes] == (["fatal"] if ready else [])

    # -- what must be true ---------------------------------------------------------------------------------------

    @invariant()
    def each_job_is_as_the_model_says(self) -> None:
        rows = self.jobs.sql(
            "select id, state, attempt, fence, deaths, deaths_alone, suspect, stop_asked, manual_retries, saved,"
            " result, error_code, last_code, case when state = 'waiting' then due_at end from tg_job order by id"
        )
        assert [tuple(row) for row in rows] == [(id_, *job.row()) for id_, job in sorted(self.model.items())]

    @invariant()
    def each_history_is_as_the_model_says(self) -> None:
        for id_, job in self.model.items():
            told = [(e.kind, e.at, e.attempt, e.fence, e.code) for e in self.jobs.events(id_)]
            assert sorted(told, key=repr) == job.history(self.now)
            assert [e[1] for e in told] == sorted(e[1] for e in told)

    def teardown(self) -> None:
        self.jobs.check()


def run(jobs: Jobs, examples: int, steps: int = 30) -> None:
    machine = type("TheseAttempts", (Attempts,), {"jobs": jobs})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, derandomize=True, database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip


@pytest.mark.req("CNV-06", "CNV-07", "CNV-11", "CNV-14")
@pytest.mark.parametrize("db", [APSW, POSTGRES], indirect=True)
def test_attempts_fences_states_and_histories_are_those_of_the_model(jobs: Jobs) -> None:
    run(jobs, 200 if jobs.store.dialect == "sqlite" else 100)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("db", [APSW, STDLIB, POSTGRES], indirect=True)
def test_attempts_fences_states_and_histories_are_those_of_the_model_in_thousands_of_lives(jobs: Jobs) -> None:
    run(jobs, 5000 if jobs.store.dialect == "sqlite" else 2000, steps=50)
