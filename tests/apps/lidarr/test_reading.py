"""A place in a list that nobody was given is refused in words; a list of many is read by an index."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from functools import partial
from importlib import resources

import apsw
import pytest

from tests.apps.lidarr.building import Round
from tests.databases import Database
from tests.web.local import LocalClient
from tidegate.apps import Page
from tidegate.store.sql import bodies
from tidegate.web.app import build
from tidegate.web.site import Site
from tidegate_apps.lidarr import pages

HUGE = "9" * 23


@pytest.mark.parametrize(
    ("state", "cursor"),
    [
        ("", HUGE), ("", f"-{HUGE}"), ("", "0x1"), ("queued", f"{HUGE}.1"), ("queued", f"0.{HUGE}"), ("queued", "0"),
        ("retrying", "nan_1"), ("retrying", "inf_1"), ("retrying", f"1.5_{HUGE}"), ("gave_up", f"-{HUGE}"),
    ],
)  # fmt: skip
def test_a_cursor_that_is_none_of_ours_is_refused_and_the_page_begins_anew(
    quick: Round, state: str, cursor: str
) -> None:
    web = LocalClient(
        build(Site(queue=quick.queue, apps=(quick.there,))), client=("127.0.0.1", 50000), base_url="http://localhost"
    )

    answer = web.get("/api/v1/lidarr/queue", params={"state": state, "cursor": cursor})

    assert answer.status_code in (400, 422)
    assert "next_cursor" in answer.text
    assert web.get("/lidarr", params={"state": state, "after": cursor}).status_code == 200


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("badges", "PRIMARY KEY (kind=? AND entity_id>?)"),
        ("badges_in", "COVERING INDEX lidarr_entity_status (kind=? AND status=? AND entity_id>?)"),
        ("count_in", "COVERING INDEX lidarr_entity_status (kind=? AND status=?)"),
        ("look_under_way", "INDEX tg_job_running"),
        ("known_of_user", "PRIMARY KEY (kind=? AND entity_id>? AND entity_id<?)"),
        ("children_of", "PRIMARY KEY (parent=?)"),
    ],
)
def test_the_pages_and_looks_read_by_an_index(quick: Round, quick_db: Database, name: str, how: str) -> None:
    text = bodies(resources.files("tidegate_apps.lidarr").joinpath("statements.sql").read_text())[name]
    text = text.replace("{now}", "0.0")
    given = {"kind": "track", "status": "missing", "after": 0, "n": 50, "user_id": "ada", "last": 9, "job": 1}
    quick.some(1, 0)

    with closing(apsw.Connection(quick_db.url.removeprefix("sqlite:///"))) as db:
        plan = " ".join(str(row[3]) for row in db.execute(f"explain query plan {text}", given))

    assert how in plan


def test_the_page_of_tracks_counts_each_state_up_to_a_limit(both: Round) -> None:
    web = LocalClient(
        build(Site(queue=both.queue, apps=(both.there,))), client=("127.0.0.1", 50000), base_url="http://localhost"
    )
    both.some(3, 0)
    both.sim.inside.put_artist("artist-2", "There")
    both.look()

    page = web.get("/lidarr/tracks?kind=artist&status=monitored").text
    assert 'All <span class="count">3</span>' in page
    assert 'Queued <span class="count">2</span>' in page
    assert 'Monitored <span class="count">1</span>' in page
    assert ("Name artist-2" in page, "Name artist-0" in page) == (True, False)
    few = Page(path="/lidarr/few", show=partial(pages.show_tracks, limit=1))
    there = dataclasses.replace(both.there, app=dataclasses.replace(both.there.app, pages=[few]))
    web = LocalClient(
        build(Site(queue=both.queue, apps=(there,))), client=("127.0.0.1", 50000), base_url="http://localhost"
    )
    assert 'Queued <span class="count">1+</span>' in web.get("/lidarr/few?kind=artist").text
