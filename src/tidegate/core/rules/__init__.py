"""Rule packs: how to read the answers of one service. A pack of your own is ten lines.

acme = rules.Pack("acme", [
    rules.Rule(name="no-art", code=None, status=404, path="/art"),
    rules.Rule(name="quota", code="quota_exhausted", status=429, json={"error.code": "insufficient_quota"}),
])
spot = Target("acme", rules=acme)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.codes import Code
from tidegate.core.fault import Level, Reach, Reason
from tidegate.core.kinds import ExceptionKind
from tidegate.core.pack import Pack
from tidegate.core.policy import Confirm
from tidegate.core.rule import ANY, Rule

__all__ = [
    "ANY",
    "PACKS",
    "Code",
    "Confirm",
    "ExceptionKind",
    "Level",
    "Pack",
    "Reach",
    "Reason",
    "Rule",
    "fanart",
    "lastfm",
    "lidarr",
    "musicbrainz",
    "navidrome",
    "openai",
    "spotify",
    "tautulli",
]

if TYPE_CHECKING:
    from tidegate.core.rules.fanart import fanart
    from tidegate.core.rules.lastfm import lastfm
    from tidegate.core.rules.lidarr import lidarr
    from tidegate.core.rules.musicbrainz import musicbrainz
    from tidegate.core.rules.navidrome import navidrome
    from tidegate.core.rules.openai import openai
    from tidegate.core.rules.spotify import spotify
    from tidegate.core.rules.tautulli import tautulli

    PACKS: tuple[Pack, ...]
else:
    import sys
    from importlib import import_module
    from types import ModuleType

    _SERVICES = ("navidrome", "spotify", "lastfm", "musicbrainz", "fanart", "openai", "lidarr", "tautulli")

    class _Packs(ModuleType):
        # A pack has the name of its module, and whoever imports that module first, Python binds it here.
        def __setattr__(self, name: str, value: object) -> None:
            loaded = name in _SERVICES and isinstance(value, ModuleType)
            super().__setattr__(name, getattr(value, name) if loaded else value)

    def __getattr__(name: str) -> object:
        here = sys.modules[__name__]
        if name in _SERVICES:
            import_module(f"{__name__}.{name}")
            return here.__dict__[name]
        if name == "PACKS":
            here.PACKS = tuple(getattr(here, service) for service in _SERVICES)
            return here.PACKS
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

    sys.modules[__name__].__class__ = _Packs
