from __future__ import annotations

import threading
import time

from tidegate.store.postgres import NotifyThrottle


class Heard:
    def __init__(self) -> None:
        self.times: list[float] = []
        self.changed = threading.Condition()

    def __call__(self) -> None:
        with self.changed:
            self.times.append(time.monotonic())
            self.changed.notify_all()

    def wait_for(self, n: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: len(self.times) >= n, 60)


def test_the_first_is_sent_at_once() -> None:
    heard = Heard()
    NotifyThrottle(heard, every=60).announce()

    assert len(heard.times) == 1


def test_a_burst_is_one_announcement_and_one_more_after_it() -> None:
    heard = Heard()
    announcer = NotifyThrottle(heard, every=0.05)
    began = time.monotonic()
    for _ in range(200):
        announcer.announce()

    assert heard.wait_for(2)
    burst = time.monotonic() - began
    assert len(heard.times) <= 2 + burst / 0.05
    assert heard.times[1] - began >= 0.045


def test_nothing_that_happened_goes_unannounced() -> None:
    heard = Heard()
    announcer = NotifyThrottle(heard, every=0.005)
    for _ in range(300):
        last = time.monotonic()
        announcer.announce()
    with heard.changed:
        assert heard.changed.wait_for(lambda: heard.times[-1] >= last, 60)


def test_many_threads_at_once_send_no_more_than_one_does() -> None:
    heard = Heard()
    announcer = NotifyThrottle(heard, every=0.05)
    began = time.monotonic()

    def burst() -> None:
        for _ in range(50):
            announcer.announce()

    threads = [threading.Thread(target=burst) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    heard.wait_for(2)

    assert len(heard.times) <= 2 + (time.monotonic() - began) / 0.05
