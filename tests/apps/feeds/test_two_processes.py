"""Poller and source manager as two processes, each killed while the other goes on; and the commands of a terminal."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.processes import Place, wait
from tidegate import Queue
from tidegate.apps import install
from tidegate.db import Db
from tidegate_apps.feeds.app import app
from tidegate_apps.feeds.settings import FeedsSettings
from tidegate_apps.feeds.source_manager import KnownState
from tidegate_apps.feeds.state import FeedState
from tidegate_demo.simulators.feeds import FeedSimulator


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    with ExitStack() as stack:

        def made(name: str, **feeds: Any) -> Place:
            found = Place(tmp_path / name, "feeds", feeds)
            stack.callback(found.close)
            return found

        yield made


def polled_again(db: Db, id_: int) -> None:
    db.all("set_due", source_id=id_, due_at=0.0, due_why="asked")


@pytest.mark.full
@pytest.mark.req("FEED-12", "FEED-10")
def test_what_the_poller_found_reaches_a_source_manager_that_was_killed_meanwhile(
    places: Callable[..., Place],
) -> None:
    manager = places("manager", poll=False)
    token = manager.run("token", "jwt", "--role", "poller").stdout.split()[-1]
    poller = places(
        "poller", source_manager_url=manager.url, source_manager_token=token, refresh="1s", ports=[],
        allow_networks=["127.0.0.0/8"],
    )  # fmt: skip
    ada = {"Authorization": f"Bearer {manager.run('token', 'jwt', '--role', 'operator').stdout.split()[-1]}"}

    def source() -> dict[str, Any]:
        found: dict[str, Any] = httpx2.get(f"{manager.url}/api/v1/sources/1", timeout=60).json()
        return found

    with FeedSimulator(items=3) as sim, Queue(f"sqlite:///{poller.folder / 't.db'}") as queue:
        here = install(app, queue, FeedsSettings(source_manager_url=manager.url))
        manager.start("serve")
        wait(manager.up, "the manager starts")
        for n in (1, 2):
            made = httpx2.post(
                f"{manager.url}/api/v1/sources", json={"feed_url": sim.feed(n), "name": f"feed {n}"}, timeout=60
            )
            assert made.status_code == 201
        db = here.db

        def state(id_: int) -> FeedState:
            found = db.first(FeedState, "states", source_id=id_)
            assert found is not None
            return found

        here.jobs.poll.enqueue()  # as the schedule does every minute
        poller.start("worker")
        wait(lambda: sim.polls(1) and sim.polls(2), "both are polled")
        wait(lambda: len(db.all("items", source_id=1, before=2**53, n=9)) == 3, "the items are kept")

        manager.kill()
        sim.now(1, "gone")
        polled_again(db, 1)
        wait(lambda: state(1).rest_reason == "gone", "the feed rests")
        assert sim.polls(1) == 2
        wait(lambda: "feed disabled" in poller.log("worker"), "it is said")
        poller.kill()  # the word that the manager must hear is on disk
        poller.start("worker")

        manager.start("serve")
        wait(lambda: source()["feed_disable_reason"] == "gone", "the manager hears of it")
        assert (source()["disabled_by"], source()["feed_disabled_at"] is not None) == ("auto", True)
        active = httpx2.get(f"{manager.url}/api/v1/sources?feed_active=true", timeout=60).json()["items"]
        assert [each["id"] for each in active] == [2]
        assert sim.polls(1) == 2  # one that rests is left alone

        sim.now(1, "well")
        wait(lambda: db.query_as(KnownState, "known_states", after=0, n=1)[0].reported, "the poller knows that")
        assert httpx2.patch(f"{manager.url}/api/v1/sources/1/feed-enable", headers=ada, timeout=60).status_code == 200
        wait(lambda: sim.polls(1) == 3, "what a person enabled is polled")
        wait(lambda: state(1).consecutive_errors == 0, "it is well")
        assert source()["feed_disabled_at"] is None
        httpx2.delete(f"{manager.url}/api/v1/sources/2", timeout=60).raise_for_status()
        wait(lambda: state(2).due_at is None, "what was removed is not polled")
        assert poller.kill(signal.SIGTERM) == 0


@pytest.mark.full
def test_the_commands_add_poll_list_switch_import_and_export(places: Callable[..., Place]) -> None:
    here = places("here", ports=[], allow_networks=["127.0.0.0/8"])
    with FeedSimulator(items=3) as sim:
        first = sim.feed(1)
        sim.now(2, "not_found")
        made = json.loads(here.run("feeds", "add", sim.feed(1), "--name", "One", "--json").stdout)
        assert (made["id"], made["name"], made["state"]) == (1, "One", "new")
        assert "added: 2" in here.run("feeds", "add", sim.feed(2)).stdout

        polled = here.run("feeds", "poll", "--all", "--json", check=False)
        assert polled.returncode == 1  # one of them failed
        assert [each["last_error_type"] for each in json.loads(polled.stdout)] == [None, "not_found"]
        assert (sim.polls(1), sim.polls(2)) == (1, 1)
        assert "One" in here.run("feeds", "list").stdout

        assert "disabled: 1" in here.run("feeds", "disable", "1").stdout
        listed = json.loads(here.run("feeds", "list", "--json", "--active").stdout)
        assert [each["id"] for each in listed] == [2]
        assert "enabled: 1" in here.run("feeds", "enable", "1").stdout
        out = here.run("feeds", "export").stdout
        assert json.loads(here.run("feeds", "import", "-", "--json", stdin=out).stdout) == {
            "added": 0, "already_there": 2, "refused": 0,
        }  # fmt: skip

    for args, code, words in (
        (("enable", "99"), 7, "99"),
        (("add", "nonsense"), 2, "feed_url: "),
        (("add", first), 6, "already: 1"),
        (("import", "tidegate.toml"), 2, "OPML"),
    ):
        failed = here.run("feeds", *args, check=False)
        assert (failed.returncode, words in failed.stderr) == (code, True), failed.stderr
        assert "Traceback" not in failed.stderr
