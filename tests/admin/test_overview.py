"""The overview: one sentence, what a person must do first, and what is behind it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.jobs.gating import Refusal, play
from tests.text import names, numbers
from tidegate import Backoff, Capacity, Target, outbox
from tidegate.admin import overview
from tidegate.admin.overview import Overview, sentence
from tidegate.clock import VirtualClock
from tidegate.events import Notice, NoticeKind
from tidegate.faults.codes import CORE
from tidegate.jobs import listing, reports
from tidegate.jobs.outcome import Fail
from tidegate.jobs.queue import Queue
from tidegate.store import base
from tidegate.store.base import Tx
from tidegate.targets import reports as target_reports
from tidegate.targets import table
from tidegate.targets.table import StoredKeyHealth

START = 1_700_000_000.0


def seen(q: Queue) -> Overview:
    return q.store.read(overview.overview)


def kinds(found: Overview) -> list[str]:
    return [need.kind for need in found.needs]


def working_on(q: Queue, *queues: str) -> None:
    """A worker that was just heard of."""
    about = {"id": "w", "host": "h", "pid": 1, "queues": json.dumps(queues), "stopping": 0, "outdated": 0, "beat": 1}
    q.store.write(lambda tx: tx.query("worker_seen", about))


def sending(q: Queue, target: Target | None = None, fails: BaseException | None = None, **options: Any) -> Any:
    @q.job(queue="mail", name="send", target=target, key=(lambda n: n) if target else None, **options)
    async def send(n: int) -> None:
        if fails is not None:
            raise fails

    return send


def met(q: Queue, *names: str) -> None:
    """Targets that were met and called once."""
    for name in names:
        q.store.write(lambda tx, name=name: tx.query("target_new", {"name": name}))  # type: ignore[misc]


def refused(q: Queue, target: str, *keys: str, code: str = "unauthorized") -> None:
    met(q, target)

    def work(tx: Tx) -> None:
        for key in keys:
            table.put_hold(tx, StoredKeyHealth(
                target=target, lane=key, reason="fatal", since=START, until=None, failures=1, code=code,
                message="The service refused the credentials.",
            ))  # fmt: skip

    q.store.write(work)


def drained(q: Queue, clock: VirtualClock) -> None:
    async def main() -> None:
        await q.adrain()

    play(clock, main)


def test_with_nothing_there_it_says_so(q: Queue) -> None:
    found = seen(q)

    assert (found.needs, found.attention, found.tick, found.healthy) == ([], [], None, True)


def test_a_healthy_day_is_one_calm_sentence(q: Queue, clock: VirtualClock) -> None:
    sending(q, Target("svc", breaker=True)).enqueue(1)
    met(q, "other")
    drained(q, clock)

    found = seen(q)

    assert (found.targets, found.healthy, found.needs) == ({"ok": 1, "new": 1}, True, [])


@pytest.mark.parametrize(
    ("tokens", "says"),
    [({}, []), ({"ok": 1}, []), ({"ok": 2}, [2]), ({"new": 1}, [1]), ({"new": 3}, [3]), ({"ok": 2, "new": 3}, [2, 3])],
)
def test_nobody_says_that_something_works_which_was_never_tried(tokens: dict[str, int], says: list[int]) -> None:
    assert numbers(sentence(Counter(tokens), [])) == says


def test_what_an_application_asks_of_people_is_there_until_it_is_dealt_with(q: Queue) -> None:
    def tell(tx: Tx, target: str, kind: NoticeKind, user: str | None = None) -> None:
        notice = Notice(
            kind=kind, target=target, key="some", episode=1.0, title="Some feeds are odd", message="Look at them."
        )
        outbox.record_target_notice(tx, outbox.of_target(notice, "some", user))

    def work(tx: Tx) -> None:
        tell(tx, "feeds", NoticeKind.FATAL)
        tell(tx, "rests", NoticeKind.DISABLED)
        tell(tx, "private", NoticeKind.FATAL, "ada")
        tell(tx, "spotify", NoticeKind.FATAL)

    refused(q, "spotify", "7")
    q.store.write(work)

    found = seen(q)
    assert [need.href for need in found.needs] == ["/targets/spotify", "/notices"]
    assert found.needs[1].message == "Look at them."
    assert not found.healthy

    q.store.write(lambda tx: outbox.acknowledge_recovered(tx, "feeds", "some"))
    assert [need.href for need in seen(q).needs] == ["/targets/spotify"]


def test_jobs_that_wait_are_told_with_the_age_of_the_oldest(q: Queue, clock: VirtualClock) -> None:
    send = sending(q)
    working_on(q, "mail")
    send.enqueue(1)
    clock.advance(720)
    send.enqueue_many([(2,), (3,)])
    send.options(due="1h").enqueue(4)
    working_on(q, "mail")

    found = seen(q)

    assert names(found.sentence, "4 jobs", "12 min")
    (queue,) = found.queues
    assert (queue.waiting, queue.oldest, queue.rate, queue.drained_in) == (4, 720, None, None)
    assert found.healthy


def test_what_needs_a_person_comes_first_in_the_sentence(q: Queue, clock: VirtualClock) -> None:
    sending(q, Target("api", breaker=True)).enqueue_many([(each,) for each in range(148)])
    clock.advance(725)
    working_on(q, "mail")
    refused(q, "spotify", "7", "8")
    refused(q, "lastfm", "7")
    met(q, "lidarr", "radarr")
    q.target("api").force("open", "1s")
    clock.advance(2)
    q.target("lidarr").pause("1h", by="ada")

    found = seen(q)

    assert numbers(found.sentence) == [2, 1, 1, 148, 12]
    assert [report.name for report in found.attention] == ["lastfm", "spotify", "lidarr", "api"]
    assert kinds(found) == ["fatal", "fatal", "paused"]
    assert not found.healthy


def test_a_refused_key_is_a_need_with_the_way_to_it(q: Queue) -> None:
    refused(q, "my api", "7", "8")

    (need,) = seen(q).needs

    assert (need.kind, need.subject, need.href, need.count) == ("fatal", "target my api", "/targets/my%20api", 2)
    assert "my api" in need.title
    assert names(need.message, "2 keys", CORE["unauthorized"].message)


def test_many_refused_targets_are_not_a_page_of_needs(q: Queue) -> None:
    for n in range(40):
        refused(q, f"svc{n:02}", "7")

    found = seen(q)

    assert len(found.needs) == 13
    assert (numbers(found.needs[-1].title), found.needs[-1].count) == ([28], 28)
    assert len(found.attention) == 12
    assert numbers(found.sentence) == [40]


def test_one_more_target_is_not_told_of_as_many(q: Queue) -> None:
    for n in range(13):
        refused(q, f"svc{n:02}", "7")

    last = seen(q).needs[-1]

    assert (last.count, numbers(last.title), numbers(last.message)) == (1, [1], [])


def test_failed_jobs_are_one_need_that_leads_to_what_failed(q: Queue, clock: VirtualClock) -> None:
    sending(q, fails=Fail("gone")).enqueue_many([(1,), (2,)])
    drained(q, clock)

    found = seen(q)

    assert numbers(found.sentence) == [2]
    (need,) = found.needs
    assert (need.kind, need.href, need.count) == ("failed", "/failures", 2)
    assert names(need.title, 2, "mail")

    @q.job(queue="post")
    async def post(n: int) -> None:
        raise Fail("gone")

    post.enqueue(1)
    drained(q, clock)
    (need,) = seen(q).needs
    assert (need.subject, need.count) == ("", 3)
    assert (numbers(need.title), numbers(need.message)) == ([3, 2], [2, 1])


def test_of_failed_jobs_only_what_can_be_done_is_said(q: Queue, clock: VirtualClock) -> None:
    read = sending(q, fails=Fail("gone"))
    read.refuse((1,), "bad_request")

    (need,) = seen(q).needs
    assert (need.kind, need.count) == ("failed", 1)

    read.refuse((2,), "bad_request")
    barred = seen(q).needs[0]

    read.enqueue(3)
    drained(q, clock)
    assert seen(q).needs[0].message != barred.message


def test_a_full_target_is_among_those_that_are_told_of(q: Queue, clock: VirtualClock) -> None:
    target = Target("lidarr", backoff=None, capacity=Capacity(2, depth=lambda: 2))

    @q.job(queue="albums", target=target)
    async def submit(n: int) -> None: ...

    submit.enqueue_many([(1,), (2,), (3,)])
    drained(q, clock)

    found = seen(q)
    assert [(each.name, each.token) for each in found.attention] == [("lidarr", "full")]
    assert numbers(found.attention[0].reason) == [2, 2]
    assert numbers(found.sentence)[:2] == [1, 3]
    assert [need.kind for need in found.needs] == ["no_worker"]  # being full is nothing that a person must mend


def test_a_fault_that_nobody_knows_is_a_need_until_the_job_is_done(q: Queue, clock: VirtualClock) -> None:
    ill: list[BaseException] = [RuntimeError("what?")]

    @q.job(queue="mail", name="send", backoff=Backoff("10s"), attempts=5)
    async def send(n: int) -> None:
        if ill:
            raise ill.pop()

    send.enqueue(1)
    drained(q, clock)
    first = seen(q)
    clock.advance(60)
    drained(q, clock)

    assert [(need.kind, need.count, need.href) for need in first.needs][:1] == [
        ("unclassified", 1, "/failures?bucket=unclassified")
    ]
    assert "unclassified" not in kinds(seen(q))


def test_a_queue_with_work_and_no_worker_is_a_need(q: Queue) -> None:
    sending(q).enqueue_many([(1,), (2,), (3,)])

    (need,) = seen(q).needs
    assert (need.kind, need.subject, need.count) == ("no_worker", "queue mail", 3)

    working_on(q, "mail")
    assert seen(q).needs == []


def test_a_job_that_waits_for_the_next_cycle_of_its_queue_is_no_need_unless_that_is_overdue(
    q: Queue, clock: VirtualClock
) -> None:
    sending(q).enqueue(1)
    clock.advance(86400)
    working_on(q, "mail")
    q.next_cycle("mail", clock.now() + 100)

    assert seen(q).needs == []
    clock.advance(overview.STUCK + 101)
    working_on(q, "mail")
    assert [need.kind for need in seen(q).needs] == ["stuck"]


def test_a_job_that_waits_too_long_is_a_need_unless_its_queue_is_paused(q: Queue, clock: VirtualClock) -> None:
    mail = sending(q)
    oldest = mail.enqueue(1)
    clock.advance(overview.STUCK + 60)
    mail.enqueue(2)
    working_on(q, "mail")

    (need,) = seen(q).needs
    assert need.kind == "stuck"
    assert names(need.title, "mail", "16 min")
    assert need.href == f"/jobs/{oldest.id}"

    q.pause("mail", "1h", by="ada")
    (need,) = seen(q).needs
    assert (need.kind, need.subject) == ("paused", "queue mail")
    assert "ada" in need.message


def test_the_newest_events_of_all_come_with_it(q: Queue) -> None:
    met(q, "svc")
    for n in range(8):
        q.target("svc").pause("1h", by=str(n))
        q.target("svc").resume(by=str(n))

    found = seen(q)

    assert [event.actor for event in found.events] == ["7", "7", "6", "6", "5", "5", "4", "4", "3", "3"]


def test_the_last_word_of_a_worker_is_the_tick(q: Queue, clock: VirtualClock) -> None:
    working_on(q, "mail")
    clock.advance(100)

    assert seen(q).tick == START


def test_the_rate_of_a_queue_says_when_it_is_drained(q: Queue, clock: VirtualClock) -> None:
    send = sending(q)
    send.enqueue_many([(each,) for each in range(50)])
    drained(q, clock)
    clock.advance(30)
    send.enqueue_many([(each,) for each in range(20)])

    (queue,) = seen(q).queues

    assert queue.rate == pytest.approx(10)
    assert queue.drained_in == pytest.approx(120)
    assert q.store.read(lambda tx: reports.queues(tx, ages=False))[0].rate is None


def test_of_jobs_that_are_all_held_nobody_says_when_they_are_done_and_each_says_what_holds_it(
    q: Queue, clock: VirtualClock
) -> None:
    send = sending(q, Target("api"))
    send.enqueue_many([(each,) for each in range(50)])
    drained(q, clock)
    send.enqueue_many([(each,) for each in range(50, 70)])

    def held() -> tuple[object, str]:
        jobs = q.store.read(lambda tx: listing.jobs(tx, listing.Filter(state="ready"), limit=1)).items
        found = q.store.read(lambda tx: reports.holding(tx, jobs))
        return seen(q).queues[0].drained_in, jobs[0].reason(clock.now() + 9, found)

    waits = held()
    assert (waits[0], numbers(waits[1])) == (pytest.approx(120), [9])
    q.target("api").pause("1h", by="ada")
    paused = held()
    assert paused[0] is None
    q.target("api").resume(by="ada")
    q.target("api").force("open", "1h", by="ada")
    opened = held()
    assert opened[0] is None
    assert len({waits[1], paused[1], opened[1]}) == 3


def test_all_of_it_can_be_said_in_json(q: Queue, clock: VirtualClock) -> None:
    refused(q, "svc", "7")
    sending(q, Target("api"), Refusal(503)).enqueue(1)
    drained(q, clock)

    said = json.loads(json.dumps(seen(q).as_json()))

    assert (said["sentence"], said["needs"][0]["kind"]) == (seen(q).sentence, "fatal")
    assert {"token", "word", "reason", "next_try", "icon"} <= said["attention"][0].keys()


def test_targets_are_listed_by_urgency_and_then_by_name_page_by_page(q: Queue) -> None:
    met(q, *(f"t{n}" for n in range(5)))
    refused(q, "z", "7")
    q.target("t3").pause("1h")

    def page(**given: Any) -> base.ResultPage[target_reports.TargetReport]:
        return q.store.read(lambda tx: listing.targets(tx, **given))

    found: list[str] = []
    cursor: str | None = None
    while True:
        some = page(limit=2, cursor=cursor)
        found += [report.name for report in some.items]
        if (cursor := some.next) is None:
            break

    assert found == ["z", "t3", "t0", "t1", "t2", "t4"]
    assert [report.name for report in page(state="paused").items] == ["t3"]
    assert [report.name for report in page(name="T4").items] == ["t4"]
    assert q.store.read(overview.target_states) == {"action": 1, "paused": 1, "new": 4}


@pytest.mark.parametrize("cursor", ["x", "ÿ", "====", "eA", "\x00"])
def test_a_cursor_of_targets_that_no_page_gave_is_an_error(q: Queue, cursor: str) -> None:
    with pytest.raises(ValueError, match="cursor"):
        q.store.read(lambda tx: listing.targets(tx, cursor=cursor))


def test_a_state_that_no_target_can_be_in_is_an_error(q: Queue) -> None:
    with pytest.raises(ValueError, match=r"state: 'well'.* action, paused, open"):
        q.store.read(lambda tx: listing.targets(tx, state="well"))


def test_a_target_that_was_called_without_a_breaker_works(q: Queue, clock: VirtualClock) -> None:
    sending(q, Target("api")).enqueue(1)
    drained(q, clock)
    met(q, "ap", "apis")

    found = {each.name: each.token for each in q.store.read(target_reports.every)}

    assert found == {"ap": "new", "api": "ok", "apis": "new"}


@pytest.mark.parametrize(
    ("ago", "calls", "token"), [(2.0, 9, "ok"), (2.0, 0, "new"), (7200.0, 9, "silent"), (7200.0, 0, "silent")]
)
def test_a_target_that_only_a_program_calls_is_as_well_as_the_last_word_of_it_is_new(
    q: Queue, clock: VirtualClock, ago: float, calls: int, token: str
) -> None:
    said = {
        "host-1": {"at": clock.now() - ago, "breakers": {"svc": {"state": "closed", "requests": 0, "calls": calls}}}
    }
    q.store.write(lambda tx: tx.query("target_report", {"name": "svc", "summary": json.dumps(said)}))

    assert [each.token for each in q.store.read(target_reports.every)] == [token]
