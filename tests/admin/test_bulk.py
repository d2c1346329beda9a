"""The same thing done to many jobs: as many as were expected, in slices, and what could not be done is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.jobs.building import worker
from tests.jobs.gating import play, states
from tests.text import numbers
from tidegate.audit import Actor, Origin
from tidegate.clock import VirtualClock
from tidegate.errors import Rejected
from tidegate.jobs.bulk import service
from tidegate.jobs.bulk import table as bulk_table
from tidegate.jobs.bulk.service import BulkOutcome
from tidegate.jobs.bulk.table import BulkOperation
from tidegate.jobs.listing import Count, Filter
from tidegate.jobs.outcome import Fail
from tidegate.jobs.queue import Queue
from tidegate.targets import table
from tidegate.testing import work_for


def failing(q: Queue, clock: VirtualClock, jobs: int, **options: Any) -> list[int]:
    """So many jobs that have failed, half of them with each of two codes."""

    @q.job(queue="mail", name="send", **options)
    async def send(n: int) -> None:
        raise Fail("bad_request" if n % 2 else "gone")

    made = [job.id for job in send.enqueue_many([(each,) for each in range(jobs)])]

    async def main() -> None:
        await q.adrain()

    play(clock, main)
    assert states(q) == {"failed": jobs}
    return made


def queued(q: Queue, jobs: int) -> list[int]:
    @q.job(queue="mail", name="wait")
    async def wait(n: int) -> None: ...

    return [job.id for job in wait.enqueue_many([(each,) for each in range(jobs)])]


def previewed(q: Queue, action: str, wanted: Filter) -> Count:
    return q.store.read(lambda tx: service.preview(tx, action, wanted))


def test_without_a_number_many_are_only_counted(q: Queue, clock: VirtualClock) -> None:
    failing(q, clock, 5)

    found = q.retry_many(queue="mail")

    assert (found.matched, found.changed) == (5, 0)
    assert states(q) == {"failed": 5}


@pytest.mark.parametrize("which", [{"queue": "mail", "code": "gone"}, {"kind": "send", "code": "gone"}])
def test_many_are_retried_when_they_are_as_many_as_expected(
    q: Queue, clock: VirtualClock, which: dict[str, str]
) -> None:
    jobs = failing(q, clock, 250)

    found = q.retry_many(125, by="ada", **which)

    assert (found.matched, found.changed, found.left) == (125, 125, ())
    assert [q.get(job).state for job in jobs] == ["queued", "failed"] * 125
    assert q.events(jobs[0])[-1].actor == "ada"


def test_another_number_than_expected_changes_nothing(q: Queue, clock: VirtualClock) -> None:
    failing(q, clock, 4)

    with pytest.raises(Rejected, match=r"4.*3"):
        q.retry_many(3, queue="mail")
    assert states(q) == {"failed": 4}


@pytest.mark.parametrize("which", [{"queue": "other"}, {"target": "svc"}, {"kind": "x"}, {"code": "network"}])
def test_a_filter_that_matches_nothing_finds_nothing(q: Queue, clock: VirtualClock, which: dict[str, str]) -> None:
    failing(q, clock, 2)

    assert q.retry_many(0, **which).matched == 0


def test_more_than_can_be_retried_at_once_are_refused(q: Queue, clock: VirtualClock) -> None:
    failing(q, clock, 3)

    with pytest.raises(Rejected, match=" 2 "):
        service.run(q.store, "retry", Filter(queue="mail"), "ada", expected=3, limit=2)


def test_one_whose_place_a_twin_has_taken_is_left_and_the_others_go(q: Queue, clock: VirtualClock) -> None:
    @q.job(queue="mail", name="send", unique=lambda n: n)
    async def send(n: int) -> None:
        raise Fail("gone")

    jobs = [job.id for job in send.enqueue_many([(each,) for each in range(6)])]

    async def main() -> None:
        await q.adrain()

    play(clock, main)
    send.enqueue(2)

    found = q.retry_many(6, queue="mail")

    assert (found.changed, found.left) == (5, (jobs[2],))
    assert states(q) == {"failed": 1, "ready": 6}


def test_many_are_cancelled_and_the_rest_of_the_queue_goes_on(q: Queue, clock: VirtualClock) -> None:
    failing(q, clock, 3)
    jobs = queued(q, 5)
    wanted = Filter(queue="mail", kind="wait")

    assert previewed(q, "cancel", wanted) == Count(5)
    found = service.run(q.store, "cancel", wanted, "ada", expected=5)

    assert (found.matched, found.changed, found.left) == (5, 5, ())
    assert states(q) == {"cancelled": 5, "failed": 3}
    assert q.events(jobs[0])[-1].actor == "ada"


def test_jobs_that_wait_for_each_other_are_all_cancelled(q: Queue) -> None:
    @q.job(queue="mail", name="step")
    async def step(n: int) -> None: ...

    last = step.enqueue(0)
    made = [last.id]
    for n in range(1, 120):
        last = step.options(after=[last]).enqueue(n)
        made.append(last.id)

    found = service.run(q.store, "cancel", Filter(queue="mail"), "ada", expected=len(made))

    assert found == BulkOutcome(120, 120, ())
    assert {q.events(job)[-1].actor for job in made} == {"ada"}


def test_what_its_kind_does_not_allow_to_be_cancelled_is_not_counted(q: Queue) -> None:
    @q.job(queue="mail", name="pay", cancellable=False)
    async def pay(n: int) -> None: ...

    jobs = queued(q, 2)
    kept = pay.enqueue(1).id
    wanted = Filter(queue="mail")
    assert q.store.read(lambda tx: service.preview(tx, "cancel", wanted)) == Count(2)

    found = service.run(q.store, "cancel", wanted, "ada", expected=2)

    assert found == BulkOutcome(2, 2, ())
    assert [q.get(job).state for job in (*jobs, kept)] == ["cancelled", "cancelled", "queued"]


def test_what_was_refused_at_intake_is_not_counted_among_those_to_retry(q: Queue, clock: VirtualClock) -> None:
    @q.job(queue="mail", name="read")
    async def read(n: int) -> None: ...

    made = failing(q, clock, 2)
    read.refuse((7,), "bad_request")

    assert q.store.read(lambda tx: service.matching(tx, "retry", Filter())) == made
    assert q.store.read(lambda tx: service.preview(tx, "forget", Filter())) == Count(3)


def test_many_are_forgotten_and_their_queue_remembers_how_many(q: Queue, clock: VirtualClock) -> None:
    failing(q, clock, 250)
    queued(q, 1)

    found = service.run(q.store, "forget", Filter(code="gone"), "ada", expected=125)

    assert found.changed == 125
    assert states(q) == {"failed": 125, "ready": 1}
    events = q.store.read(lambda tx: table.events(tx, "queue", "mail"))
    assert [(event.kind, event.actor) for event in events] == [("jobs_forgotten", "ada")] * 2
    assert sum(event.fields["jobs"] for event in events) == 125


def test_bulk_forget_refuses_a_parent_whose_child_has_not_ended(q: Queue, clock: VirtualClock) -> None:
    @q.job(queue="mail", name="step")
    async def step(n: int) -> None: ...

    parent = step.enqueue(1)
    clock.run(work_for(q, "10s"))
    child = step.options(after=parent, due="1h").enqueue(2)

    found = service.run(q.store, "forget", Filter(queue="mail"), "ada", expected=1)

    assert (found.changed, found.left) == (0, (parent.id,))
    assert not q.forget(parent)
    assert [q.get(job).state for job in (parent, child)] == ["done", "queued"]


def test_progress_is_told_slice_by_slice(q: Queue, clock: VirtualClock) -> None:
    failing(q, clock, 250)
    heard: list[tuple[int, int]] = []

    service.run(q.store, "retry", Filter(queue="mail"), "ada", expected=250, progress=lambda *far: heard.append(far))

    assert heard == [(100, 250), (200, 250), (250, 250)]


def test_what_others_did_meanwhile_is_left(q: Queue, clock: VirtualClock) -> None:
    jobs = failing(q, clock, 150)

    def meddle(done: int, _total: int) -> None:
        if done == 100:
            q.retry(jobs[149])

    found = service.run(q.store, "retry", Filter(queue="mail"), "ada", expected=150, progress=meddle)

    assert (found.changed, found.left) == (149, (jobs[149],))
    assert q.get(jobs[149]).manual_retries == 1


def begun(q: Queue, jobs: int, by: str = "ada") -> BulkOperation:
    one = service.begin(q.store, "retry", Filter(queue="mail"), by, expected=jobs)
    assert one is not None
    return one


def worked_off(q: Queue, id_: int, who: str) -> BulkOperation:
    while (far := service.step(q.store, id_, who)) is not None and far.running:
        pass
    assert far is not None
    return far


def test_what_one_has_left_another_goes_on_with_and_does_none_twice(q: Queue, clock: VirtualClock) -> None:
    jobs = failing(q, clock, 250)
    one = begun(q, 250)
    assert service.step(q.store, one.id, "a") is not None
    assert service.step(q.store, one.id, "b") is None  # as long as the first one may be at it
    clock.advance(bulk_table.LEASE + 1)

    found = worked_off(q, one.id, "b")

    assert (found.state, found.changed, found.refused) == ("done", 250, 0)
    assert {q.get(job).manual_retries for job in jobs} == {1}


def test_a_worker_goes_on_with_what_was_left(q: Queue, clock: VirtualClock) -> None:
    failing(q, clock, 150)
    one = begun(q, 150)

    async def main() -> None:
        sweeper = worker(q).maintenance
        while await sweeper.continue_bulk_actions():
            pass

    play(clock, main)

    assert q.store.read(lambda tx: service.require(tx, one.id)).changed == 150
    assert states(q) == {"ready": 150}


def test_one_that_is_cancelled_does_no_more(q: Queue, clock: VirtualClock) -> None:
    failing(q, clock, 150)
    one = begun(q, 150)
    service.step(q.store, one.id, "a")

    found = q.store.write(lambda tx: service.cancel(tx, one.id, "bob"))

    assert (found.state, found.done, found.ended_by, numbers(found.says)) == ("cancelled", 100, "bob", [50])
    assert worked_off(q, one.id, "a").done == 100
    assert states(q) == {"failed": 50, "ready": 100}
    with pytest.raises(Rejected, match="cancelled"):
        q.store.write(lambda tx: service.cancel(tx, one.id, "bob"))


def test_who_asked_from_where_and_why_is_kept(q: Queue, clock: VirtualClock) -> None:
    failing(q, clock, 1)

    one = begun(q, 1, Actor("ada", Origin.PAGE, "the gateway is back"))

    assert (one.actor, one.origin, one.reason) == ("ada", "page", "the gateway is back")
    assert (one.action, one.filter, one.state, one.expected) == ("retry", {"queue": "mail"}, "running", 1)


def test_each_job_that_was_refused_says_why(q: Queue, clock: VirtualClock) -> None:
    jobs = failing(q, clock, 4)
    one = begun(q, 4)
    q.retry(jobs[0])
    q.forget(jobs[1])
    q.forbid_retry(jobs[2])

    worked_off(q, one.id, "a")
    found = q.store.read(lambda tx: service.items(tx, one.id)).items

    assert [(item.job, item.outcome, bool(item.why)) for item in found] == [
        (jobs[0], "refused", True),
        (jobs[1], "refused", True),
        (jobs[2], "refused", True),
        (jobs[3], "changed", False),
    ]
    assert "queued" in found[0].why  # what the state of the job is by now


def test_of_very_many_only_the_first_that_were_changed_are_kept(q: Queue, clock: VirtualClock) -> None:
    jobs = failing(q, clock, 2)
    one = begun(q, 2)
    about = replace(one, changed=bulk_table.MAX_CHANGED - 1, refused=bulk_table.MAX_REFUSED)

    q.store.write(lambda tx: bulk_table.note(tx, about, 0, jobs, {}, {}))
    q.store.write(lambda tx: bulk_table.end(tx, one.id, "done"))

    assert [item.job for item in q.store.read(lambda tx: service.items(tx, one.id)).items] == jobs[:1]


def test_they_are_kept_for_a_month_and_then_removed_with_their_items(q: Queue, clock: VirtualClock) -> None:
    failing(q, clock, 1)
    one = begun(q, 1)
    worked_off(q, one.id, "a")
    ended = clock.now()

    assert q.store.write(lambda tx: bulk_table.prune(tx, ended - 1, 10)) == 0
    assert q.store.write(lambda tx: bulk_table.prune(tx, ended + 1, 10)) == 1
    assert q.store.read(lambda tx: (service.list_operations(tx).items, bulk_table.items(tx, one.id))) == ([], [])


def test_a_cursor_that_no_page_gave_is_an_error(q: Queue) -> None:
    with pytest.raises(ValueError, match="cursor: 'nonsense'"):
        q.store.read(lambda tx: service.list_operations(tx, cursor="nonsense"))


def test_cancelled_jobs_are_retried_only_when_they_are_asked_for(q: Queue, clock: VirtualClock) -> None:
    (job,) = queued(q, 1)
    q.cancel(job)

    assert previewed(q, "retry", Filter(queue="mail")) == Count(0)
    assert service.run(q.store, "retry", Filter(state="cancelled"), "ada", expected=1).changed == 1


@pytest.mark.parametrize(
    ("action", "state", "says"),
    [("retry", "done", "failed or cancelled"),
     ("cancel", "failed", "queued or running"),
     ("forget", "ready", "ended")],
)  # fmt: skip
def test_a_state_that_cannot_be_changed_so_is_an_error(q: Queue, action: str, state: str, says: str) -> None:
    with pytest.raises(ValueError, match=f"state: '{state}'.*{says}"):
        previewed(q, action, Filter(state=state))


def test_an_action_that_is_none_is_an_error_that_names_those_there_are(q: Queue) -> None:
    with pytest.raises(ValueError, match=r"action: 'burn'.*retry, cancel, forget"):
        previewed(q, "burn", Filter())


def test_which_jobs_has_no_other_words() -> None:
    with pytest.raises(TypeError):
        Filter(colour="red")  # type: ignore[call-arg]
