"""Lists of jobs: whatever is asked for, in whatever pages, is what a look at every job gives."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from bench.filling import NOW, RARE, THREE, Size
from tests.databases import BOTH, database
from tests.filled import filled
from tests.store.jobs import Jobs, rows
from tidegate.jobs import listing
from tidegate.jobs.listing import Count, Filter
from tidegate.jobs.search import USUAL, Effort
from tidegate.store.base import Store

SIZE = Size(ended=4000, queued=600, targets=30)
QUEUED = ("blocked", "waiting", "ready")
LITTLE = Effort(short=30, long=100)

CHOICES: dict[str, list[Any]] = {
    "queue": ["main", "mail", "rare", "none"],
    "state": list(listing.STATES),
    "kind": ["sync", "kind3", "rare", "none"],
    "target": ["target0", "target7", THREE, "none"],
    "code": ["upstream_failure", "rare_code", "bad_request", "none"],
    "older": [0.0, 60.0, 3000.0, 1e7],
    "younger": [0.0, 60.0, 3000.0, 1e7],
}


@pytest.fixture(scope="module", params=BOTH)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with database(request.param, tmp_path_factory.mktemp("listing"), fresh=True) as db:
        filled(db, SIZE)
        opened = db.open(lambda: NOW)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def all_jobs(store: Store) -> list[dict[str, Any]]:
    names = ("id", "queue", "kind", "target", "state", "created_at", "last_code")
    return [dict(zip(names, row, strict=True)) for row in rows(store, f"select {', '.join(names)} from tg_job")]


def matching(jobs: list[dict[str, Any]], wanted: Filter) -> list[int]:
    """The same question, asked of every job."""

    def fits(job: dict[str, Any]) -> bool:
        age = NOW - job["created_at"]
        states = QUEUED if wanted.state == "queued" else (wanted.state or job["state"],)
        return (
            all(getattr(wanted, name) in ("", job[name]) for name in ("queue", "kind", "target"))
            and wanted.code in ("", job["last_code"])
            and job["state"] in states
            and (wanted.older is None or age >= wanted.older)
            and (wanted.younger is None or age <= wanted.younger)
        )

    return sorted((job["id"] for job in jobs if fits(job)), reverse=True)


def singles() -> Iterator[Filter]:
    yield Filter()
    for name, values in CHOICES.items():
        for value in values:
            yield Filter(**{name: value})


def pairs(one: str, two: str) -> Iterator[Filter]:
    for first, second in itertools.product(CHOICES[one], CHOICES[two]):
        yield Filter(**{one: first, two: second})


def paged(store: Store, wanted: Filter, most: int, effort: Effort = USUAL) -> list[int]:
    """The whole list, page by page."""
    found: list[int] = []
    cursor: str | None = None
    while True:
        page = store.read(partial(listing.jobs, job_filter=wanted, cursor=cursor, limit=most, effort=effort))
        assert len(page.items) <= most
        assert page.next is None or page.next != cursor
        found += [job.id for job in page.items]
        cursor = page.next
        if cursor is None:
            return found


def compare(store: Store, jobs: list[dict[str, Any]], wanted: Filter) -> None:
    expected = matching(jobs, wanted)
    assert paged(store, wanted, 700) == expected, wanted
    if len(expected) < 300:
        assert paged(store, wanted, 20) == expected, wanted
        assert paged(store, wanted, 20, LITTLE) == expected, wanted
    if len(expected) < 150:
        assert paged(store, wanted, 3, LITTLE) == expected, wanted
    counted = store.read(lambda tx: listing.count(tx, wanted))
    assert counted == Count(len(expected)), wanted


def test_one_filter_gives_what_a_look_at_every_job_gives(store: Store, all_jobs: list[dict[str, Any]]) -> None:
    for wanted in singles():
        compare(store, all_jobs, wanted)


@pytest.mark.parametrize(("one", "two"), list(itertools.combinations(CHOICES, 2)))
def test_two_filters_give_what_a_look_at_every_job_gives(
    store: Store, all_jobs: list[dict[str, Any]], one: str, two: str
) -> None:
    for wanted in pairs(one, two):
        compare(store, all_jobs, wanted)


def test_all_filters_together_give_what_a_look_at_every_job_gives(store: Store, all_jobs: list[dict[str, Any]]) -> None:
    for state, code in itertools.product(("done", "failed", "queued", ""), ("", "upstream_failure")):
        wanted = Filter(
            queue="main", state=state, kind="sync", target="target0", code=code, older=200.0, younger=4000.0
        )
        compare(store, all_jobs, wanted)


def test_a_little_effort_gives_short_pages_and_skips_nothing(store: Store, all_jobs: list[dict[str, Any]]) -> None:
    wanted = Filter(kind="rare", target="target0")
    expected = matching(all_jobs, wanted)

    first = store.read(lambda tx: listing.jobs(tx, wanted, limit=5, effort=Effort(short=5, long=10)))

    assert len(expected) > 5
    assert paged(store, wanted, 5, Effort(short=5, long=10)) == expected
    assert [job.id for job in first.items] == expected[: len(first.items)]


def test_what_is_too_rare_to_be_counted_is_at_least_so_many(store: Store, all_jobs: list[dict[str, Any]]) -> None:
    wanted = Filter(code="upstream_failure", state="done")
    n = len(matching(all_jobs, wanted))

    counted = store.read(lambda tx: listing.count(tx, wanted, limit=20, effort=LITTLE))

    assert n > 20
    assert (counted.n, counted.capped, str(counted)) == (20, True, "20+")


@pytest.mark.parametrize("wanted", [Filter(), Filter(kind="sync"), Filter(queue="main"), Filter(older=60.0)], ids=str)
def test_a_count_stops_where_it_is_told_to(store: Store, wanted: Filter) -> None:
    assert store.read(lambda tx: listing.count(tx, wanted, limit=100)) == Count(100, capped=True)


def test_kinds_and_codes_are_those_that_there_are(store: Store, all_jobs: list[dict[str, Any]]) -> None:
    assert store.read(listing.kinds) == sorted({job["kind"] for job in all_jobs})
    assert store.read(listing.codes) == sorted({job["last_code"] for job in all_jobs} - {None})


def test_the_rare_are_as_rare_as_they_should_be(all_jobs: list[dict[str, Any]]) -> None:
    """The lists above prove little if the jobs are all alike."""
    assert len(matching(all_jobs, Filter(kind="rare"))) == RARE
    assert len(matching(all_jobs, Filter(code="rare_code"))) == RARE
    assert len(matching(all_jobs, Filter(target=THREE))) == 3
    assert {job["state"] for job in all_jobs} == {state for state in listing.STATES if state != "queued"}
    assert len(matching(all_jobs, Filter(kind="sync"))) > 0.95 * len(all_jobs)


@pytest.mark.parametrize("cursor", ["", "x", "j", "jxyz", "j1 ", "1", "j" + "f" * 17, "\x00", "ĵ1"])
def test_a_cursor_that_no_page_gave_is_an_error(store: Store, cursor: str) -> None:
    with pytest.raises(ValueError, match=r"cursor: "):
        store.read(lambda tx: listing.jobs(tx, Filter(), cursor=cursor))


@pytest.mark.parametrize(
    ("given", "says"),
    [({"state": "tired"}, "state: 'tired'.* queued, blocked"),
     ({"older": -1.0}, "older: -1.0"), ({"younger": float("nan")}, "younger: nan is not allowed"),
     ({"older": float("inf")}, "older: inf is not allowed")],
)  # fmt: skip
def test_a_filter_that_makes_no_sense_names_its_field(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Filter(**given)


def test_jobs_that_come_while_pages_are_turned_do_not_move_the_others(jobs: Jobs) -> None:
    first = [jobs.one() for _ in range(4)]
    wanted = Filter(queue="q")
    page = jobs.store.read(lambda tx: listing.jobs(tx, wanted, limit=2))
    jobs.one()

    rest = jobs.store.read(lambda tx: listing.jobs(tx, wanted, cursor=page.next, limit=2))

    assert [job.id for job in (*page.items, *rest.items)] == sorted(first, reverse=True)
    assert rest.next is None


def test_a_job_that_was_made_a_little_before_one_with_a_smaller_id_is_found_by_its_age(jobs: Jobs) -> None:
    early = jobs.one()
    jobs.clock.advance(-3)  # another process took its time
    late = jobs.one()
    jobs.clock.advance(3 + 60)

    def of(**age: Any) -> list[int]:
        return [job.id for job in jobs.store.read(lambda tx: listing.jobs(tx, Filter(**age))).items]

    assert of(older=62) == [late]
    assert of(younger=61) == [early]
