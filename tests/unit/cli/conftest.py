"""Runs a command in this process and keeps what it printed."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tidegate.cli.root import run as run_command


class Run(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Run]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    def run(*args: str, stdin: bytes = b"") -> Run:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = run_command(list(args))
        printed = capsys.readouterr()
        return Run(code, printed.out, printed.err)

    return run
