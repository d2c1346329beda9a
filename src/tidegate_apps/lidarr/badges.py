"""How each state of an artist, an album or a track looks, here and in the library of music."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate_apps.lidarr.client import LidarrAlbum
from tidegate_apps.music.library import Badge, Tone


@dataclass(frozen=True, slots=True, kw_only=True)
class BadgeStyle:
    """*picture* is the name that stylesheets know; *icon* is one of the server's."""

    word: str
    tone: Tone
    icon: str
    picture: str
    tooltip: str
    link: bool = True  # there is something in Lidarr to look at

    @property
    def badge(self) -> str:
        """The name that stylesheets know."""
        return _CLASSES[self.tone]


_CLASSES = {"good": "badge-success", "busy": "badge-info", "warn": "badge-warning", "bad": "badge-error"}
BADGE_STYLES: dict[str, BadgeStyle] = {
    "queued": BadgeStyle(
        word="Queued", tone="warn", icon="queue", picture="icon-[heroicons--queue-list]",
        tooltip="Queued for Lidarr", link=False,
    ),
    "pending": BadgeStyle(
        word="Pending", tone="warn", icon="clock", picture="icon-[heroicons--clock]",
        tooltip="In Lidarr, and not downloaded yet",
    ),
    "monitored": BadgeStyle(
        word="Monitored", tone="busy", icon="search", picture="icon-[heroicons--eye]",
        tooltip="Lidarr looks for it",
    ),
    "grabbed": BadgeStyle(
        word="Grabbed", tone="busy", icon="wave", picture="icon-[heroicons--arrow-down-tray]",
        tooltip="Lidarr downloads it",
    ),
    "available": BadgeStyle(
        word="Available", tone="good", icon="check", picture="icon-[heroicons--check]", tooltip="Lidarr has it",
    ),
    "missing": BadgeStyle(
        word="Missing", tone="bad", icon="alert", picture="icon-[heroicons--exclamation-triangle]",
        tooltip="Lidarr lacks some of its tracks",
    ),
    "gave_up": BadgeStyle(
        word="Gave up", tone="bad", icon="cross", picture="icon-[heroicons--x-mark]",
        tooltip="Lidarr did not take it; retry it on the page Lidarr", link=False,
    ),
}  # fmt: skip


def badge_of(kind: str, entity_id: int, status: str | None) -> Badge | None:
    """What the library shows beside it."""
    if status is None:
        return None
    look = BADGE_STYLES[status]
    href = f"/lidarr/to/{kind}/{entity_id}" if look.link else ""
    return Badge(word=look.word, tone=look.tone, icon=look.icon, tooltip=look.tooltip, href=href)


def status_of(album: LidarrAlbum, downloading: frozenset[int]) -> str:
    """What Lidarr says of an album."""
    if album.tracks and album.files >= album.tracks:
        return "available"
    if album.id in downloading:
        return "grabbed"
    if not album.monitored:
        return "pending"
    return "missing" if album.files else "monitored"


def is_idle(album: LidarrAlbum, downloading: frozenset[int]) -> bool:
    """Whether Lidarr merely lists it: no file, no download, and nothing is looked for."""
    return status_of(album, downloading) == "pending" and not album.files
