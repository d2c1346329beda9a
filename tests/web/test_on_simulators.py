"""`tidegate serve --simulators`, with the applications that are installed here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate import assembly
from tidegate.settings import load


def test_every_application_can_be_run_on_its_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    apps, broken = assembly.there_are()
    assert broken == {}
    loaded = load(environ={}, apps=apps)

    with assembly.assembled(loaded, apps, simulators=True) as there:
        assert [each.app.name for each in there.apps] == [app.name for app in apps]
        assert set(there.simulators) == {app.name for app in apps if app.simulator is not None} != set()
