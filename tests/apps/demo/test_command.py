"""`tidegate demo` as a process: it says where it is, ends on Ctrl-C, and leaves nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.text import names
from tidegate import apps
from tidegate.cli.exits import Exit
from tidegate.cli.root import run

PATIENCE = 120  # seconds
COMMAND = [str(Path(sys.executable).with_name("tidegate")), "demo"]


@pytest.mark.full
@pytest.mark.timeout(600)
def test_it_says_where_it_is_and_leaves_nothing_when_it_ends(tmp_path: Path) -> None:
    own = {**os.environ, "TMPDIR": str(tmp_path)}
    asked = [*COMMAND, "--port", "0", "--story", "off", "--json"]
    # Not in the group of the test: the signal is for it alone.
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True, env=own, process_group=0) as running:
        try:
            assert running.stdout is not None
            said = json.loads(running.stdout.readline())
            with urlopen(said["address"], timeout=PATIENCE) as answer:
                text = answer.read().decode()
            assert "<title>Simulated: Demo" in text
            assert "Break something yourself." in text
            assert [str(each) for each in tmp_path.iterdir()] == [said["folder"]]
            port = re.search(r":(\d+)/", said["address"])
            assert port is not None
            _taken(port[1], own, tmp_path, said["folder"])
        finally:
            running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE) == Exit.OK
    assert list(tmp_path.iterdir()) == []


def test_what_is_kept_is_no_part_of_the_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        run(["demo", "--port", str(taken.getsockname()[1]), "--keep", "--json"])

    (kept,) = tmp_path.iterdir()
    said = capsys.readouterr()
    assert said.out == ""
    assert f"{kept}\n" in said.err


def _taken(port: str, own: dict[str, str], tmp_path: Path, first: str) -> None:
    """A port that is taken is said in one plain line; what is to be kept is kept all the same."""
    asked = [*COMMAND, "--port", port, "--keep"]
    found = subprocess.run(asked, capture_output=True, text=True, env=own, timeout=PATIENCE, check=False)

    assert found.returncode == Exit.CONFIGURATION
    assert found.stderr.count("\n") == 1
    assert names(found.stderr, f"127.0.0.1:{port}", "--port")
    (kept,) = {str(each) for each in tmp_path.iterdir()} - {first}
    assert found.stdout.endswith(f" {kept}\n")
    (Path(kept) / "tidegate.toml").unlink()
    Path(kept).rmdir()


def test_it_says_what_to_install_when_an_application_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = {name: each for name, each in apps.known().items() if name != "feeds"}
    monkeypatch.setattr(apps, "known", lambda: there)

    assert run(["demo"]) == Exit.CONFIGURATION
    said = capsys.readouterr().err
    assert "feeds" in said
    assert "pip install 'tidegate[all]'" in said
