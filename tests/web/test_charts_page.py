"""The page Charts: all queues together, and each beside the others."""

from __future__ import annotations

import re
from pathlib import Path

from tests.web.test_pages import client
from tidegate import Queue
from tidegate.web.site import Site


def test_queues_are_shown_together_and_each_beside_the_others_the_busiest_first(q: Queue) -> None:
    text = client(Site(queue=q)).get("/charts?span=3h").text

    assert re.findall(r'href="/queue/(\w+)\?span=3h"', text) == ["sync", "feeds", "lidarr", "convert"]
    titles = re.findall(r"<figcaption><strong>([^<]+)</strong>", text)
    assert titles == ["Attempts", "Share that failed", "Duration", "Waiting", "Oldest ready"]
    together = int(re.findall(r'aria-label="Attempts: ([\d,]*\d)', text)[0])
    each = [int(n) for n in re.findall(r'aria-label="Attempts of \w+: (\d+)', text)]
    assert together == sum(each) > 0


def test_what_waits_now_is_said_before_anything_was_put_down(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'new.db'}") as new:

        @new.job(queue="mail")
        def send(to: str) -> None: ...

        send.enqueue("ann")
        send.enqueue("ben")
        text = client(Site(queue=new)).get("/charts").text

    assert 'data-past="none"' in text
    assert 'data-label="Waiting now">2<' in text


def test_a_new_server_says_that_nothing_is_known_yet(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'new.db'}") as new:
        assert 'data-past="none"' in client(Site(queue=new)).get("/charts").text
