"""What the fire does to a file and to the source of the next version, without any process."""

from __future__ import annotations

import random
from pathlib import Path

import apsw
import pytest

from tests.acceptance.checker import rows
from tests.chaos.on_file import HARMS, SURE, flip_bits
from tests.chaos.rollout import make_version

PAGES = 40


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "jobs.db"
    found.write_bytes(random.Random(1).randbytes(4096 * PAGES))
    return found


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_each_harm_changes_the_file_and_the_sure_ones_leave_nothing_of_it(file: Path, harm: object) -> None:
    before = file.read_bytes()
    assert callable(harm)
    harm(file, random.Random(7))

    after = file.read_bytes() if file.exists() else b""
    assert after != before
    assert (after == b"") is (harm in SURE)


def test_flipped_bits_are_one_in_each_of_a_tenth_of_the_pages(file: Path) -> None:
    before = file.read_bytes()
    flip_bits(file, random.Random(7))

    changed = [(i, old ^ new) for i, (old, new) in enumerate(zip(before, file.read_bytes(), strict=True)) if old != new]
    assert len({i // 4096 for i, _ in changed}) == len(changed) == PAGES // 10
    assert {bits.bit_count() for _, bits in changed} == {1}


def test_the_checker_makes_no_database_where_one_was_removed(tmp_path: Path) -> None:
    with pytest.raises(apsw.CantOpenError):
        rows(f"sqlite:///{tmp_path / 'jobs.db'}", "select 1")
    assert not (tmp_path / "jobs.db").exists()


def test_the_next_version_has_one_migration_more_than_the_one_before(tmp_path: Path) -> None:
    def steps(n: int) -> list[str]:
        found = (make_version(n, tmp_path) / "tidegate" / "store" / "migrations").glob("*.sql")
        return sorted(file.name for file in found)

    first, second = steps(1), steps(2)
    assert [name for name in second if name not in first] == [f"{len(first) + 1:04}_version_2.sql"]
