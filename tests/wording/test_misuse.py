"""What a program is told that hands in something wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.unit.guard.test_breaker_input import NUMBERS
from tests.unit.guard.test_misuse import WRONG as WRONG_TARGETS
from tests.unit.guard.test_refusals import REFUSED
from tests.unit.jobs.queueing import handler
from tests.unit.jobs.test_declare import WRONG as WRONG_KINDS
from tests.unit.serialization.test_plain_json import NOT_WRITTEN
from tests.unit.serialization.test_serialization import BAD
from tests.wording import catalogue
from tidegate import Breaker, BreakerOpen, Held, Queue, Target, TooManyRequests
from tidegate.serialization import Serial

HELD: dict[str, Held] = {
    "held/open": BreakerOpen("api", None, "breaker", 0, 120, 120),
    "held/open_with_a_date": BreakerOpen("api", None, "breaker", 1.7e9, 1.7e9 + 61, 60.2),
    "held/open_without_end": BreakerOpen("api", None, "breaker", 0, None, None),
    "held/half_open": TooManyRequests("api", None, "breaker", 0, 60, 0.25),
    "held/key": Held("feed", 4711, "cooldown", 0, 9, 172_800),
}


def declare(q: Queue, said: dict[str, Any]) -> object:
    return q.job(**said)(handler)


def misuses(q: Queue) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every use that is wrong, from the tables of the tests that name what each error must contain."""
    for n, (wrong, _) in enumerate(REFUSED):
        yield f"value/{n:02}", wrong
    for n, (write, _) in enumerate(NOT_WRITTEN):
        yield f"json/{n:02}", write
    for n, (annotation, value, _) in enumerate(BAD):
        yield f"serial/{n:02}", partial(Serial(annotation).encode, value)
    for n, (given, _) in enumerate(WRONG_TARGETS):
        yield f"target/{n:02}", partial(Target, "spotify", **given)
    for n, (said, _, _) in enumerate(WRONG_KINDS):
        yield f"kind/{n:02}", partial(declare, q, said)
    for n, (field, value, _, _) in enumerate(NUMBERS):
        yield f"breaker/{n:02}", partial(Breaker, **{"name": "api", field: value})


def test_misuse(tmp_path: Path) -> None:
    found = {key: str(held) for key, held in HELD.items()}
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}") as q:
        for key, use in misuses(q):
            with pytest.raises((TypeError, ValueError)) as refused:
                use()
            found[key] = catalogue.without_places(str(refused.value))
    catalogue.compare("misuse", found)
