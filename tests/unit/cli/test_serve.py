"""What `tidegate serve` and `tidegate worker` look at before they begin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Command
from tidegate.cli.exits import Exit


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEGATE_APPS", "lidarr")
    return tmp_path


@pytest.mark.parametrize(
    ("queues", "says"),
    [
        ("mail", "'mail'.* lidarr, lidarr-look, lidarr-wake"),
        ("[]", "lidarr, lidarr-look, lidarr-wake"),
        ("lidarr", "'lidarr'"),
    ],
)
def test_queues_that_nobody_could_work_on_are_said_before_it_begins(
    command: Command, monkeypatch: pytest.MonkeyPatch, queues: str, says: str
) -> None:
    monkeypatch.setenv("TIDEGATE_WORKER_QUEUES", queues)
    for verb in (("serve", "--port", "0"), ("worker",)):
        run = command(*verb)
        assert (run.code, run.out, run.err.count("\n")) == (Exit.CONFIGURATION, "", 1)
        assert re.match(f"tidegate: worker.queues: .*{says}", run.err)


def test_commands_call_simulators_where_the_settings_say_so(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_APPS", "tautulli")
    monkeypatch.setenv("TIDEGATE_TAUTULLI_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("TIDEGATE_TAUTULLI_API_KEY", "real")
    assert command("tautulli", "ping").code == Exit.UNREACHABLE

    monkeypatch.setenv("TIDEGATE_SIMULATORS", "true")
    assert command("tautulli", "ping").code == Exit.OK
