"""`tidegate completion`: the script that completes commands and options in a shell."""

from __future__ import annotations

import json

import click
from click.shell_completion import get_completion_class

from tidegate.cli.exits import Exit
from tidegate.cli.root import Command, tidegate

_SHELLS = ("bash", "zsh", "fish")


@click.command(
    cls=Command,
    epilog="""
    tidegate completion bash > ~/.local/share/bash-completion/completions/tidegate
    tidegate completion zsh > ~/.zfunc/_tidegate
    tidegate completion fish > ~/.config/fish/completions/tidegate.fish
    """,
)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def completion(shell: str, as_json: bool) -> int:
    """Print the script that completes commands and options in SHELL.

    Save it where your shell loads completions, and open a new shell. For zsh, that folder must be in fpath.
    """
    shell_class = get_completion_class(shell)
    assert shell_class is not None  # noqa: S101 - click has a class for each of these
    script = shell_class(tidegate, {}, "tidegate", "_TIDEGATE_COMPLETE").source()
    click.echo(json.dumps({"shell": shell, "script": script}) if as_json else script)
    return Exit.OK
