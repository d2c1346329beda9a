"""Blows at SQLite's file: it is moved away for a while, or harmed and restored from the backup made just before."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.copies import Copies
from tests.chaos.crew import Crew
from tests.chaos.orders import Orders
from tests.chaos.schedule import Blow

_PAGE = 4096
_HELD_AFTER = 60.0  # seconds that the enqueuer may take to see that it must wait
_SAID_AFTER = 20.0  # seconds in which a process must say that its database is gone
_LIVES_ON = 3.0  # seconds that everybody works on what is left of it
_SAID = ("database_missing", "database_damaged")

Until = Callable[[float, Callable[[], None]], None]


def remove(file: Path, dice: random.Random) -> None:
    file.unlink()


def replace_by_an_empty_one(file: Path, dice: random.Random) -> None:
    file.unlink()
    file.touch()


def cut_to_nothing(file: Path, dice: random.Random) -> None:
    _cut(file, 0)


def cut(file: Path, dice: random.Random) -> None:
    _cut(file, int(file.stat().st_size * dice.uniform(0.1, 0.9)) // _PAGE * _PAGE)


def flip_bits(file: Path, dice: random.Random) -> None:
    """One bit in each of a tenth of the pages."""
    pages = file.stat().st_size // _PAGE
    with file.open("r+b") as opened:
        for page in dice.sample(range(pages), max(1, pages // 10)):
            at = page * _PAGE + dice.randrange(_PAGE)
            opened.seek(at)
            byte = opened.read(1)[0]
            opened.seek(at)
            opened.write(bytes([byte ^ 1 << dice.randrange(8)]))


def overwrite(file: Path, dice: random.Random) -> None:
    """A third of it, with zeros."""
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.seek(dice.randrange(max(1, size // _PAGE)) * _PAGE)
        opened.write(bytes(min(size // 3, size - opened.tell())))


def _cut(file: Path, size: int) -> None:
    with file.open("r+b") as opened:
        opened.truncate(size)


# Nothing may be acknowledged after the first three. Of the others SQLite may not know yet, or its log has the pages.
SURE = (remove, replace_by_an_empty_one, cut_to_nothing)
HARMS = (*SURE, cut, flip_bits, overwrite)


@dataclass
class OnFile:
    """What has been done to one file. *tend* keeps everything else going; *until* ends something later."""

    file: Path
    orders: Orders
    crew: Crew
    copies: Copies
    until: Until
    tend: Callable[[], None]
    harms: Counter[str] = field(default_factory=Counter)
    said: int = 0  # harms that a process reported
    wrong: list[str] = field(default_factory=list)

    @property
    def _away(self) -> Path:
        return self.file.with_name(f"{self.file.name}.away")

    def strikes(self) -> dict[str, Callable[[Blow], bool]]:
        """Each returns False when it is not possible just now."""
        return {"move the file away": self._move_away, "harm the file": self._harm}

    def figures(self) -> dict[str, int]:
        return {"harms that were reported": self.said} | {f"harms: {name}": n for name, n in self.harms.items()}

    def _move_away(self, blow: Blow) -> bool:
        if self._away.exists():
            return False
        self.file.rename(self._away)
        self.until(blow.lasts, self._put_back)
        return True

    def _put_back(self) -> None:
        if self.file.exists():
            self.wrong.append("a file was made where the database had been moved away")
        self._away.rename(self.file)

    def _harm(self, blow: Blow) -> bool:
        """Backup, harm, stop of all processes, restore: what was acknowledged before the backup must all be there."""
        if self._away.exists():
            return False
        try:
            if not self._wait_for_held():
                return False
            copy, begun = self.copies.folder / f"before-{self.harms.total()}", self._begun()
            if not self.copies.back_up(copy):
                return False
            dice = random.Random(blow.roll)
            harm = HARMS[self.harms.total() % len(HARMS)]
            self._suffer(harm, dice)
            self.crew.close()
            self.copies.restore(copy)
            with self.orders.restored.open("a") as file:
                file.write(f"{begun}\n")
            self.harms[harm.__name__] += 1
        finally:
            self.copies.harmed += 1
            for name in (self.orders.harmed, self.orders.hold, self.orders.held):
                name.unlink(missing_ok=True)
            for old in self.file.parent.glob(f"{self.file.name}.damaged-*"):
                old.unlink()
            self.crew.closed = False
        return True

    def _wait_for_held(self) -> bool:
        """Until no more jobs are put in: what was acknowledged after the backup would be lost."""
        self.orders.held.unlink(missing_ok=True)
        self.orders.hold.touch()
        return self._wait(_HELD_AFTER, self.orders.held.exists)

    def _suffer(self, harm: Callable[[Path, random.Random], None], dice: random.Random) -> None:
        said, acknowledged = self._reports(), self.orders.acknowledged.stat().st_size
        self.orders.harmed.touch()
        self.copies.harmed += 1
        harm(self.file, dice)
        if harm in SURE:
            self.orders.hold.unlink()
        self._wait(_LIVES_ON, lambda: False)
        reported = self._wait(_SAID_AFTER if harm in SURE else 0.0, lambda: self._reports() > said)
        self.said += reported
        if harm in SURE and not reported:
            self.wrong.append(f"no process says that the file is gone: {harm.__name__}")
        if harm in SURE and self.orders.acknowledged.stat().st_size > acknowledged:
            self.wrong.append(f"jobs were acknowledged that are in no file: {harm.__name__}")

    def _reports(self) -> int:
        logs = [seat.log for seat in (*self.crew.workers, self.crew.enqueuer)]
        return sum(log.read_text(errors="replace").count(each) for log in logs if log.exists() for each in _SAID)

    def _begun(self) -> int:
        return self.orders.begun.read_text().count("\n")

    def _wait(self, seconds: float, true: Callable[[], bool]) -> bool:
        end = time.monotonic() + seconds
        while not (found := true()) and time.monotonic() < end:
            self.tend()
            time.sleep(0.05)
        return found
