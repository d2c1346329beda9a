"""What the database itself refuses, whoever writes to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import apsw
import psycopg
import pytest

from tests.databases import APSW, POSTGRES, STDLIB, Database
from tests.store.jobs import Jobs
from tidegate.jobs.job import StoredState

EVERYWHERE = pytest.mark.parametrize("db", [APSW, STDLIB, POSTGRES], indirect=True)
REFUSALS = (apsw.ConstraintError, sqlite3.IntegrityError, psycopg.errors.IntegrityError)

Values = dict[str, Any]

GOOD: dict[str, Values] = {
    # A row of each stage, as the program writes it.
    "blocked": {"parents_open": 1, "parents": 1},
    "waiting": {},
    "ready": {},
    "running": {"attempt": 1, "fence": 1, "lease_by": "w", "lease_until": 2.0, "claimed_at": 1.0},
    "done": {"attempt": 1, "fence": 1, "finished_at": 2.0},
    "failed": {"error_code": "gone", "error_message": "Gone.", "finished_at": 2.0},
    "cancelled": {"finished_at": 2.0},
}


@pytest.fixture
def raw(db: Database, jobs: Jobs) -> Iterator[Any]:
    if db.name == POSTGRES:
        connection: Any = psycopg.connect(db.url)
    elif db.name == APSW:
        connection = apsw.Connection(str(db.path))
        connection.execute("begin")
    else:
        connection = sqlite3.connect(db.path, isolation_level=None)
        connection.execute("begin")
    yield connection
    connection.execute("rollback")
    connection.close()


def accepted(raw: Any, rows: Iterable[Values]) -> Iterator[bool]:
    """Whether the database takes each of these rows; none of them stays."""
    for row in rows:
        full = {"queue": "q", "kind": "k", "created_at": 1.0, "due_at": 1.0, "args": "1", "most_attempts": 3, **row}
        values = ", ".join("null" if v is None else repr(v) for v in full.values())
        raw.execute("savepoint one")
        try:
            raw.execute(f"insert into tg_job ({', '.join(full)}) values ({values})")
            yield True
        except REFUSALS:
            yield False
        finally:
            raw.execute("rollback to savepoint one")


def legal(row: Values) -> bool:
    """The rules of a row, in Python."""
    stage = row["state"]
    return (
        all((row[field] is not None) == (stage == "running") for field in ("lease_by", "lease_until", "claimed_at"))
        and all((row[field] is not None) == (stage == "failed") for field in ("error_code", "error_message"))
        and (row["finished_at"] is not None) == (stage in ("done", "failed", "cancelled"))
        and (row["result"] is None or stage == "done")
        and (row["parents_open"] > 0) == (stage == "blocked")
        and (row["attempt"] > 0 or stage not in ("running", "done"))
        and (row["stop_asked"] == 0 or stage == "running")
    )


@pytest.mark.req("CNV-12", "CNV-11")
@pytest.mark.parametrize("stage", list(StoredState))
def test_the_database_refuses_every_illegal_row(raw: Any, stage: str) -> None:
    names = (
        "lease_by", "lease_until", "claimed_at", "result", "error_code", "error_message", "finished_at", "parents_open",
        "attempt", "stop_asked",
    )  # fmt: skip
    choices = [
        (None, "w"),
        (None, 2.0),
        (None, 1.0),
        (None, "1"),
        (None, "c"),
        (None, "m"),
        (None, 2.0),
        (0, 1),
        (0, 1),
        (0, 1),
    ]
    rows = [{"state": str(stage), **dict(zip(names, values, strict=True))} for values in product(*choices)]
    assert len(rows) == 1024

    taken = list(accepted(raw, rows))

    assert taken == [legal(row) for row in rows]
    assert any(taken)


@EVERYWHERE
@pytest.mark.req("CNV-12")
@pytest.mark.parametrize("stage", GOOD)
def test_one_wrong_field_is_enough_for_a_refusal(raw: Any, stage: str) -> None:
    row = {"state": stage, **GOOD[stage]}
    wrong: list[Values] = [
        {"lease_by": None if "lease_by" in row else "w"}, {"lease_until": None if "lease_until" in row else 2.0},
        {"claimed_at": None if "claimed_at" in row else 2.0}, {"error_code": None if stage == "failed" else "c"},
        {"error_message": None if stage == "failed" else "m"}, {"finished_at": None if "finished_at" in row else 2.0},
        {"parents_open": 0 if stage == "blocked" else 1}, {"state": "lost"}, {"state": None}, {"attempt": -1},
        {"fence": -1}, {"deaths": -1}, {"most_attempts": 0}, {"children": -1}, {"parents": -1}, {"manual_retries": -1},
        {"stop_asked": 2}, {"args": None}, {"queue": None}, {"kind": None}, {"due_at": None}, {"created_at": None},
        {"unique_key": "x"}, {"unique_while": 3}, {"cancellable": 2}, {"cancellable": None},
    ]  # fmt: skip
    if stage != "done":
        wrong.append({"result": "1"})
    if stage != "running":
        wrong.append({"stop_asked": 1})
    if stage in ("running", "done"):
        wrong.append({"attempt": 0})
    if stage == "cancelled":
        wrong.append({"cancellable": 0})
    if stage == "running":
        wrong.append({"stop_asked": 1, "cancellable": 0})

    assert list(accepted(raw, [row])) == [True]
    assert [each for each, took in zip(wrong, accepted(raw, [{**row, **w} for w in wrong]), strict=True) if took] == []


@EVERYWHERE
@pytest.mark.parametrize("key", [None, "x"])
def test_a_unique_is_held_while_queued_and_running_or_not_at_all(raw: Any, key: str | None) -> None:
    rows = [{"state": "ready", "unique_key": key, "unique_while": mask} for mask in (*range(-1, 34), 64)]

    taken = [row["unique_while"] for row, took in zip(rows, accepted(raw, rows), strict=True) if took]

    assert taken == ([0] if key is None else [mask for mask in range(32) if mask & 3 == 3])


@EVERYWHERE
@pytest.mark.req("LID-02")
def test_two_rows_that_hold_the_same_unique_cannot_be(raw: Any) -> None:
    held = {"unique_key": "x", "unique_while": 3 | 4}
    bits = {"blocked": 1, "waiting": 1, "ready": 1, "running": 2, "done": 4, "failed": 8, "cancelled": 16}
    names = ("queue", "kind", "created_at", "due_at", "args", "most_attempts")
    first = {"state": "ready", **GOOD["ready"], **held}
    raw.execute(
        f"insert into tg_job ({', '.join(names)}, {', '.join(first)}) values "
        f"('q', 'k', 1.0, 1.0, '1', 3, {', '.join(map(repr, first.values()))})"
    )

    for stage, bit in bits.items():
        for mask in (3, 7, 11, 31):
            row = {"state": stage, **GOOD[stage], "unique_key": "x", "unique_while": mask}
            assert list(accepted(raw, [row])) == [not mask & bit], (stage, mask)
    assert all(accepted(raw, [{"state": "ready", "unique_key": "y", "unique_while": 3}]))
    assert all(accepted(raw, [{"state": "ready", "kind": "other", "unique_key": "x", "unique_while": 3}]))


@EVERYWHERE
def test_no_statement_gets_past_the_rules(raw: Any, jobs: Jobs) -> None:
    """Changing a good row is checked like making one."""
    id_ = jobs.one()
    if not isinstance(raw, psycopg.Connection):
        raw.execute("rollback")  # to see what was written meanwhile
        raw.execute("begin")
    for change in (
        "state = 'running'", "state = 'done'", "state = 'failed'", "state = 'blocked'", "result = '1'",
        "error_code = 'x'", "lease_by = 'w'", "parents_open = 1", "stop_asked = 1", "attempt = -1", "fence = -1",
    ):  # fmt: skip
        raw.execute("savepoint one")
        with pytest.raises(REFUSALS):
            raw.execute(f"update tg_job set {change} where id = {id_}")
        raw.execute("rollback to savepoint one")


@EVERYWHERE
@pytest.mark.parametrize(
    "sql",
    [
        "insert into tg_target (name, breaker) values ('t', 'broken')",
        "insert into tg_target (name, paused_at) values ('t', 1)",
        "insert into tg_target (name, paused_until) values ('t', 1)",
        "insert into tg_target (name, breaker_until) values ('t', 1)",
        "insert into tg_queue (name, paused_until) values ('q', 1)",
        "insert into tg_hold (target, lane, reason, since) values ('t', 'l', 'mood', 1)",
        "insert into tg_event (job, fence, seq, kind, at, attempt) values (1, 1, 0, 'a', 1, 1), (1, 1, 0, 'b', 1, 1)",
        "insert into tg_link (parent, child) values (1, 2), (1, 2)",
    ],
)
def test_the_rows_beside_the_jobs_are_checked_too(raw: Any, sql: str) -> None:
    with pytest.raises(REFUSALS):
        raw.execute(sql)


def taken(raw: Any, table: str, row: Values) -> bool:
    """Whether the database takes a row of a table; it does not stay."""
    values = ", ".join("null" if v is None else repr(v) for v in row.values())
    raw.execute("savepoint one")
    try:
        raw.execute(f"insert into {table} ({', '.join(row)}) values ({values})")
    except REFUSALS:
        return False
    else:
        return True
    finally:
        raw.execute("rollback to savepoint one")


def all_rows(good: Values, choices: dict[str, tuple[Any, ...]]) -> list[Values]:
    return [{**good, **dict(zip(choices, values, strict=True))} for values in product(*choices.values())]


NOTICE: Values = {
    "kind": "fatal", "level": "error", "subject": "target", "name": "t", "episode": 1.0, "title": "T", "message": "M.",
    "created_at": 5.0,
}  # fmt: skip
REQUEST: Values = {"scope": "s", "name": "k", "digest": "d", "begun_at": 1.0}


@EVERYWHERE
def test_a_notice_ends_and_is_read_after_it_was_made_and_says_by_whom(raw: Any) -> None:
    rows = all_rows(
        NOTICE, {"ended_at": (None, 4.0, 5.0, 6.0), "acked_at": (None, 4.0, 5.0), "acked_by": (None, "ada")}
    )

    def legal(row: Values) -> bool:
        after = all(row[field] is None or row[field] >= 5.0 for field in ("ended_at", "acked_at"))
        return after and (row["acked_at"] is None) == (row["acked_by"] is None)

    assert [taken(raw, "tg_notice", row) for row in rows] == [legal(row) for row in rows]


@EVERYWHERE
def test_a_request_has_an_answer_or_a_lease_and_never_both(raw: Any) -> None:
    choices = {"lease_until": (None, 2.0), "status": (None, 99, 200, 600), "headers": (None, "{}"), "body": (None, "x")}
    rows = all_rows(REQUEST, choices)

    def legal(row: Values) -> bool:
        if row["status"] is None:
            return row["lease_until"] is not None and row["headers"] is None and row["body"] is None
        return row["status"] == 200 and row["lease_until"] is None and row["headers"] is not None

    found = [taken(raw, "tg_request", row) for row in rows]
    assert found == [legal(row) for row in rows]
    assert sum(found) == 3


@EVERYWHERE
@pytest.mark.parametrize(
    ("table", "good", "wrong"),
    [
        ("tg_notice", NOTICE, dict.fromkeys(NOTICE)),
        ("tg_notice", NOTICE, {"kind": "", "level": "loud", "subject": "person", "name": ""}),
        ("tg_notice", NOTICE, {"title": "", "message": ""}),
        ("tg_request", {**REQUEST, "lease_until": 2.0}, dict.fromkeys(REQUEST)),
        ("tg_request", {**REQUEST, "lease_until": 2.0}, {"scope": "", "name": "", "digest": "", "fence": 0}),
        ("tg_request", {**REQUEST, "status": 200, "headers": "{}"}, {"body": "x" * 65_537}),
    ],
)  # fmt: skip
def test_one_wrong_field_of_a_notice_or_a_request_is_enough(raw: Any, table: str, good: Values, wrong: Values) -> None:
    assert taken(raw, table, good)
    assert [field for field, value in wrong.items() if taken(raw, table, {**good, field: value})] == []


@EVERYWHERE
def test_one_episode_has_one_notice_and_one_place_one_that_is_open(raw: Any) -> None:
    ended = {**NOTICE, "ended_at": 6.0}
    values = ", ".join(map(repr, ended.values()))
    raw.execute(f"insert into tg_notice ({', '.join(ended)}) values ({values})")
    assert not taken(raw, "tg_notice", NOTICE)
    again = {**NOTICE, "episode": 2.0}
    assert taken(raw, "tg_notice", again)

    raw.execute(f"insert into tg_notice ({', '.join(again)}) values ({', '.join(map(repr, again.values()))})")
    other = {**NOTICE, "episode": 3.0}
    assert not taken(raw, "tg_notice", other)
    for change in ({"ended_at": 9.0}, {"lane": "7"}, {"operation": "x"}, {"kind": "cap"}, {"name": "u"}):
        assert taken(raw, "tg_notice", {**other, **change}), change
    assert taken(raw, "tg_notice", {**other, "subject": "queue"})
