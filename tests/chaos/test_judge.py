"""The judge of the fire, on databases and files that are made by hand: it finds each thing that must not be."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from tests.acceptance.checker import Verdict
from tests.chaos.judge import DOUBLE, FILES, GUILTY, LEASES, LOST, ORPHANS, OUTDATED, PARENTS, STALE, figures, judge
from tests.chaos.results import content

# The columns that the judge reads, and none of the checks that keep a real database from going wrong.
SCHEMA = """
create table tg_job (id, kind, args, state, attempt, deaths_alone, fence, result, error_code, lease_by, lease_until);
create table tg_event (job, fence, seq, kind, at, attempt, actor);
create table tg_link (parent, child);
create table tg_tally (what, delta);
insert into tg_tally values ('done', 3), ('failed', 1), ('done_total', 3);
"""


@dataclass
class Scene:
    """After a run: 1 was done at once, 2 after a lost attempt; 3 killed three workers; 4 is a sweep."""

    folder: Path

    def __post_init__(self) -> None:
        for place in (self.made, self.drafts):
            place.mkdir()
        self._database = apsw.Connection(str(self.folder / "jobs.db"))
        self._database.execute(SCHEMA)
        self._database.execute("pragma synchronous = off")
        self.job(1, "done", fence=1)
        self.job(2, "done", fence=2, lost=[1])
        self.job(3, "failed", fence=3, lost=[1, 2, 3], kind="kills")
        self.killed.touch()
        self.paused.touch()
        self.outdated.touch()
        self.restored.touch()
        self.job(4, "done", fence=1, kind="sweeps")
        self.acknowledged.write_text("10 1\n20 2\n30 3\n40 4")  # the last line was cut short by a kill
        self.begun.write_text("1 1 1 77\n2 1 1 77\n2 2 2 78\n3 1 1 77\n3 3 3 78\n4 1 1 77\n")

    made = property(lambda self: self.folder / "made")
    drafts = property(lambda self: self.folder / "drafts")
    acknowledged = property(lambda self: self.folder / "acknowledged.txt")
    begun = property(lambda self: self.folder / "begun.txt")
    killed = property(lambda self: self.folder / "killed.txt")
    paused = property(lambda self: self.folder / "paused.txt")
    outdated = property(lambda self: self.folder / "outdated.txt")
    restored = property(lambda self: self.folder / "restored.txt")

    def job(self, id_: int, state: str, *, fence: int, lost: list[int] | None = None, kind: str = "blocks") -> None:
        result = None
        if kind == "sweeps":
            result = json.dumps({"fence": fence})
        elif state == "done":
            data = content(id_, fence, id_ * 10)
            (self.made / f"{id_}-{fence}.txt").write_bytes(data)
            said = {"fence": fence, "file": f"{id_}-{fence}.txt", "bytes": len(data)}
            result = json.dumps({**said, "sha256": hashlib.sha256(data).hexdigest()})
        deaths, args = len(lost or []), json.dumps({"a": {"n": id_ * 10}})
        self.sql(
            "insert into tg_job values (?, ?, ?, ?, ?, ?, ?, ?, ?, null, null)",
            id_, kind, args, state, fence, deaths, fence, result, "worker_lost" if state == "failed" else None,
        )  # fmt: skip
        for each in lost or []:
            self.event(id_, each, "lost")
        if state == "done":
            self.event(id_, fence, "done")

    def event(self, job: int, fence: int, kind: str, process: int = 77) -> None:
        actor = f"host-{process}-abc"
        self.sql("insert into tg_event values (?, ?, 0, ?, 0, ?, ?)", job, fence, kind, fence, actor)

    def sql(self, statement: str, *values: object) -> None:
        self._database.execute(statement, values)

    def begin(self, line: str) -> None:
        with self.begun.open("a") as file:
            file.write(f"{line}\n")

    def say(self, text: str) -> None:
        self.acknowledged.write_text(text)

    def verdict(self, outlived: Collection[tuple[int, int]] = ()) -> Verdict:
        self._database.close()
        return judge(
            f"sqlite:///{self.folder / 'jobs.db'}", acknowledged=self.acknowledged, begun=self.begun, made=self.made,
            drafts=self.drafts, killed=self.killed, paused=self.paused, outdated=self.outdated, restored=self.restored,
            outlived=outlived,
        )  # fmt: skip


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_run_that_went_well_has_nothing_wrong(scene: Scene) -> None:
    verdict = scene.verdict()

    assert dict(verdict.wrong) == {}
    assert (verdict.jobs, verdict.done, verdict.poisoned, verdict.lost_attempts) == (4, 3, 1, 4)
    assert set(figures(verdict).values()) == {0}


WRONGS: dict[str, tuple[Callable[[Scene], object], str]] = {
    "a job that was said yes to is gone": (lambda s: s.say("10 1\n99 9\n"), LOST),
    "an id was given out again": (lambda s: s.say("10 1\n50 2\n"), LOST),
    "a job never ends": (lambda s: s.sql("update tg_job set state = 'ready' where id = 1"), LOST),
    "a number was said to be two jobs": (lambda s: s.say("10 1\n10 2\n"), DOUBLE),
    "two jobs are the same": (lambda s: s.sql('update tg_job set args = \'{"a": {"n": 10}}\' where id = 2'), DOUBLE),
    "a job is done twice": (lambda s: s.sql("update tg_event set kind = 'done' where job = 2"), DOUBLE),
    "a done job has no end": (lambda s: s.sql("delete from tg_event where job = 1"), DOUBLE),
    "a result of an older fence": (lambda s: s.sql("update tg_job set fence = 2, attempt = 2 where id = 1"), STALE),
    "a file of an older fence": (lambda s: _replace(s, content(2, 1, 20)), STALE),
    "no file": (lambda s: (s.made / "1-1.txt").unlink(), FILES),
    "half a file": (lambda s: (s.made / "1-1.txt").write_bytes(b"job 1 fence 1 "), FILES),
    "a file that no job names": (lambda s: (s.made / "2-1.txt").touch(), ORPHANS),
    "the file of a job that failed": (lambda s: (s.made / "3-3.txt").touch(), ORPHANS),
    "a draft": (lambda s: (s.drafts / "2-1-abcd").touch(), ORPHANS),
    "a lease": (lambda s: s.sql("update tg_job set lease_by = 'host-77-abc' where id = 1"), LEASES),
    "an attempt too few": (
        lambda s: s.sql("update tg_job set attempt = 1 where id = 2"),
        "attempts are counted exactly",
    ),
    "a lease that two began": (lambda s: s.begin("1 1 1 78"), "a lease is begun once"),
    "an attempt without end": (lambda s: s.begin("1 2 2 78"), "every attempt has an end"),
    "work that goes on after its end": (lambda s: _done_again(s, 2), "work is repeated only after a lost attempt"),
    "a fence that fell": (lambda s: s.event(1, 7, "lost"), "fences only grow"),
    "a failure": (lambda s: s.sql("update tg_job set error_code = 'network' where id = 3"), "every job succeeds"),
    "two deaths for three": (lambda s: s.sql("update tg_job set deaths_alone = 2 where id = 3"), "every job succeeds"),
    "a job that kills its worker is done": (lambda s: s.sql("update tg_job set state = 'done' where id = 3"), GUILTY),
    "a job fails for parents that did not": (lambda s: _failed_for_parents(s, parent="done"), GUILTY),
    "a job that was begun fails for parents": (lambda s: _failed_for_parents(s, begun=True), GUILTY),
    "a job without parents fails for them": (
        lambda s: s.sql("update tg_job set error_code = 'parent_failed' where id = 3"),
        "every job succeeds",
    ),
    "an outdated worker took a job of the new schema": (lambda s: s.outdated.write_text("77 1\n"), OUTDATED),
    "a parent was gone": (lambda s: s.sql("update tg_job set kind = 'joins' where id = 1"), PARENTS),
    "wrong numbers": (lambda s: s.sql("insert into tg_tally values ('ready', 1)"), "the numbers are right"),
}


def test_what_a_restore_forgets_is_not_asked_for(scene: Scene) -> None:
    """Job 5 ran when the copy was made, and was done again; job 2 was done before it, and begun again after it."""
    jump = 1_000_000_000
    scene.job(5, "done", fence=jump + 2)
    scene.sql("update tg_job set attempt = 2 where id = 5")
    scene.sql("insert into tg_event values (5, ?, 1, 'restored', 0, 1, 'restore')", jump + 1)
    scene.sql("update tg_job set fence = fence + ? where id = 2", jump)
    scene.sql("update tg_tally set delta = delta + 1 where what = 'done'")
    scene.begin("5 1 1 77")
    scene.restored.write_text(f"{len(scene.begun.read_text().splitlines())}\n")
    scene.begin("2 3 3 77")  # of what was lost: the copy does not know it
    scene.begin(f"5 {jump + 2} 2 78")

    assert dict(scene.verdict().wrong) == {}


def test_an_attempt_from_before_the_copy_has_an_end(scene: Scene) -> None:
    scene.begin("2 3 3 77")
    scene.restored.write_text(f"{len(scene.begun.read_text().splitlines())}\n")

    assert "every attempt has an end" in scene.verdict().wrong


@pytest.mark.parametrize("case", WRONGS)
def test_what_must_not_be_is_found(scene: Scene, case: str) -> None:
    sabotage, promise = WRONGS[case]
    sabotage(scene)
    verdict = scene.verdict()

    assert promise in verdict.wrong, verdict
    assert sum(figures(verdict).values()) >= 1


def _replace(scene: Scene, data: bytes) -> None:
    """The file of job 2 as an earlier attempt would have made it, with the hash to match."""
    (scene.made / "2-2.txt").write_bytes(data)
    said = {"fence": 2, "file": "2-2.txt", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    scene.sql("update tg_job set result = ? where id = 2", json.dumps(said))


def _failed_for_parents(scene: Scene, *, parent: str = "failed", begun: bool = False) -> None:
    """Job 5, which waits for job 6."""
    scene.job(5, "failed", fence=1 if begun else 0, kind="joins")
    scene.sql("update tg_job set error_code = 'parent_failed' where id = 5")
    scene.sql("insert into tg_link values (6, 5)")
    if parent == "failed":
        _lost_by(scene, 6, [70, 71, 72, 73], kind="gives")
        scene.killed.write_text("71\n72\n73\n")
    else:
        scene.job(6, parent, fence=1, kind="gives")
    if begun:
        scene.begin("5 1 1 77")
        scene.event(5, 1, "lost")


def test_a_job_may_fail_for_a_parent_that_failed(scene: Scene) -> None:
    _failed_for_parents(scene)
    scene.sql("update tg_tally set delta = 3 where what = 'failed'")

    assert dict(scene.verdict().wrong) == {}


# By the processes that lost it, in order: what was done to those, and whether they heard of it.
LOSSES: dict[str, tuple[list[int], str, str, set[int], bool]] = {
    "three were killed while it ran alone": ([77, 71, 72, 73], "71 72 73", "", set(), True),
    "of three that were killed, one had others beside it": ([71, 72, 73], "71 72 73", "", set(), False),
    "nobody was killed": ([77, 71, 72, 73], "", "", set(), False),
    "two were killed, and the database was away for one": ([77, 71, 72, 73], "71 73", "", set(), False),
    "one was killed later, after it had lived on": ([77, 71, 72, 73], "71 72 73", "", {2}, False),
    "the last one was stopped for a while": ([77, 71, 72, 73], "71 72", "73", set(), True),
    "an earlier one was stopped for a while": ([77, 71, 72, 73], "71 73", "72", set(), False),
    "more were lost than killed": ([77, 71, 70, 72, 70, 73], "71 72 73", "", set(), True),
}


@pytest.mark.parametrize("case", LOSSES)
def test_an_innocent_job_may_fail_only_after_three_kills_from_outside(scene: Scene, case: str) -> None:
    processes, killed, paused, outlived, allowed = LOSSES[case]
    _lost_by(scene, 5, processes)
    scene.killed.write_text(killed)
    scene.paused.write_text(paused)
    verdict = scene.verdict({(5, fence) for fence in outlived})

    assert (GUILTY not in verdict.wrong) is allowed
    assert verdict.innocent == 1


def _lost_by(scene: Scene, job: int, processes: list[int], kind: str = "blocks") -> None:
    """A job that failed with the last of these."""
    scene.job(job, "failed", fence=len(processes), kind=kind)
    scene.sql("update tg_job set deaths_alone = 3 where id = ?", job)
    for fence, process in enumerate(processes, 1):
        scene.event(job, fence, "lost", process)


def _done_again(scene: Scene, fence: int) -> None:
    scene.sql("update tg_job set fence = ?, attempt = ? where id = 1", fence, fence)
    scene.event(1, fence, "done")
    scene.begin(f"1 {fence} {fence} 78")
