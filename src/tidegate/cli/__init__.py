"""The command line. One file per verb; a verb is imported when it is called, and click only when there is a command."""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point `tidegate`."""
    try:
        from tidegate.cli.root import run
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write("tidegate: the commands need one more package; install it with: pip install 'tidegate[cli]'\n")
        sys.exit(3)
    sys.exit(run())
