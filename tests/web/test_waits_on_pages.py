"""What pages say of what is yet to come: nothing that nobody knows, and nothing that is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.local import LocalClient
from tidegate import Queue
from tidegate.clock import VirtualClock
from tidegate.store.base import Tx
from tidegate.targets import table
from tidegate.targets.table import StoredKeyHealth
from tidegate.web.app import build
from tidegate.web.site import Site

HERE = "http://127.0.0.1"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def mail(tmp_path: Path, clock: VirtualClock) -> Iterator[Queue]:
    with Queue(f"sqlite:///{tmp_path / 'mail.db'}", clock=clock, inline=True) as found:
        yield found


def seen(q: Queue, path: str) -> str:
    return LocalClient(build(Site(queue=q)), client=("127.0.0.1", 50000), base_url=HERE).get(path).text


def test_only_of_jobs_that_could_go_it_is_said_when_none_is_left(mail: Queue, clock: VirtualClock) -> None:
    @mail.job(queue="mail")
    def send(to: str) -> None: ...

    send.enqueue_many([(str(n),) for n in range(20)])
    mail.drain()
    clock.advance(1)
    send.options(due="1h").enqueue("later")
    assert "empty in about" not in seen(mail, "/")

    send.enqueue("now")
    assert "empty in about" in seen(mail, "/")


@pytest.mark.parametrize("path", ["/", "/targets"])
def test_what_is_tried_at_this_moment_is_tried_now(mail: Queue, clock: VirtualClock, path: str) -> None:
    now = clock.now()

    def ill(tx: Tx) -> None:
        tx.query("target_new", {"name": "api"})
        table.put_hold(tx, StoredKeyHealth(
            target="api", lane="", reason="backoff", since=now - 60, until=now + 0.5, failures=3, code="network",
        ))  # fmt: skip

    mail.store.write(ill)

    shown = seen(mail, path)
    assert 'data-label="Next try">now</td>' in shown
    mail.store.write(lambda tx: table.put_hold(tx, StoredKeyHealth(
        target="api", lane="", reason="backoff", since=now - 60, until=now + 90, failures=3, code="network",
    )))  # fmt: skip
    assert 'data-label="Next try">now</td>' not in seen(mail, path)
    assert "in 2 min" in seen(mail, path)
