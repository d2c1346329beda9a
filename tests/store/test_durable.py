"""The server of the tests does not wait for its disk; here it does, as that of every user."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
import pytest

from tests import postgres
from tests.databases import POSTGRES
from tests.store.jobs import Jobs, new
from tidegate.jobs import outcome


@pytest.fixture
def synced() -> Iterator[None]:
    if "TEST_DATABASE_URL" in os.environ:
        pytest.skip("a server of somebody else's keeps its settings")
    postgres.configure(fsync="on", full_page_writes="on")
    yield
    postgres.configure(fsync="off", full_page_writes="off")


@pytest.mark.usefixtures("synced")
@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
def test_everything_works_on_a_server_that_waits_for_its_disk(jobs: Jobs) -> None:
    with psycopg.connect(postgres.server_url()) as server:
        assert server.execute("show fsync").fetchone() == ("on",)
    jobs.put(*(new(str(n)) for n in range(50)))
    child = jobs.child(1, 2)
    held = jobs.claim(50)
    jobs.settle(*(outcome.done(job, "1") for job in held[:40]))
    jobs.renew(*held[40:])
    jobs.die(*held[40:])

    assert jobs.stage(child) == "ready"
    assert (len(jobs.claim(50)), len(jobs.suspects())) == (1, 10)


def test_servers_of_tests_are_found_again_by_all_workers_of_a_run() -> None:
    assert postgres.server_url() is postgres.server_url()
    with postgres.schema() as first, postgres.schema() as second:
        assert first != second
        with psycopg.connect(first) as one, psycopg.connect(second) as two:
            schemas = [each.execute("select current_schema()").fetchone() for each in (one, two)]
        assert schemas[0] != schemas[1]
