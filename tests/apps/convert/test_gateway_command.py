"""The gateway by itself, as a process of its own."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from tests.apps.convert import pdfs
from tests.apps.convert.asking import process, valid
from tests.text import names
from tidegate_apps.convert.cli import gateway

_PROGRAM = "from tidegate_apps.convert.cli import gateway; gateway()"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_runs_alone_until_it_is_told_to_stop(number: signal.Signals) -> None:
    command = [sys.executable, "-c", _PROGRAM, "--port", "0", "--json", "--at-a-time", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as alone:
        try:
            assert alone.stdout is not None
            about = json.loads(alone.stdout.readline())
            assert about["mappings"] == ["layout", "text"]
            valid(process(about["address"], pdfs.text()))
            alone.send_signal(number)
            assert alone.wait(60) == 0
        finally:
            alone.kill()


def test_a_time_that_is_none_is_said_in_a_sentence() -> None:
    ran = CliRunner().invoke(gateway, ["--timeout", "soon"])
    assert ran.exit_code == 2
    assert "--timeout:" in ran.output


def test_an_address_that_is_taken_is_said_in_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = CliRunner().invoke(gateway, ["--port", str(port)])

    assert ran.exit_code == 3
    assert ran.output.count("\n") == 1
    assert names(ran.output, f"127.0.0.1:{port}", "--port")
