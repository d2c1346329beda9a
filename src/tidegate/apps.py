"""Applications: what one adds to a server, and how it reads the server's database.

from tidegate.apps import App, Every, Page
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "App",
    "Db",
    "DbTx",
    "Every",
    "Installed",
    "Page",
    "Simulated",
    "Strip",
    "address_of",
    "install",
]

if TYPE_CHECKING:
    from tidegate.face.app import App, Every, Installed, Page, Simulated, Strip, install
    from tidegate.face.db import Db, DbTx
    from tidegate.face.written import address_of
else:
    # The same for the running program. Type checkers do not read it, so they still report an unknown name.
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.face.app": ("App", "Every", "Installed", "Page", "Simulated", "Strip", "install"),
            "tidegate.face.db": ("Db", "DbTx"),
            "tidegate.face.written": ("address_of",),
        },
    )
