"""Plays that a mark would pass: those handed in days later, those of another account, and those nobody has any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.apps.music.building import DAY, HOUR, MINUTE, Studio, World, down, kind_of, play
from tidegate import Queue
from tidegate_apps.music.library import tables
from tidegate_apps.music.library_writer import LibraryWriter, SyncOperation
from tidegate_apps.music.provider import Batch, Field, Gap, Operation

LANE = SyncOperation("ada", "svc", Operation.PLAYS)


@pytest.fixture
def studio(quick: Queue) -> Callable[..., Any]:
    @contextmanager
    def made() -> Iterator[Studio]:
        world = World(quick.clock)  # type: ignore[arg-type]
        with Studio.opened(quick, kind_of(world), world=world, look_every=60.0) as found:
            world.plays["ada", "svc"] = [play(n) for n in range(1, 5)]
            found.connect()
            found.run(MINUTE)
            yield found

    return made


def test_once_a_day_what_lies_before_the_mark_is_read_again_and_nothing_counts_twice(
    studio: Callable[..., Any],
) -> None:
    with studio() as s:
        mark = s.shop.keeping.mark(LANE)
        s.world.plays["ada", "svc"].insert(0, play(99, at=0.5))  # in the middle of what was read
        s.world.plays["ada", "svc"].pop()
        s.run(DAY - HOUR)
        assert len(s.refs()) == 4
        s.restart()  # a new process does not begin the day anew
        s.run(2 * HOUR)
        assert s.refs() == sorted(f"svc Song {n}" for n in (1, 2, 3, 4, 99))
        assert s.shop.keeping.mark(LANE) == mark

        calls = len(s.world.calls)
        s.run(HOUR)
        assert len(s.world.calls) - calls <= 13  # the look back is over until tomorrow


def test_a_look_back_that_failed_moves_no_mark_and_is_made_again(studio: Callable[..., Any]) -> None:
    with studio() as s:
        s.world.plays["ada", "svc"].insert(2, play(99, at=2.5))
        s.world.plays["ada", "svc"].pop()
        s.run(DAY - HOUR)
        calls = len(s.world.calls)

        async def at_the_look_back() -> Exception | None:
            # The first call of one sync is from the mark on, the second begins the look back, the third goes on.
            now = s.clock.monotonic()
            return down() if sum(each.at == now for each in s.world.calls[calls:]) > 2 else None

        s.world.ill["svc"] = at_the_look_back
        s.run(3 * HOUR)
        assert (len(s.refs()), s.shop.keeping.mark(LANE)) == (4, "4")
        s.world.ill.clear()
        s.run(HOUR)
        assert len(s.refs()) == 5


@pytest.mark.parametrize("disconnected", [True, False])
@pytest.mark.parametrize(("given", "anew"), [({"user": "ada8"}, True), ({"user": "ada7", "password": "new"}, False)])
def test_another_account_is_read_from_the_start_and_a_new_password_is_not(
    quick: Queue, given: dict[str, str], anew: bool, disconnected: bool
) -> None:
    world = World(quick.clock)  # type: ignore[arg-type]
    kind = kind_of(world)
    with Studio.opened(quick, kind, world=world) as s:
        connections = s.shop.connections
        connections.put("ada", kind, {"user": "ada7", "password": "old"})
        world.plays["ada", "svc"] = [play(1)]
        s.run(MINUTE)
        assert s.shop.keeping.mark(LANE) == "1"
        if disconnected:
            connections.remove("ada", "svc")
        connections.put("ada", kind, {"password": "old", **given})
        assert (s.shop.keeping.mark(LANE) is None) is anew


def test_after_a_login_that_does_not_say_whose_it_was_all_is_read_again(quick: Queue) -> None:
    world = World(quick.clock)  # type: ignore[arg-type]
    kind = kind_of(world, fields=(Field(name="token", label="Token", secret=True, hidden=True),))
    with Studio.opened(quick, kind, world=world) as s:
        world.plays["ada", "svc"] = [play(1)]
        for token, known in (("a", None), ("a", "1"), ("b", None)):
            s.shop.connections.put("ada", kind, {"token": token})
            assert s.shop.keeping.mark(LANE) == known
            s.run(MINUTE)


def test_a_gap_is_kept_once_with_its_rows_and_for_a_month(queue: Queue) -> None:
    now = [10 * DAY]
    keeping, db = LibraryWriter(tables(queue), lambda: now[0]), tables(queue)

    def gaps() -> list[float]:
        return [since for _, since, _ in db.all("gaps_of", user_id="ada", after=0.0)]

    def missed(n: int) -> None:
        gap = Gap(since=float(n), until=n + 0.5)
        assert keeping.plays(LANE, Batch(items=(play(n),), mark=str(n), gap=gap)) == 1

    missed(5)
    keeping.plays(LANE, Batch(items=(play(5),), mark="6", gap=Gap(since=5.0, until=5.5)))  # as after a kill
    assert gaps() == [5.0]
    now[0] += 29 * DAY
    missed(7)
    assert gaps() == [7.0, 5.0]
    now[0] += 2 * DAY
    missed(9)
    assert gaps() == [9.0, 7.0]
