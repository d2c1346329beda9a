"""The command line. Each command's module is imported on use, and click only when there is a command."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """The entry point `tidegate`."""
    try:
        _open_streams()
        try:
            from tidegate.cli.root import run
        except ModuleNotFoundError as error:
            if error.name != "click":
                raise
            sys.stderr.write(
                "tidegate: the command needs the package click, which is missing; run: pip install 'tidegate[cli]'\n"
            )
            sys.exit(3)
        code = run()
    except KeyboardInterrupt:  # while a command is still being imported
        code = 130
    except RuntimeError as error:
        # Up to Python 3.11, an interrupt while a class is created becomes the cause of another error.
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        code = 130
    sys.exit(code)


def _open_streams() -> None:
    """Open closed standard streams. Otherwise the next opened file would take the place of one."""
    while (unused := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(unused)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - it stays to the end
