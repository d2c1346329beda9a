"""Many worlds, each from its seed: nothing is lost, doubled, late or left behind, whatever breaks."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.simulation.judging import wrong
from tests.simulation.planted import PLANTED, Bug
from tests.simulation.world import Planted, World
from tools import figures

ROOT = Path(__file__).parents[2]
DAYS = range(1000, 1100)
FRESH_DAYS = 100  # with seeds that nobody has seen before
WORLDS = {bug.world: bug for bug in PLANTED.values()}
# One bug of each kind runs in `make test`: a lease, a result, a feed, a file, a play.
REPRESENTATIVE_BUGS = {
    "a result is accepted without its lease",
    "a result is not stored",
    "entries of a feed are lost",
    "the XML is removed too early",
    "a play is skipped",
}


def judged(folder: Path, seed: int, *, hours: float, calm: bool) -> list[str]:
    folder.mkdir()
    world = World(seed, folder, hours=hours, calm=calm)
    again = f"python -m tests.simulation {seed} {hours:g}{' --calm' if calm else ''}"
    try:
        world.play()
    except BaseException as error:
        error.add_note(f"again: {again}")
        raise
    found = [f"{each}\n  again: {again}" for each in wrong(world)]
    world.close()
    return found


def assert_nothing_wrong(folder: Path, seed: int, hours: float) -> None:
    found = judged(folder / str(seed), seed, hours=hours, calm=seed % 10 == 0)
    assert not found, "\n".join(found[:10])


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(5, 50))])
def test_an_hour_of_faults_breaks_no_promise(seed: int, tmp_path: Path) -> None:
    assert_nothing_wrong(tmp_path, seed, hours=1)


@pytest.mark.long
@pytest.mark.timeout(600)  # less than others have: days begin when those are under way
@pytest.mark.parametrize("seed", DAYS)
def test_a_day_of_faults_breaks_no_promise(seed: int, tmp_path: Path) -> None:
    played_for_a_day(tmp_path, seed)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("n", range(FRESH_DAYS))
def test_a_day_of_a_fresh_seed_breaks_no_promise(n: int, tmp_path: Path) -> None:
    """The seed is drawn here, so that all processes of a run have the same list of tests; a failure names it."""
    seed = 1_000_000 + secrets.randbelow(10**9)
    sys.stdout.write(f"day {n}: python -m tests.simulation {seed} 24{' --calm' if seed % 10 == 0 else ''}\n")
    played_for_a_day(tmp_path, seed)


def played_for_a_day(tmp_path: Path, seed: int) -> None:
    began, broken = time.process_time(), True
    try:
        assert_nothing_wrong(tmp_path, seed, hours=24)
        broken = False
    finally:
        if figures.asked():
            write_day(seed, time.process_time() - began, broken=broken)


def write_day(seed: int, seconds: float, *, broken: bool) -> None:
    """Adds a day to the table of the documentation; days run in several processes."""
    days = figures.gather("simulated-days", str(seed), {"seed": seed, "seconds": seconds, "broken": broken})
    spent = sorted(each["seconds"] for each in days)
    rows = [
        ("days played", f"{len(days)} of {len(DAYS) + FRESH_DAYS}"),
        ("days that broke a promise", len([each for each in days if each["broken"]])),
        ("processor time of a day, median", f"{spent[len(spent) // 2]:.0f} s"),
        ("processor time of a day, longest", f"{spent[-1]:.0f} s"),
    ]
    figures.write(
        "simulated-days",
        figures.table([f"seeds {DAYS[0]} to {DAYS[-1]}, and {FRESH_DAYS} fresh ones, 24 h each", "found"], rows),
    )


def digest_of(seed: int, hash_seed: int) -> str:
    said = subprocess.run(
        [sys.executable, "-m", "tests.simulation", str(seed), "0.3"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return said.partition("digest ")[2].partition(",")[0]


@pytest.mark.full
def test_the_same_seed_is_the_same_world_in_every_process_and_another_is_another() -> None:
    same = {digest_of(7, 1), digest_of(7, 2)}

    assert len(same) == 1
    assert digest_of(8, 1) not in same


def test_the_page_lists_every_planted_bug_with_its_world_and_no_other() -> None:
    page = (ROOT / "docs" / "explanation" / "how-it-is-tested.md").read_text(encoding="utf-8")

    listed = {line for line in page.splitlines() if "| seed " in line}
    assert listed == {f"| {name} | {bug.world} |" for name, bug in PLANTED.items()}


def found_in(folder: Path, bug: Bug, planted: Planted) -> list[str]:
    """What is wrong in the world of the bug."""
    world = World(
        bug.seed, folder, hours=bug.hours, calm=bug.calm, planted=planted, with_parts=bug.parts, patience=1800
    )
    world.play()
    found = wrong(world)
    world.close()
    return found


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=() if bug in REPRESENTATIVE_BUGS else pytest.mark.full) for bug in PLANTED]
)
def test_a_planted_bug_is_found(bug: str, tmp_path: Path) -> None:
    found = found_in(tmp_path, PLANTED[bug], PLANTED[bug].planted)
    assert any(PLANTED[bug].said in each for each in found), found


@pytest.mark.full
@pytest.mark.parametrize("world", WORLDS)
def test_the_world_of_a_planted_bug_is_well_without_it(world: str, tmp_path: Path) -> None:
    assert found_in(tmp_path, WORLDS[world], Planted()) == []
