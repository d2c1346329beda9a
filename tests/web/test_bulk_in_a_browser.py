"""What is done to many jobs, in a real browser: the page follows it, and cancels what is left."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.web.api.building import Shop
from tests.web.browsing import Visit
from tests.web.living import chip
from tidegate.jobs.bulk import service, table
from tidegate.jobs.listing import Filter
from tidegate.store.base import Tx


def ours(tx: Tx, id_: int) -> None:
    """The server's own thread leaves it alone for as long as the test lasts."""
    tx.query("lead", {"name": f"bulk {id_}", "holder": "test", "lease": 3600.0})


@pytest.mark.full
def test_the_page_of_a_bulk_action_follows_it_and_cancels_the_rest(tab: Visit, there: Shop) -> None:
    jobs = [there.send.options(due="1h").enqueue(f"{n}@example.org").id for n in range(148)]
    store = there.queue.store
    one = service.begin(store, "cancel", Filter(state="waiting"), "ada", expected=150, held_by="test")
    assert one is not None
    store.write(lambda tx: ours(tx, one.id))
    page = chip(tab.go(f"/actions/{one.id}"))
    expect(page.locator("main")).to_contain_text("0 of 150 are done")
    page.evaluate("window.stayed = true")

    def slice_(tx: Tx) -> None:
        table.run_batch(tx, one.id, "test")
        ours(tx, one.id)

    store.write(slice_)
    there.queue.notify_workers()
    expect(page.locator("main")).to_contain_text("100 of 150 are done")
    assert page.evaluate("window.stayed") is True

    page.get_by_role("button", name="Cancel the rest").click()
    expect(page.locator("main .state").first).to_contain_text("Cancelled")
    ended = store.read(lambda tx: service.require(tx, one.id))
    assert (ended.state, ended.done, ended.expected) == ("cancelled", 100, 150)
    assert there.queue.get(jobs[0]).state == "queued"
    assert there.queue.get(jobs[-1]).state == "cancelled"
    assert tab.complaints == []
