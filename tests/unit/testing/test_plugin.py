"""The plug-in is there without being asked for, and costs a run of pytest that does not use it next to nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidegate import testing
from tidegate.testing import EventLog, VirtualClock

HEAVY = ("asyncio", "httpx", "httpx2", "click", "rich", "tidegate.testing.scripted", "tidegate.simulation.play")
LOADED = "import sys, tidegate.testing.plugin as plugin; print(*sys.modules)"


def test_each_test_has_a_clock_and_a_log_of_its_own(virtual_clock: VirtualClock, tide_events: EventLog) -> None:
    assert virtual_clock.monotonic() == 0
    assert list(tide_events) == []
    assert tide_events.bus is not EventLog().bus


@pytest.mark.full
def test_a_project_that_only_installed_it_can_use_the_fixtures(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(
        "def test_a_day(virtual_clock, tide_events):\n"
        "    virtual_clock.advance('24h')\n"
        "    assert virtual_clock.monotonic() == 86400\n"
        "    tide_events.assert_none('notice')\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip

    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout


def test_loading_the_plug_in_loads_nothing_heavy() -> None:
    before = subprocess.run(
        [sys.executable, "-c", "import sys, pytest; print(*sys.modules)"], capture_output=True, text=True, check=True
    ).stdout.split()
    after = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout.split()

    assert not {name for name in HEAVY if name in after and name not in before}


@pytest.mark.parametrize("name", testing.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(testing, name).__name__ == name


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = testing.Nothing  # type: ignore[attr-defined]
