from __future__ import annotations

from itertools import permutations

import pytest

from tests.databases import EVERY
from tests.store.jobs import Jobs, new
from tests.text import names
from tidegate.jobs import insert, outcome
from tidegate.jobs.insert import InsertResult
from tidegate.store.base import Tx

EVERYWHERE = pytest.mark.parametrize("db", EVERY, indirect=True)


def parent_results(jobs: Jobs, child: int) -> dict[int, str | None]:
    rows = jobs.store.read(lambda tx: tx.query("parent_results", {"child": child}))
    return {parent: result for _, parent, _, result in rows}


@EVERYWHERE
@pytest.mark.req("LID-11")
def test_a_child_waits_for_its_parent_and_can_read_its_result(jobs: Jobs) -> None:
    artist = jobs.one()
    album = jobs.child(artist)
    assert jobs.stage(album) == "blocked"
    (held,) = jobs.claim()

    jobs.settle(outcome.done(held, '"id-7"'))

    assert jobs.stage(album) == "ready"
    assert parent_results(jobs, album) == {artist: '"id-7"'}
    assert jobs.take(album).parents == 1


@EVERYWHERE
def test_a_child_waits_for_all_of_its_parents(jobs: Jobs) -> None:
    parents = [jobs.one() for _ in range(4)]
    child = jobs.child(*parents, parents[0])

    for left, parent in zip((3, 2, 1), (parents[2], parents[0], parents[3]), strict=True):
        jobs.done(parent, result=str(parent))
        assert (jobs.stage(child), jobs.get(child).parents_open) == ("blocked", left)
    jobs.done(parents[1])

    assert jobs.stage(child) == "ready"
    assert len(parent_results(jobs, child)) == 4


def test_two_parents_that_end_in_one_batch_free_their_child_once(jobs: Jobs) -> None:
    first, second, third = (jobs.one() for _ in range(3))
    both, all_three = jobs.child(first, second), jobs.child(first, second, third)

    jobs.settle(*(outcome.done(job, None) for job in jobs.claim(2)))

    assert jobs.stage(both, all_three) == "ready blocked"
    assert jobs.get(all_three).parents_open == 1


def test_one_that_is_done_and_one_that_failed_in_one_batch_leave_a_failed_child(jobs: Jobs) -> None:
    good, bad = jobs.one(), jobs.one()
    child, other = jobs.child(good, bad), jobs.child(good)
    first, second = jobs.claim(2)

    jobs.settle(outcome.done(first, None), outcome.failed(second, "gone", "Gone."))

    assert jobs.stage(child, other) == "failed ready"
    assert f"Job {bad}," in (jobs.get(child).error_message or "")


@pytest.mark.parametrize(("due", "stage"), [(-5, "ready"), (60, "waiting")])
def test_a_freed_child_still_waits_for_its_time(jobs: Jobs, due: float, stage: str) -> None:
    parent = jobs.one()
    child = jobs.child(parent, due_at=jobs.clock.now + due)
    assert jobs.stage(child) == "blocked"

    jobs.done(parent)

    assert jobs.stage(child) == stage


@EVERYWHERE
def test_a_child_of_parents_that_are_done_already_is_ready_at_once(jobs: Jobs) -> None:
    parent = jobs.one()
    jobs.done(parent, result="7")

    child = jobs.child(parent)

    assert jobs.stage(child) == "ready"
    assert parent_results(jobs, child) == {parent: "7"}


def test_only_the_parents_that_are_open_are_waited_for(jobs: Jobs) -> None:
    done, running, ready = jobs.one(), jobs.one(), jobs.one()
    jobs.done(done)
    jobs.take(running)

    assert jobs.get(jobs.child(done, running, ready)).parents_open == 2


@EVERYWHERE
@pytest.mark.req("LID-11")
@pytest.mark.parametrize(("end", "said"), [("failed", "has failed"), ("cancelled", "was cancelled")])
@pytest.mark.parametrize("first", ["child", "parent"])
def test_a_parent_that_will_not_be_done_fails_its_child(jobs: Jobs, end: str, said: str, first: str) -> None:
    parent = jobs.one()
    child = jobs.child(parent) if first == "child" else None
    if end == "failed":
        jobs.fail(parent)
    else:
        jobs.cancel(parent)
    if child is None:
        child = jobs.child(parent)

    job = jobs.get(child)
    assert (job.stage, job.error_code, job.parents_open) == ("failed", "parent_failed", 0)
    assert names(job.error_message or "", f"Job {parent}", said)
    assert jobs.events(child)[-1].message == job.error_message
    assert jobs.history(child) == "queued failed"
    assert jobs.events(child)[-1].actor == "parent"
    assert jobs.tallies()["q", "failed_total:parent_failed"] == 1


@EVERYWHERE
@pytest.mark.req("LID-11")
@pytest.mark.parametrize("first", ["child", "parent"])
def test_retrying_a_parent_queues_its_children_again(jobs: Jobs, first: str) -> None:
    parent = jobs.one()
    child = jobs.child(parent) if first == "child" else None
    jobs.fail(parent)
    child = child or jobs.child(parent)

    assert jobs.retry(parent)

    assert jobs.stage(parent, child) == "ready blocked"
    assert jobs.history(child) == "queued failed retried"
    jobs.done(parent, result="1")
    assert jobs.stage(child) == "ready"


@EVERYWHERE
def test_failure_and_retry_reach_all_generations(jobs: Jobs) -> None:
    root = jobs.one()
    child = jobs.child(root)
    grandchild = jobs.child(child)
    last = jobs.child(grandchild, root)

    jobs.fail(root)
    assert jobs.stage(child, grandchild, last) == "failed failed failed"
    jobs.retry(root)
    assert jobs.stage(root, child, grandchild, last) == "ready blocked blocked blocked"
    for each in (root, child, grandchild, last):
        jobs.done(each)
    assert jobs.stage(last) == "done"


def test_cancelling_in_the_middle_fails_those_below_only(jobs: Jobs) -> None:
    root = jobs.one()
    middle, beside = jobs.child(root), jobs.child(root)
    below = jobs.child(middle)

    assert jobs.cancel(middle) == "cancelled"

    assert jobs.stage(root, middle, beside, below) == "ready cancelled blocked failed"


@pytest.mark.req("LID-11")
@pytest.mark.parametrize("order", list(permutations(["retry a", "done b"])), ids=" then ".join)
def test_a_revived_child_waits_only_for_what_is_still_open(jobs: Jobs, order: tuple[str, ...]) -> None:
    a, b = jobs.one(), jobs.one()
    child = jobs.child(a, b)
    jobs.fail(a)

    for step in order:
        if step == "retry a":
            jobs.retry(a)
        else:
            jobs.done(b)
    assert (jobs.stage(child), jobs.get(child).parents_open) == ("blocked", 1)
    jobs.done(a)

    assert jobs.stage(child) == "ready"


def test_a_child_stays_failed_while_another_of_its_parents_has_failed(jobs: Jobs) -> None:
    a, b = jobs.one(), jobs.one()
    child = jobs.child(a, b)
    jobs.fail(a)
    jobs.fail(b)

    jobs.retry(a)
    assert jobs.stage(child) == "failed"
    jobs.retry(b)
    assert (jobs.stage(child), jobs.get(child).parents_open) == ("blocked", 2)


def test_a_child_that_failed_by_itself_is_not_revived(jobs: Jobs) -> None:
    a, b = jobs.one(), jobs.one()
    own = jobs.child(a)
    jobs.done(a)
    jobs.fail(own)
    parent_of = jobs.child(b)
    jobs.fail(b)

    jobs.retry(b)

    assert jobs.stage(own, parent_of) == "failed blocked"


def test_a_child_whose_twin_has_taken_its_place_stays_failed(jobs: Jobs) -> None:
    parent = jobs.one()
    child, other = jobs.child(parent, key="x"), jobs.child(parent, key="y")
    jobs.fail(parent)
    twin = jobs.one("x")

    assert jobs.retry(parent)

    assert jobs.stage(child, other, twin) == "failed blocked ready"


@pytest.mark.parametrize("how", ["cancelled", "expired"])
def test_a_child_that_was_ended_by_itself_waits_again_when_a_person_retries_it(jobs: Jobs, how: str) -> None:
    parent = jobs.one()
    child = jobs.child(parent, expires_in=10)
    if how == "cancelled":
        jobs.cancel(child)
    else:
        jobs.clock.advance(10)
        jobs.expire()

    assert jobs.retry(child)

    assert (jobs.stage(child), jobs.get(child).parents_open) == ("blocked", 1)
    jobs.done(parent)
    assert jobs.stage(child) == "ready"


def test_a_child_that_a_person_retries_waits_for_the_parent_that_failed(jobs: Jobs) -> None:
    parent = jobs.one()
    child = jobs.child(parent)
    jobs.fail(parent)

    assert jobs.retry(child)
    assert jobs.stage(child) == "blocked"
    assert jobs.store.read(lambda tx: tx.query("open_parents", {"child": child})) == [(parent, "failed")]
    jobs.retry(parent)
    jobs.done(parent)

    assert jobs.stage(child) == "ready"


@EVERYWHERE
def test_a_child_whose_failed_parent_is_forgotten_does_not_wait_for_ever(jobs: Jobs) -> None:
    parent = jobs.one()
    child = jobs.child(parent)
    grandchild = jobs.child(child)
    jobs.fail(parent)
    jobs.retry(child)

    jobs.forget(parent)

    assert jobs.stage(child, grandchild) == "failed failed"
    assert names(jobs.get(child).error_message or "", f"Job {parent}", "forgotten")
    assert names(jobs.get(grandchild).error_message or "", f"Job {child}", "failed")
    assert jobs.retry(child)
    assert jobs.stage(child) == "ready"


@EVERYWHERE
def test_a_done_parent_is_not_forgotten_before_its_children_have_ended(jobs: Jobs) -> None:
    done, is_open = jobs.one(), jobs.one()
    child = jobs.child(done, is_open)
    jobs.done(done, result="7")

    assert not jobs.forget(done)
    jobs.done(is_open)
    assert not jobs.forget(done)  # the child is ready
    (held,) = jobs.claim()
    assert parent_results(jobs, child) == {done: "7", is_open: None}
    assert not jobs.forget(done)  # the child is running
    jobs.settle(outcome.done(held, None))

    assert jobs.forget(done)


@EVERYWHERE
@pytest.mark.parametrize("end", ["done", "failed"])
def test_retention_keeps_a_parent_until_its_children_have_ended(jobs: Jobs, end: str) -> None:
    parent, is_open, other = jobs.one(), jobs.one(), jobs.one()
    child = jobs.child(parent, is_open)
    (jobs.done if end == "done" else jobs.fail)(parent, other)
    if end == "failed":
        jobs.retry(child)  # and waits for a person to retry the parent, too
    jobs.clock.advance(100)

    assert jobs.prune(end, jobs.clock.now, most=1) == 1  # what is kept does not hide what is not
    assert jobs.prune(end, jobs.clock.now) == 0
    assert jobs.stage(parent, child) == f"{end} blocked"
    jobs.cancel(child)

    assert jobs.prune(end, jobs.clock.now) == 1


def test_parents_may_be_put_in_right_before_their_children(jobs: Jobs) -> None:
    def work(tx: Tx) -> tuple[int, list[InsertResult]]:
        (parent,) = insert.enqueue(tx, [new()])
        return parent.id, insert.enqueue(tx, [new(parents=(parent.id,)), new(parents=(parent.id,))])

    parent, children = jobs.store.write(work)

    assert jobs.stage(parent, *(child.id for child in children)) == "ready blocked blocked"
    assert jobs.get(parent).children == 2


@pytest.mark.parametrize("parents", [(999,), (0,), (-1,), (2**40,)])
def test_a_parent_that_is_not_there_is_refused(jobs: Jobs, parents: tuple[int, ...]) -> None:
    known = jobs.one()

    with pytest.raises(ValueError, match=f"after: .*{parents[0]}"):
        jobs.put(new(parents=(known, *parents)))

    assert jobs.get(known).children == 0


@pytest.mark.req("LID-02")
def test_a_child_with_a_twin_is_its_twin(jobs: Jobs) -> None:
    parent, other = jobs.one(), jobs.one()
    child = jobs.child(parent, key="x")

    (again,) = jobs.put(new("x", parents=(other,)))

    assert (again.id, again.created) == (child, False)
    assert (jobs.get(parent).children, jobs.get(other).children) == (1, 0)


@pytest.mark.req("LID-02")
def test_a_child_that_failed_with_its_parent_holds_its_unique_if_that_was_asked(jobs: Jobs) -> None:
    parent = jobs.one()
    jobs.fail(parent)
    wanted = new("x", while_={"queued", "running", "done", "failed"}, parents=(parent,))

    (first,) = jobs.put(wanted)
    (again,) = jobs.put(wanted)

    assert jobs.stage(first.id) == "failed"
    assert (again.id, again.created) == (first.id, False)


def test_a_long_chain_of_children_fails_and_is_revived_as_a_whole(jobs: Jobs) -> None:
    chain = [jobs.one()]
    for _ in range(60):
        chain.append(jobs.child(chain[-1]))

    jobs.fail(chain[0])
    assert set(jobs.stage(*chain).split()) == {"failed"}
    jobs.retry(chain[0])

    assert jobs.stage(*chain) == "ready" + " blocked" * 60


def test_a_parent_with_many_children_frees_them_all_at_once(jobs: Jobs) -> None:
    parent = jobs.one()
    jobs.put(*(new(parents=(parent,)) for _ in range(300)))

    jobs.done(parent)

    assert jobs.sql("select state, count(*) from tg_job group by state order by state") == [("done", 1), ("ready", 300)]


@EVERYWHERE
def test_many_children_are_put_in_at_once_each_with_its_own_parents(jobs: Jobs) -> None:
    artist, gone, done = (jobs.one() for _ in range(3))
    held = {job.id: job for job in jobs.claim(3)}
    jobs.settle(outcome.done(held[done], None))
    jobs.settle(outcome.failed(held[gone], "gone", "It is gone."))
    wanted = [
        new(unique_key="a", unique_while=3, parents=(artist,)), new(unique_key="b", unique_while=3, parents=(artist,)),
        new(unique_key="a", unique_while=3, parents=(artist,)), new(parents=(gone,)), new(parents=(done,)),
        new(parents=(artist, done)), new(),
    ]  # fmt: skip

    taken = jobs.store.write(lambda tx: insert.enqueue(tx, wanted))

    assert taken[2] == InsertResult(taken[0].id, created=False)
    assert [jobs.stage(each.id) for each in taken] == ["blocked"] * 3 + ["failed", "ready", "blocked", "ready"]
    jobs.settle(outcome.done(held[artist], '"id-7"'))
    assert [jobs.stage(taken[i].id) for i in (0, 1, 5)] == ["ready"] * 3
    assert parent_results(jobs, taken[5].id) == {artist: '"id-7"', done: None}
