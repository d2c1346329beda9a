"""The list of notices: newest first, in pages; who has read which."""

from __future__ import annotations

import pytest

from tests.store.jobs import Jobs
from tidegate import outbox
from tidegate.errors import NotFound
from tidegate.notices import inbox
from tidegate.outbox import NewNotice, NoticeSubject


def tell(jobs: Jobs, n: int, level: str = "error") -> None:
    new = NewNotice(
        kind="fatal", level=level, place=NoticeSubject(subject="target", name=f"t{n}", lane="7"), episode=float(n),
        title=f"t{n} needs you", message="It refused.", advice="Connect it again.", code="unauthorized", user="7",
    )  # fmt: skip
    assert jobs.store.write(lambda tx: outbox.raise_notice(tx, new))


def test_a_list_goes_from_the_newest_to_the_oldest_page_by_page(jobs: Jobs) -> None:
    for n in range(7):
        tell(jobs, n)

    seen, cursor, pages = list[str](), None, 0
    while True:
        page = jobs.store.read(lambda tx, cursor=cursor: inbox.list_notices(tx, cursor=cursor, limit=3))  # type: ignore[misc]
        seen += [line.name for line in page.items]
        pages += 1
        cursor = page.next
        if cursor is None:
            break
        tell(jobs, 10 + pages)  # what comes meanwhile is not mixed in

    assert seen == ["t6", "t5", "t4", "t3", "t2", "t1", "t0"]
    assert pages == 3


@pytest.mark.parametrize("cursor", ["", "7", "nx", "n" + "f" * 17, "n-1", "j5"])
def test_a_cursor_that_no_page_gave_is_refused(jobs: Jobs, cursor: str) -> None:
    with pytest.raises(ValueError, match=r"cursor: "):
        jobs.store.read(lambda tx: inbox.list_notices(tx, cursor=cursor))


def test_what_was_read_is_unread_no_more_and_says_by_whom(jobs: Jobs) -> None:
    for n in range(3):
        tell(jobs, n)
    jobs.clock.advance(5)

    assert jobs.store.write(lambda tx: inbox.acknowledge(tx, 2, "ada")) is True
    assert jobs.store.write(lambda tx: inbox.acknowledge(tx, 2, "bob")) is False

    line = jobs.store.read(lambda tx: inbox.get(tx, 2))
    assert (line.acked_at, line.acked_by, line.unread, line.open) == (jobs.clock.now, "ada", False, True)
    assert jobs.store.read(inbox.unread) == 2
    page = jobs.store.read(lambda tx: inbox.list_notices(tx, unread_only=True))
    assert [line.id for line in page.items] == [3, 1]


def test_all_are_read_up_to_the_one_that_was_seen(jobs: Jobs) -> None:
    for n in range(1203):
        tell(jobs, n)
    assert jobs.store.read(inbox.unread) == inbox.MAX_UNREAD

    assert jobs.store.write(lambda tx: inbox.acknowledge_all(tx, 1200, "ada")) == 1200
    assert jobs.store.read(inbox.unread) == 3
    assert jobs.store.write(lambda tx: inbox.acknowledge_all(tx, 1200, "ada")) == 0


def test_a_notice_that_is_not_there_cannot_be_read(jobs: Jobs) -> None:
    for look in (lambda tx: inbox.get(tx, 9), lambda tx: inbox.acknowledge(tx, 9, "ada")):
        with pytest.raises(NotFound, match="notice 9"):
            jobs.store.write(look)


def test_a_notice_as_json_has_all_that_a_page_shows(jobs: Jobs) -> None:
    tell(jobs, 0)

    assert jobs.store.read(inbox.list_notices).items[0].as_json() == {
        "id": 1, "kind": "fatal", "level": "error", "subject": "target", "name": "t0", "key": "7", "operation": "",
        "episode": 0.0, "code": "unauthorized", "title": "t0 needs you", "message": "It refused.",
        "advice": "Connect it again.", "user": "7", "created_at": jobs.clock.now, "ended_at": None, "acked_at": None,
        "acked_by": None, "open": True, "unread": True, "told_at": None, "decided_at": None, "waits_until": None,
        "why": None, "snoozed_until": None, "snoozed_by": None,
    }  # fmt: skip


def test_the_errors_that_go_on_come_first_however_old_they_are(jobs: Jobs) -> None:
    for n in range(3):
        tell(jobs, n)
    calm = NewNotice(
        kind="cap",
        level="warning",
        place=NoticeSubject(subject="target", name="slow"),
        episode=9.0,
        title="slow",
        message="Slow.",
    )
    jobs.store.write(lambda tx: outbox.raise_notice(tx, calm))
    jobs.store.write(lambda tx: outbox.acknowledge_recovered(tx, "t1", "7"))
    jobs.store.write(lambda tx: inbox.acknowledge(tx, 1, "ada"))

    assert [line.name for line in jobs.store.read(inbox.urgent)] == ["t2", "t0"]
    assert [line.name for line in jobs.store.read(lambda tx: inbox.urgent(tx, unread_only=True))] == ["t2"]


def test_an_error_that_stood_first_is_on_no_later_page_and_nothing_is_left_out(jobs: Jobs) -> None:
    for n in range(12):
        tell(jobs, n, level="error" if n in (0, 1, 2, 3, 8) else "warning")

    pages, cursor = list[list[str]](), None
    while True:
        page = jobs.store.read(lambda tx, cursor=cursor: inbox.urgent_first(tx, cursor=cursor, limit=3))  # type: ignore[misc]
        pages.append([line.name for line in page.items])
        cursor = page.next
        if cursor is None:
            break
        tell(jobs, 20 + len(pages), level="error")  # what comes meanwhile is not mixed in

    # Three errors stand first; the older two come in their turn, for there is no room for more.
    assert pages == [["t8", "t3", "t2", "t11", "t10", "t9"], ["t7", "t6", "t5"], ["t4", "t1", "t0"]]


@pytest.mark.parametrize("cursor", ["7", "n5ux", "nxu5", "u5", "n5u" + "f" * 17])
def test_a_cursor_of_the_errors_first_that_no_page_gave_is_refused(jobs: Jobs, cursor: str) -> None:
    with pytest.raises(ValueError, match=r"cursor: "):
        jobs.store.read(lambda tx: inbox.urgent_first(tx, cursor=cursor))
