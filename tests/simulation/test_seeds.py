"""Many worlds, each from its seed: nothing is lost, doubled, late or left behind, whatever breaks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.simulation.judging import wrong
from tests.simulation.planted import PLANTED
from tests.simulation.world import World


def judged(folder: Path, seed: int, *, hours: float, calm: bool) -> tuple[str, list[str]]:
    folder.mkdir()
    world = World(seed, folder, hours=hours, calm=calm)
    world.play()
    again = f"python -m tests.simulation {seed} {hours:g}{' --calm' if calm else ''}"
    return world.digest, [f"{each}\n  again: {again}" for each in wrong(world)]


def all_well(folder: Path, seeds: Iterable[int], hours: float) -> None:
    for seed in seeds:
        for calm in (False,) if seed % 5 else (False, True):
            _, found = judged(folder / f"{seed}-{calm}", seed, hours=hours, calm=calm)
            assert not found, "\n".join(found[:10])


@pytest.mark.parametrize("seed", range(10))
def test_an_hour_of_faults_breaks_no_promise(seed: int, tmp_path: Path) -> None:
    all_well(tmp_path, [seed], hours=1)


@pytest.mark.long
@pytest.mark.parametrize("batch", range(2, 10))
def test_an_hour_of_other_faults_breaks_none_either(batch: int, tmp_path: Path) -> None:
    all_well(tmp_path, range(batch * 5, batch * 5 + 5), hours=1)


@pytest.mark.long
@pytest.mark.parametrize("batch", range(20))
def test_a_day_of_faults_breaks_no_promise(batch: int, tmp_path: Path) -> None:
    all_well(tmp_path, range(1000 + batch * 10, 1010 + batch * 10), hours=24)


def test_the_same_seed_is_the_same_world_and_another_is_another(tmp_path: Path) -> None:
    digests = [judged(tmp_path / str(n), seed, hours=0.25, calm=False)[0] for n, seed in enumerate((7, 7, 8))]

    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, tmp_path: Path) -> None:
    change, calm, seed = PLANTED[bug]
    world = World(seed, tmp_path, hours=0.5, calm=calm, changed=change, patience=1800)
    world.play()

    assert wrong(world)
