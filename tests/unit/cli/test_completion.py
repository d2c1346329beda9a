"""The completion scripts, run by the shells that load them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Command

BASH = """
source ./script
COMP_WORDS=(tidegate {words}); COMP_CWORD={cword}
_tidegate_completion tidegate
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
autoload -Uz compinit && compinit -u -d "$PWD/dump"
_describe() {{ shift 2; print -l -- ${{completions_with_descriptions}}; }}
compadd() {{ print -l -- ${{completions}}; }}
source ./script
words=(tidegate {words}); CURRENT={cword}+1
_tidegate_completion
"""
FISH = "source ./script; complete --do-complete 'tidegate {words}'"
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@pytest.mark.parametrize("shell", SCRIPTS)
@pytest.mark.parametrize(
    ("words", "completed"),
    [("jo", {"jobs"}), ("jobs li", {"list"}), ("jobs list --lim", {"--limit"}), ("feeds en", {"enable"})],
)
def test_a_shell_completes_commands_and_options(
    command: Command, tmp_path: Path, shell: str, words: str, completed: set[str]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    run = command("completion", shell)
    assert (run.code, run.err) == (0, "")
    (tmp_path / "script").write_text(run.out)
    program = SCRIPTS[shell].format(words=words, cword=len(words.split()))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    start = {"bash": ["bash", "--norc"], "zsh": ["zsh", "-f"], "fish": ["fish", "--no-config"]}[shell]
    done = subprocess.run(
        [*start, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert {line.partition("\t")[0].partition(":")[0] for line in done.stdout.split("\n") if line} == completed, done


def test_another_shell_is_a_mistake_of_usage(command: Command) -> None:
    run = command("completion", "tcsh")

    assert (run.code, run.out) == (2, "")
    assert "bash" in run.err
