"""What a person is offered is what they may do: the rule against the actions themselves, in every state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.jobs.gating import play
from tidegate.clock import VirtualClock
from tidegate.errors import Rejected
from tidegate.jobs import actions
from tidegate.jobs.outcome import Fail
from tidegate.jobs.queue import Queue
from tidegate.store.base import Tx

ACTIONS: dict[str, Callable[[Tx, int, str], object]] = {
    "retry": actions.retry, "cancel": actions.cancel, "forget": actions.forget,
}  # fmt: skip


class Undone(Exception):
    """Rolls back what was tried."""


def one_of_each(q: Queue, clock: VirtualClock) -> dict[str, int]:
    """A job in every stage, of a kind that can be cancelled and of one that cannot; and one refused at intake."""
    made: dict[str, int] = {}
    later: dict[str, Callable[[], int]] = {}

    for may in (True, False):
        kind = "free" if may else "kept"

        @q.job(queue=kind, name=kind, cancellable=may)
        async def work(how: str) -> None:
            if how == "failed":
                raise Fail("bad_request")

        later[kind] = lambda work=work: work.enqueue("ready").id  # type: ignore[misc]
        made |= {f"{kind} {how}": work.enqueue(how).id for how in ("done", "failed")}
        made[f"{kind} waiting"] = work.options(due=clock.now() + 1e6).enqueue("later").id
        made[f"{kind} blocked"] = work.options(after=[made[f"{kind} waiting"]]).enqueue("after").id
        made[f"{kind} refused"] = work.refuse(("bad",), "bad_request").id
        if may:
            made["free cancelled"] = work.options(due=clock.now() + 1e6).enqueue("never").id
            q.cancel(made["free cancelled"])

    async def main() -> None:
        await q.adrain()

    play(clock, main)
    return made | {f"{kind} ready": put_in() for kind, put_in in later.items()}


def _offered(q: Queue, made: dict[str, int]) -> dict[int, tuple[str, ...]]:
    return q.store.read(lambda tx: actions.of_jobs(tx, made.values()))


def _done(q: Queue, job: int) -> set[str]:
    """What can be done to a job; nothing is changed by finding out."""
    found = set()
    for name, do in ACTIONS.items():

        def tried(tx: Tx, do: Callable[[Tx, int, str], object] = do) -> None:
            do(tx, job, "ada")
            raise Undone

        try:
            q.store.write(tried)
        except Undone:
            found.add(name)
        except Rejected:
            continue
    return found


def test_what_is_offered_is_what_can_be_done(q: Queue, clock: VirtualClock) -> None:
    made = one_of_each(q, clock)
    offered = _offered(q, made)

    for what, job in made.items():
        assert set(offered[job]) == _done(q, job), what
    assert offered[made["kept ready"]] == offered[made["kept waiting"]] == ()
    assert offered[made["free refused"]] == ("forget",)
    assert offered[made["kept failed"]] == ("retry", "forget")


@pytest.mark.parametrize("cancellable", [True, False])
def test_a_job_that_runs_can_only_be_cancelled(q: Queue, clock: VirtualClock, cancellable: bool) -> None:
    seen: list[tuple[set[str], set[str]]] = []

    @q.job(queue="mail", name="send", cancellable=cancellable)
    async def send(n: int) -> None:
        seen.append((set(_offered(q, {"it": job.id})[job.id]), _done(q, job.id)))

    job = send.enqueue(1)

    async def main() -> None:
        await q.adrain()

    play(clock, main)
    assert seen == [({"cancel"} if cancellable else set(),) * 2]


def test_a_job_that_is_gone_is_not_named(q: Queue) -> None:
    assert q.store.read(lambda tx: actions.of_jobs(tx, [4711])) == {}
