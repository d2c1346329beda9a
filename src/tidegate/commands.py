"""Helpers for the commands of applications: options, output and exit codes.

@weather.command(epilog="tidegate weather forget Oslo")
@click.argument("city")
@at_server
def forget(at: AtServer, city: str) -> None:
    with at.installed() as app:
        app.db.write(lambda tx: tx.all("forget", {"name": city}))
    at.say({"forgotten": city}, f"forgotten: {city}")

Groups have the class `CommandGroup`: it suggests a similar command for an unknown one. The epilog of a command is its
examples, one per line. `NUMBER` is the type of an argument that is a row id. `CliError` ends a command with one line
and an exit code.
"""

from __future__ import annotations

from tidegate.cli.database import NUMBER, CliError, printable
from tidegate.cli.exits import Exit
from tidegate.cli.options import AtServer, at_server
from tidegate.cli.root import Command, CommandGroup

__all__ = ["NUMBER", "AtServer", "CliError", "Command", "CommandGroup", "Exit", "at_server", "printable"]
