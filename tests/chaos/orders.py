"""What the processes of a run are told: a JSON file that an environment variable names."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

NAME = "CHAOS_ORDERS"
CALLED = "CHAOS_CALLED"  # the name of a process, such as worker-1
THE_ENQUEUER = "enqueuer"
LEASE = 6.0
LEAVES = 66  # the exit code of a process that a job ended
# Short, so that minutes show what takes hours otherwise.
NUMBERS = {"lease": LEASE, "renew_every": 1.5, "margin": 1.5, "sweep_every": 0.1, "poll_every": 0.3, "grace": 5.0}


@dataclass(frozen=True)
class Orders:
    """Where everything is."""

    url: str
    folder: str  # of the lines that processes leave: never full
    results: str  # of the files that handlers make: full now and then
    backlog: int = 200
    slow: float = 0.02  # of all jobs: those that take seconds
    plant: str = ""  # the name of a bug to plant

    @property
    def begun(self) -> Path:
        """One line for each time that a handler begins: job, fence, attempt, process."""
        return Path(self.folder) / "begun.txt"

    @property
    def acknowledged(self) -> Path:
        """One line for each job that the database has said yes to: number, job."""
        return Path(self.folder) / "acknowledged.txt"

    @property
    def swept(self) -> Path:
        """One line for each sweep that came to its end: job, files removed."""
        return Path(self.folder) / "swept.txt"

    @property
    def killed(self) -> Path:
        """One line for each process that was killed from outside, or was asked to stop and took too long."""
        return Path(self.folder) / "killed.txt"

    @property
    def paused(self) -> Path:
        """One line for each process that was stopped for a while from outside."""
        return Path(self.folder) / "paused.txt"

    @property
    def outdated(self) -> Path:
        """One line for each worker that a migration made outdated: process, and the highest job id of that moment."""
        return Path(self.folder) / "outdated.txt"

    @property
    def restored(self) -> Path:
        """One line for each restore: how many attempts had begun when the copy was made."""
        return Path(self.folder) / "restored.txt"

    @property
    def hold(self) -> Path:
        """While it is there, no jobs are put in."""
        return Path(self.folder) / "hold"

    @property
    def held(self) -> Path:
        """The enqueuer has seen `hold`."""
        return Path(self.folder) / "held"

    @property
    def harmed(self) -> Path:
        """While it is there, the database may be damaged: what it says decides about no file."""
        return Path(self.folder) / "harmed"

    @property
    def enough(self) -> Path:
        """Once it is there, no more jobs are put in."""
        return Path(self.folder) / "enough"

    @property
    def drafts(self) -> Path:
        return Path(self.results) / "drafts"

    @property
    def made(self) -> Path:
        return Path(self.results) / "made"

    def write(self) -> Path:
        for folder in (self.drafts, self.made):
            folder.mkdir(parents=True, exist_ok=True)
        by_processes = (self.begun, self.acknowledged, self.swept)
        for file in (*by_processes, self.killed, self.paused, self.outdated, self.restored):
            file.touch()
        there = Path(self.folder) / "orders.json"
        there.write_text(json.dumps(asdict(self)))
        return there


def given() -> Orders:
    """Those of this process; PostgreSQL knows it by its name."""
    found = Orders(**json.loads(Path(os.environ[NAME]).read_text()))
    if found.url.startswith("sqlite"):
        return found
    return replace(found, url=f"{found.url}?application_name={os.environ[CALLED]}")
