"""A kind of argument, and a look at all that was put in."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from tidegate import Context, Queue, Target
from tidegate.errors import NotFound


@dataclass(frozen=True)
class Submission:
    kind: str
    id: int
    user: str = "ada"


ARTIST = Submission("artist", 1)
TARGET = Target("lidarr")


async def handler(a: Submission, job: Context) -> int:
    return a.id


def rows(q: Queue) -> int:
    """How many jobs there are, of all states."""
    found = 0
    for id_ in range(1, 50):
        with contextlib.suppress(NotFound):
            found += bool(q.get(id_))
    return found
