"""Result files as a careful handler makes them, and the sweep that removes what no job stands for.

Names carry the fence, so that no clock and no age is needed to tell whose a file is: of an older fence, nobody's.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.orders import Orders


def content(job: int, fence: int, n: int) -> bytes:
    return f"job {job} fence {fence} number {n}\n".encode() * (1 + n % 40)


def publish(orders: Orders, job: int, fence: int, n: int) -> dict[str, object]:
    """Draft, fsync, name, fsync of the folder; what the job records of it."""
    data = content(job, fence, n)
    draft = orders.drafts / f"{job}-{fence}-{secrets.token_hex(4)}"
    name = f"{job}-{fence}.txt"
    try:
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(orders.made / name)
    finally:
        draft.unlink(missing_ok=True)
    _flush(orders.made)
    return {"n": n, "fence": fence, "file": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


@dataclass(frozen=True, slots=True)
class Known:
    """What the database says of a job. A restore raises fences: the file of a done job is the one that it recorded."""

    fence: int = 0
    state: str = "gone"
    file: str = ""


def sweep(orders: Orders, jobs: Callable[[], Mapping[int, Known]]) -> int:
    """Removes what no job stands for; *jobs* is asked after the files were listed."""
    there = [*orders.drafts.iterdir(), *orders.made.iterdir()]
    known = jobs()
    if orders.harmed.exists():
        return 0
    gone = 0
    for file in there:
        if not _stands(file, known, draft=file.parent == orders.drafts):
            file.unlink(missing_ok=True)
            gone += 1
    return gone


def _stands(file: Path, known: Mapping[int, Known], *, draft: bool) -> bool:
    job, fence = (int(part) for part in file.stem.split("-")[:2])
    found = known.get(job, Known())
    if found.state == "done":
        return not draft and file.name == found.file
    return fence == found.fence and found.state == "running"


def _flush(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
