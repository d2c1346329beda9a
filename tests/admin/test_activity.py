"""Who did what: everything that people do is written down with the change, from where it came, before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from tests.jobs.gating import play
from tidegate import audit
from tidegate.accounts import users
from tidegate.accounts.access import Role
from tidegate.audit import Actor, AuditFilter, AuditLine, Origin
from tidegate.clock import VirtualClock
from tidegate.errors import Rejected
from tidegate.guard.target import Target
from tidegate.jobs import actions
from tidegate.jobs.bulk import service
from tidegate.jobs.listing import Filter
from tidegate.jobs.outcome import Fail
from tidegate.jobs.queue import Queue
from tidegate.store.base import Tx
from tidegate.targets import actions as target_actions

ADA = Actor("ada", Origin.PAGE, "the disk is full")


def clocked(at: float) -> str:
    return f"{at:.0f}"


def done(q: Queue, **wanted: Any) -> list[AuditLine]:
    return q.store.read(lambda tx: audit.list_activity(tx, AuditFilter(**wanted))).items


def note(q: Queue, name: str, by: Actor = ADA) -> None:
    q.store.write(lambda tx: audit.append_entry(tx, by, "x", audit.AuditSubject(subject="job", name=name)))


def said(line: AuditLine) -> str:
    """Who did which action to what: how it was -> how it became."""
    deed = line.deed
    where = " ".join(each for each in (deed.place.subject, deed.place.name, deed.place.lane) if each)
    return f"{deed.actor} {deed.action} {where}: {written(deed.was)} -> {written(deed.became)}"


def written(state: Mapping[str, Any]) -> str:
    """The parts of a state that are set, times in whole seconds."""
    return ",".join(
        f"{name}={clocked(value) if name == 'until' else value}" for name, value in state.items() if value is not None
    )


@pytest.fixture
def mail(q: Queue, clock: VirtualClock) -> Queue:
    """Two jobs: one has failed, one waits; both call a target."""
    target = Target("smtp")

    @q.job(queue="mail", name="send", target=target)
    async def send(n: int) -> None:
        raise Fail("gone")

    send.enqueue(1)

    async def main() -> None:
        await q.adrain()

    play(clock, main)
    send.options(due="1h").enqueue(2)
    return q


# What somebody does, and what is read of it: job 1 has failed, job 2 waits, and it is `clock.now()`.
DEEDS: dict[str, tuple[Callable[[Tx, float], Any], str]] = {
    "queue_paused": (
        lambda tx, now: actions.pause_queue(tx, "mail", now + 60, ADA),
        "ada queue_paused queue mail: state=on -> state=paused,until={minute}",
    ),
    "target_paused": (
        lambda tx, now: target_actions.pause_target(tx, "smtp", now + 60, ADA),
        "ada target_paused target smtp: state=on -> state=paused,until={minute}",
    ),
    "breaker_held_open": (
        lambda tx, now: target_actions.force_breaker(tx, "smtp", "open", ADA, now + 60),
        "ada breaker_held_open target smtp: state=closed -> state=open,until={minute}",
    ),
    "breaker_reset": (
        lambda tx, _: target_actions.reset_breaker(tx, "smtp", ADA),
        "ada breaker_reset target smtp: state=closed -> state=closed",
    ),
    "target_disabled": (
        lambda tx, now: target_actions.disable_key(tx, "smtp", "7", ADA, now + 60),
        "ada target_disabled target smtp 7: state=free -> state=disabled,until={minute}",
    ),
    "target_cleared": (
        lambda tx, _: target_actions.clear_key(tx, "smtp", "7", ADA),
        "ada target_cleared target smtp 7: state=free -> state=cleared",
    ),
    "job_retried": (
        lambda tx, _: actions.retry(tx, 1, ADA),
        "ada job_retried job 1: state=failed,code=gone -> state=queued",
    ),
    "job_cancelled": (
        lambda tx, _: actions.cancel(tx, 2, ADA),
        "ada job_cancelled job 2: state=queued -> state=cancelled",
    ),
    "job_forgotten": (
        lambda tx, _: actions.forget(tx, 1, ADA),
        "ada job_forgotten job 1: state=failed,code=gone,kind=send -> state=gone",
    ),
    "user_added": (
        lambda tx, _: users.add_user(tx, "bob", Role.ADMIN, "x" * 64, ADA),
        "ada user_added user bob:  -> role=admin",
    ),
}


@pytest.mark.parametrize("action", DEEDS)
def test_what_people_do_is_written_down_with_how_it_was_and_became(
    mail: Queue, clock: VirtualClock, action: str
) -> None:
    do, expected = DEEDS[action]
    mail.store.write(lambda tx: do(tx, clock.now()))

    (found,) = done(mail, accounts=True)

    assert said(found) == expected.format(minute=f"{clock.now() + 60:.0f}")
    assert (found.deed.action, found.deed.origin, found.deed.reason) == (action, "page", "the disk is full")
    assert found.deed.at == clock.now()


def test_what_is_ended_says_what_it_was_before(mail: Queue, clock: VirtualClock) -> None:
    end = f"{clock.now() + 3600:.0f}"
    mail.pause("mail", "1h")
    mail.resume("mail")
    mail.target("smtp").pause("1h")
    mail.target("smtp").resume()
    mail.store.write(lambda tx: target_actions.disable_key(tx, "smtp", "7", ADA))
    mail.store.write(lambda tx: target_actions.enable_key(tx, "smtp", "7", ADA))

    assert [said(each) for each in reversed(done(mail))] == [
        f"person queue_paused queue mail: state=on -> state=paused,until={end}",
        f"person queue_resumed queue mail: state=paused,until={end} -> state=on",
        f"person target_paused target smtp: state=on -> state=paused,until={end}",
        f"person target_resumed target smtp: state=paused,until={end} -> state=on",
        "ada target_disabled target smtp 7: state=free -> state=disabled",
        "ada target_enabled target smtp 7: state=disabled,by=ada -> state=enabled",
    ]


def test_a_pause_that_was_over_is_no_state_before(mail: Queue, clock: VirtualClock) -> None:
    mail.pause("mail", "1h")
    clock.advance(3601)
    mail.pause("mail", "1h")

    assert done(mail)[0].before(clocked) == "on"


def test_what_is_refused_or_changes_nothing_is_not_written_down(mail: Queue) -> None:
    with pytest.raises(Rejected):
        mail.store.write(lambda tx: actions.retry(tx, 2, ADA))
    assert mail.resume("mail") is False
    assert done(mail) == []


def test_what_a_program_does_to_its_own_jobs_is_in_their_history_only(mail: Queue) -> None:
    mail.retry(1)
    mail.cancel(2)

    assert done(mail) == []
    mail.cancel(1, Actor("ada", Origin.API))
    assert [said(each) for each in done(mail)] == ["ada job_cancelled job 1: state=queued,code=gone -> state=cancelled"]


def test_an_actor_is_a_name_wherever_one_is_kept(mail: Queue) -> None:
    mail.store.write(lambda tx: actions.requeue_job(tx, 1, ADA))

    assert mail.events(1)[-1].actor == "ada"


def test_a_bulk_action_is_one_deed_and_its_cancel_another(mail: Queue) -> None:
    one = service.begin(mail.store, "retry", Filter(queue="mail"), ADA, expected=1)
    assert one is not None
    mail.store.write(lambda tx: service.cancel(tx, one.id, Actor("bob", Origin.CLI)))

    assert [said(each) for each in reversed(done(mail))] == [
        "ada bulk_started bulk 1:  -> action=retry,jobs=1,filter={'queue': 'mail'}",
        "bob bulk_cancelled bulk 1: state=running,done=0 -> left=1",
    ]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({}, ["c", "b", "a"]),
        ({"actor": "ada"}, ["c", "a"]),
        ({"action": "target_paused"}, ["b"]),
        ({"origin": "cli"}, ["b"]),
        ({"subject": "queue"}, ["c", "a"]),
        ({"subject": "queue", "name": "a"}, ["a"]),
        ({"accounts": True}, ["d", "c", "b", "a"]),
        ({"actor": "nobody"}, []),
    ],
)
def test_deeds_are_found_by_who_what_where_and_when(q: Queue, wanted: dict[str, Any], names: list[str]) -> None:
    def put(tx: Tx) -> None:
        for by, action, subject, name in (
            (ADA, "queue_paused", "queue", "a"), (Actor("bob", Origin.CLI), "target_paused", "target", "b"),
            (ADA, "queue_resumed", "queue", "c"), (ADA, "user_removed", "user", "d"),
        ):  # fmt: skip
            audit.append_entry(tx, by, action, audit.AuditSubject(subject=subject, name=name))

    q.store.write(put)
    assert [each.deed.place.name for each in done(q, **wanted)] == names


def test_a_page_ends_where_the_next_one_begins(q: Queue) -> None:
    for n in range(5):
        note(q, str(n))
    cursor: str | None = None
    seen: list[str] = []
    while True:
        page = q.store.read(partial(audit.list_activity, audit_filter=AuditFilter(), cursor=cursor, limit=2))
        seen += [each.deed.place.name for each in page.items]
        if (cursor := page.next) is None:
            break
    assert seen == ["4", "3", "2", "1", "0"]
    with pytest.raises(ValueError, match="cursor: 'x'"):
        q.store.read(lambda tx: audit.list_activity(tx, AuditFilter(), cursor="x"))


def test_old_deeds_are_removed_and_a_time_is_a_filter(q: Queue, clock: VirtualClock) -> None:
    for name in ("old", "new"):
        note(q, name)
        clock.advance(100)
    middle = clock.now() - 150

    assert [each.deed.place.name for each in done(q, earliest=middle)] == ["new"]
    assert [each.deed.place.name for each in done(q, latest=middle)] == ["old"]
    assert q.store.write(lambda tx: audit.prune(tx, middle, 10)) == 1
    assert [each.deed.place.name for each in done(q)] == ["new"]


def test_a_secret_in_a_reason_is_not_kept(q: Queue) -> None:
    by = Actor("ada", Origin.CLI, "password=hunter2 was wrong")
    note(q, "1", by)

    assert "hunter2" not in done(q)[0].deed.reason


def test_one_job_is_no_jobs() -> None:
    assert [audit.format_state({"jobs": n}, clocked) for n in (0, 1, 2, 1200)] == [
        "0 jobs",
        "1 job",
        "2 jobs",
        "1,200 jobs",
    ]
