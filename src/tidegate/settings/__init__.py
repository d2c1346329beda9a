"""Settings: the only reader of the environment and of `tidegate.toml`.

    settings = load(flags={"server.port": 80}, apps=[weather])
    settings.values.server.port
    settings.app("weather").station

An application's model may use `Seconds` for durations and pydantic's `SecretStr` for secrets. Names are imported on
first use, so a command that only needs the database URL does not import the models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "Effective",
    "Loaded",
    "Seconds",
    "Settings",
    "SettingsError",
    "SettingsProblem",
    "load",
    "sample",
    "store_url",
]

if TYPE_CHECKING:
    from tidegate.durations import Seconds
    from tidegate.settings.effective import Effective
    from tidegate.settings.loader import Loaded, load
    from tidegate.settings.location import SettingsError, SettingsProblem, store_url
    from tidegate.settings.models import Settings
    from tidegate.settings.sample_file import sample
else:
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.durations": ("Seconds",),
            "tidegate.settings.effective": ("Effective",),
            "tidegate.settings.loader": ("Loaded", "load"),
            "tidegate.settings.location": ("SettingsError", "SettingsProblem", "store_url"),
            "tidegate.settings.models": ("Settings",),
            "tidegate.settings.sample_file": ("sample",),
        },
    )
