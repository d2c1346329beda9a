"""From a name to its addresses."""

from __future__ import annotations

import subprocess
import sys

_FORKS = """
import asyncio, os, warnings
from tidegate.net import system_resolver

warnings.simplefilter("ignore")
known = asyncio.run(system_resolver("localhost", 80))
child = os.fork()
if not child:
    try:
        found = asyncio.run(asyncio.wait_for(system_resolver("localhost", 80), 20))
        os._exit(7 if found == known else 8)
    finally:
        os._exit(9)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_names_are_looked_up_in_a_process_that_was_forked_after_another_look_up() -> None:
    assert subprocess.run([sys.executable, "-c", _FORKS], timeout=120, check=False).returncode == 7
