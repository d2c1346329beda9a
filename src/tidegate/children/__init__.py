"""Runs functions in limited, reused child processes, for untrusted input.

from tidegate import children

feed = await children.run(parse_feed, body, children.Limits(memory_mb=256, cpu="5s", time="20s"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["ChildError", "Children", "Limits", "run", "run_now"]

if TYPE_CHECKING:
    from tidegate.children.calls import run, run_now
    from tidegate.children.pool import ChildError, Children, Limits
else:
    # Imports each name on first use. Type checkers skip this branch, so they still report an unknown name.
    # A child process imports one module of this package, and must not load the rest.
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.children.calls": ("run", "run_now"),
            "tidegate.children.pool": ("ChildError", "Children", "Limits"),
        },
    )
