"""Applications: what one adds to a server, and how it reads the server's database.

from tidegate.apps import App, Every, Page
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "App",
    "Db",
    "DbTx",
    "Installed",
    "Page",
    "ScheduledJob",
    "Simulated",
    "StatusStrip",
    "install",
    "validate_url",
]

if TYPE_CHECKING:
    from tidegate.face.app import App, Installed, Page, ScheduledJob, Simulated, StatusStrip, install
    from tidegate.face.db import Db, DbTx
    from tidegate.face.written import validate_url
else:
    # The same for the running program. Type checkers do not read it, so they still report an unknown name.
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.face.app": ("App", "ScheduledJob", "Installed", "Page", "Simulated", "StatusStrip", "install"),
            "tidegate.face.db": ("Db", "DbTx"),
            "tidegate.face.written": ("validate_url",),
        },
    )
