"""What a verdict costs, as CPU time: the kinds of failure that make up an outage, and the worst message there is."""

from __future__ import annotations

import time
from collections.abc import Callable

from tidegate.faults.classification import classify

ROUNDS = 5
VERDICTS = 20_000
MEGABYTE = 1_000_000


class Answer:
    """What a client keeps of an answer."""

    def __init__(self, status: int) -> None:
        self.status_code = status
        self.headers = {"content-type": "application/json", "date": "Sun, 06 Nov 1994 08:49:37 GMT", "server": "nginx"}
        self.content = b'{"error": {"message": "try later"}}'


class StatusError(Exception):
    """What raise_for_status() of httpx raises."""

    def __init__(self, message: str, answer: Answer) -> None:
        super().__init__(message)
        self.request = object()
        self.response = answer


def refused() -> BaseException:
    return ConnectionRefusedError(111, "Connection refused")


def timed_out() -> BaseException:
    return TimeoutError("timed out")


def answered(query: str = "") -> BaseException:
    text = f"Server error '503 Service Unavailable' for url 'https://api.example.org/v1/tracks{query}'"
    return StatusError(f"{text}\nFor more information check: https://example.org/Status/503", Answer(503))


def answered_with_a_key() -> BaseException:
    return answered("?page=2&api_key=0123456789abcdef")


def wrapped() -> BaseException:
    outer = RuntimeError("the sync failed")
    outer.__cause__ = OSError("All connection attempts failed")
    outer.__cause__.__cause__ = refused()
    return outer


def said() -> BaseException:
    return RuntimeError("spotify API returned status 403")


def unknown() -> BaseException:
    return ValueError("nobody knows this one")


TYPED: dict[str, Callable[[], BaseException]] = {
    "refused connection": refused,
    "timeout": timed_out,
    "HTTP 503 with an answer": answered,
}
OTHERS: dict[str, Callable[[], BaseException]] = {
    "HTTP 503 with a key in its address": answered_with_a_key,
    "refused connection, two causes down": wrapped,
    "status in a plain message": said,
    "unknown": unknown,
}


def per_second(error: BaseException, verdicts: int = VERDICTS, rounds: int = ROUNDS) -> float:
    """Verdicts in a second of CPU time; the best round, because the others were disturbed."""
    best = 0.0
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(verdicts):
            classify(error)
        best = max(best, verdicts / (time.process_time() - start))
    return best


def milliseconds(message: str) -> float:
    """CPU time of one verdict about *message*; the best of a few."""
    error, best = RuntimeError(message), float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        classify(error)
        best = min(best, time.process_time() - start)
    return best * 1000


def run() -> list[tuple[str, float, str]]:
    """Rows of (what, value, unit)."""
    rows = [(f"classify: {name}", per_second(make()), "verdicts/s") for name, make in {**TYPED, **OTHERS}.items()]
    rows.append(("classify: a message of 1 MB", milliseconds("status " * (MEGABYTE // 7)), "ms"))
    return rows
