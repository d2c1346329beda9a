"""Many sources: the list of the active ones stays a range of one index, and a week of polls stays level and quiet."""

from __future__ import annotations

import heapq
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random

import pytest

from bench.feed_polling import fill, pages
from tests.apps.feeds.building import DAY, HOUR, Desk
from tidegate.guard import CooldownChange
from tidegate_apps.feeds import notices
from tidegate_apps.feeds import state as feed_state
from tidegate_apps.feeds.codes import ErrorType, PollError, type_of_status
from tidegate_apps.feeds.models import SourceRequest
from tidegate_apps.feeds.state import FeedState, PollResult, Success

PLANS = {
    "sqlite": "explain query plan ",
    "postgres": "explain ",
}


@pytest.mark.req("FEED-08")
@pytest.mark.parametrize("statement", ["sources_active", "sources_rested"])
def test_a_page_of_active_sources_is_a_range_of_the_index(desk: Desk, statement: str) -> None:
    fill(desk.queue, 10_000, "n % 100 <> 0")
    dialect = str(desk.queue.store.dialect)
    more = {"at": desk.now, "after_from": 5.0} if statement == "sources_rested" else {}
    shown = _plan(desk, statement, PLANS[dialect], after=8_000, n=101, **more)

    assert "feeds_source_active" in shown
    assert "Seq Scan" not in shown
    assert "SCAN feeds_source\n" not in shown
    assert "TEMP B-TREE" not in shown
    assert "Sort" not in shown


def test_what_is_due_is_a_range_of_an_index_too(desk: Desk) -> None:
    # With few rows, PostgreSQL rightly reads the table.
    desk.sources.add_many([SourceRequest(feed_url=f"http://h{n}.example/f") for n in range(3000)], "ada")
    dialect = str(desk.queue.store.dialect)
    if dialect == "postgres":
        desk.queue.store.write(lambda tx: tx.execute("analyze feeds_state"))
    shown = _plan(desk, "due", PLANS[dialect], at=desk.now, after_due=-1.0, after=0, n=500)

    assert "feeds_state_due" in shown
    assert "TEMP B-TREE" not in shown
    assert "Seq Scan" not in shown


@pytest.mark.req("FEED-08")
def test_every_active_source_is_on_exactly_one_page(quick: Desk) -> None:
    fill(quick.queue, 3_000)

    assert len(pages(quick.there)) == 27  # 2,700 of them, a hundred each


def _plan(desk: Desk, name: str, explain: str, **params: object) -> str:
    """What the database is going to do."""
    from tidegate.store.sql import bodies, compiled

    text = (desk.there.db._text,)[0]  # noqa: SLF001 - the very statement that is run
    statement = compiled(name, explain + bodies(text)[name], desk.queue.store.dialect)
    desk.queue.store.add([replace(statement, name=f"plan.{name}", returns=True)])
    rows = desk.queue.store.read(lambda tx: tx.query(f"plan.{name}", params))
    return "\n".join(str(row[-1]) for row in rows) + "\n"


# -- days in values ----------------------------------------------------------------------------------------------------

STATUSES = (200, 304, 304, 304, 403, 404, 410, 429, 500, 503, 0)  # 0: no answer at all


def weather(dice: Random) -> list[tuple[float, int]]:
    """What a feed answers from which time on: mostly it is well, and some never are."""
    if dice.random() < 0.05:
        return [(0.0, dice.choice(STATUSES[4:]))]
    found, at = [(0.0, 200)], 0.0
    while at < 7 * DAY:
        at += dice.expovariate(1 / DAY)
        found.append((at, dice.choice(STATUSES)))
        at += dice.expovariate(1 / (4 * HOUR))
        found.append((at, 200))
    return found


def answered(state: FeedState, status: int, now: float, roll: float) -> feed_state.PollVerdict:
    if status in (200, 304):
        return feed_state.record_success(state, Success(status=status, body_hash="x"), now, roll)
    kind = type_of_status(status) if status else ErrorType.NETWORK
    assert kind is not None
    asked = 5400.0 if status == 429 else None
    return feed_state.record_failure(
        state, PollError(kind, str(status), status_code=status, retry_after=asked), now, roll
    )


@pytest.mark.full
@pytest.mark.req("FEED-03", "FEED-10")
@pytest.mark.parametrize(
    ("n", "interval", "days"), [(1200, 1200.0, 1.5), pytest.param(10_000, HOUR, 7, marks=pytest.mark.long)]
)
def test_days_with_many_failures_are_level_and_loud_for_nothing_that_is_expected(
    n: int, interval: float, days: float
) -> None:
    with heard("tidegate.feeds") as levels:
        minutes, changes = lived(n, interval, days)

    assert set(levels) - {logging.INFO} == {logging.WARNING}
    assert changes[CooldownChange.DISABLED] > 20
    assert changes[CooldownChange.ENABLED] > 5
    assert changes["probe"] >= changes[CooldownChange.ENABLED]
    mean = sum(minutes.values()) / (days * 24 * 60)
    assert max(minutes.values()) <= 3 * mean


@contextmanager
def heard(name: str) -> Iterator[Counter[int]]:
    """How many lines of each level that logger writes; nobody else gets to see them, because there are so many."""
    levels: Counter[int] = Counter()
    log, counting = logging.getLogger(name), logging.Handler()
    counting.emit = lambda record: levels.update([record.levelno])  # type: ignore[method-assign]
    log.addHandler(counting)
    log.propagate = False
    try:
        yield levels
    finally:
        log.propagate = True
        log.removeHandler(counting)


def lived(n: int, interval: float, days: float) -> tuple[Counter[int], Counter[str]]:
    """So many feeds for so many days: polls in each minute, and how often a rest began, ended, or was probed."""
    dice = Random(7)
    weathers = [weather(dice) for _ in range(n)]
    states = [
        FeedState(source_id=i, name="", feed_url=f"http://h{i}/f", host=f"h{i}", interval=interval) for i in range(n)
    ]
    due = [(feed_state.first(0.0, interval, i, n)[0], i) for i in range(n)]
    heapq.heapify(due)
    minutes: Counter[int] = Counter()
    changes: Counter[str] = Counter()
    while due[0][0] < days * DAY:
        now, i = heapq.heappop(due)
        state = states[i]
        assert state.rest.admits(now)  # one that rests is left alone
        changes["probe"] += state.rest.disabled
        status = next(status for at, status in reversed(weathers[i]) if at <= now)
        found = answered(state, status, now, dice.random())
        minutes[int(now // 60)] += 1
        notices.log_poll(PollResult(before=state, verdict=found, at=now, ms=1))
        changes[found.change] += 1
        states[i] = found.state
        assert found.state.due_at is not None
        assert found.state.due_at > now
        heapq.heappush(due, (found.state.due_at, i))
    return minutes, changes
