"""Where Lidarr puts new music: its root folder and its profiles, as it says and as the settings want."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidegate_apps.lidarr.client import Lidarr, LidarrError, Setup
from tidegate_apps.lidarr.codes import FOLDER_AWAY, PACK
from tidegate_apps.lidarr.settings import LidarrSettings

_CACHE_SECONDS = 600.0  # seconds


@dataclass(slots=True)
class Places:
    """What Lidarr says is believed for some minutes: it hardly ever changes."""

    settings: LidarrSettings
    now: Callable[[], float]
    _setup: Setup | None = None
    _at: float = 0.0

    async def of(self, lidarr: Lidarr) -> Setup:
        now = self.now()
        if self._setup is None or not 0 <= now - self._at < _CACHE_SECONDS:
            self._setup, self._at = await _found_setup(lidarr, self.settings), now
        return self._setup

    def forget(self) -> None:
        """What was believed is not true any more."""
        self._setup = None


async def _found_setup(lidarr: Lidarr, settings: LidarrSettings) -> Setup:
    """LidarrError (profile_missing, root_folder_away) when there is none that could be used."""
    folders = await lidarr.root_folders()
    quality, metadata = await lidarr.profiles("quality"), await lidarr.profiles("metadata")
    folder = next((each for each in folders if settings.root_folder in ("", each["path"])), None)
    if folder is None:
        raise LidarrError(
            PACK.code_book["profile_missing"].fault("root-folder", detail=f"asked for {settings.root_folder!r}")
        )
    if not folder.get("accessible", True) or folder.get("freeSpace", settings.least_free) < settings.least_free:
        raise LidarrError(PACK.code_book[FOLDER_AWAY.name].fault("root-folder", detail=str(folder["path"])))
    return Setup(
        root_folder=str(folder["path"]),
        quality_profile=_profile(quality, settings.quality_profile, folder.get("defaultQualityProfileId")),
        metadata_profile=_profile(metadata, settings.metadata_profile, folder.get("defaultMetadataProfileId")),
    )


def _profile(there: dict[str, int], name: str, usual: Any) -> int:
    if name in there:
        return there[name]
    if name or not there:
        raise LidarrError(PACK.code_book["profile_missing"].fault("profile", detail=f"asked for {name!r}"))
    return int(usual) if usual in there.values() else next(iter(there.values()))
