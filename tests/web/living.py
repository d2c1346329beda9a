"""Pages that follow a server: when one is alive, and what is done to what it shows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from playwright.sync_api import Page, expect

from tests.web.api.building import Shop
from tests.web.browsing import Visit
from tidegate import Queue, outbox
from tidegate.accounts import users
from tidegate.outbox import NewNotice, NoticeSubject
from tidegate.store.base import Tx
from tidegate.web.auth import COOKIE

T = TypeVar("T")
SIXTY = 60_000  # milliseconds, for what needs some anyway
TOASTS = ".toast"


def elsewhere(work: Callable[[], T]) -> T:
    """Runs it in a thread without a loop: the browser has one in this."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()


def chip(page: Page) -> Page:
    """The page, when it says that it is alive."""
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.wait_for_timeout(600)  # what it had missed while it was loading has come by now
    return page


def pause(there: Shop, by: str = "ada") -> None:
    there.queue.target("mailer").pause("1h", by=by)


def tell(queue: Queue, episode: float = 1.0, level: str = "error", name: str = "mailer", **more: bool) -> None:
    new = NewNotice(
        kind="fatal" if level == "error" else level, level=level, place=NoticeSubject(subject="target", name=name),
        episode=episode, title=f"{name} has notice {episode:g}", message="The service refused the credentials.",
        code=f"code-{episode:g}", over=more.get("over", False),
    )  # fmt: skip
    queue.run_in_transaction(lambda tx: outbox.raise_notice(tx, new))


def sign_in(tab: Visit, there: Shop, role: str) -> str:
    """The session of a new user, which the browser has from now on."""

    def add(tx: Tx) -> str:
        users.add_user(tx, "ada", "admin", "no password fits")
        users.add_user(tx, role, role, "no password fits")
        return users.begin_session(tx, role)

    secret = there.queue.store.write(add)
    tab.page.context.add_cookies([{"name": COOKIE, "value": secret, "url": tab.base}])
    return secret
