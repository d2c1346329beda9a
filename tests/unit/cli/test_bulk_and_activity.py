"""What was done to many jobs, and who did what, at the command line."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.text import names, numbers
from tests.unit.cli.conftest import Command
from tidegate.jobs.bulk import service
from tidegate.jobs.listing import Filter
from tidegate.jobs.outcome import Fail
from tidegate.jobs.queue import Queue


@pytest.fixture
def failed(url: str) -> str:
    """A database with three jobs that have failed."""
    with Queue(url) as queue:

        @queue.job(queue="mail", name="send")
        async def send(n: int) -> None:
            raise Fail("gone")

        send.enqueue_many([(1,), (2,), (3,)])
        asyncio.run(queue.adrain())
    return url


def test_what_is_done_to_many_has_an_id_and_says_who_and_why(command: Command, failed: str) -> None:
    asked = ("jobs", "retry", "--queue", "mail", "--expect", "3", "--by", "ada", "--reason", "it is back")
    assert numbers(command(*asked, "--db", failed).out) == [3, 1]  # jobs, and the number of the action

    found = json.loads(command("bulk", "show", "1", "--all", "--json", "--db", failed).out)
    assert (found["state"], found["changed"], found["origin"], found["actor"]) == ("done", 3, "cli", "ada")
    assert [(each["job"], each["outcome"]) for each in found["items"]] == [
        (1, "changed"),
        (2, "changed"),
        (3, "changed"),
    ]
    assert "3 of 3" in command("bulk", "list", "--db", failed).out
    (deed,) = json.loads(command("activity", "--json", "--db", failed).out)
    assert (deed["actor"], deed["action"], deed["name"], deed["reason"]) == ("ada", "bulk_started", "1", "it is back")


def test_one_that_is_under_way_is_cancelled_once(command: Command, failed: str) -> None:
    with Queue(failed) as queue:
        service.begin(queue.store, "retry", Filter(queue="mail"), "ada", expected=3)

    cancelled = command("bulk", "cancel", "1", "--db", failed)
    assert (cancelled.code, numbers(cancelled.out)) == (0, [0, 3])
    assert command("bulk", "cancel", "1", "--db", failed).code == 6
    assert command("bulk", "show", "2", "--db", failed).code == 7


def test_deeds_are_told_with_before_and_after(command: Command, failed: str) -> None:
    command("jobs", "pause", "mail", "--for", "1h", "--by", "ada", "--db", failed)
    command("jobs", "resume", "mail", "--by", "bob", "--db", failed)

    out = command("activity", "--actor", "bob", "--origin", "cli", "--db", failed).out
    assert names(out, "mail", "paused")
    assert " -> on" in out
    assert "ada" not in out
    assert command("activity", "--actor", "eve", "--db", failed).out.count("\n") == 1
