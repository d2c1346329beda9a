"""Helpers for the commands of applications: options, output and exit codes.

@weather.command()
@click.argument("city")
@at_server
def forget(at: AtServer, city: str) -> None:
    with at.installed() as app:
        app.db.write(lambda tx: tx.all("forget", {"name": city}))
    at.say({"forgotten": city}, f"forgotten: {city}")

`NUMBER` is the type of an argument that is a row id. `CliError` ends a command with one line and an exit code.
"""

from __future__ import annotations

from tidegate.cli.database import NUMBER, CliError, printable
from tidegate.cli.exits import Exit
from tidegate.cli.options import AtServer, at_server

__all__ = ["NUMBER", "AtServer", "CliError", "Exit", "at_server", "printable"]
