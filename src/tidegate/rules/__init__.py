"""Rule packs: how to classify the responses of one service. Your own pack takes ten lines.

acme = rules.Pack("acme", [
    rules.Rule(name="no-art", code=None, status=404, path="/art"),
    rules.Rule(name="quota", code="quota_exhausted", status=429, json={"error.code": "insufficient_quota"}),
])
spot = Target("acme", rules=acme)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.faults.codes import Code
from tidegate.faults.confirm import Confirm
from tidegate.faults.exceptions import ExceptionKind
from tidegate.faults.fault import Level, Reach, Reason
from tidegate.faults.rule import ANY, Pack, Rule

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
    from tidegate.rules.fanart import fanart
    from tidegate.rules.lastfm import lastfm
    from tidegate.rules.lidarr import lidarr
    from tidegate.rules.musicbrainz import musicbrainz
    from tidegate.rules.navidrome import navidrome
    from tidegate.rules.openai import openai
    from tidegate.rules.spotify import spotify
    from tidegate.rules.tautulli import tautulli

    PACKS: tuple[Pack, ...]
else:
    import sys
    from importlib import import_module
    from types import ModuleType

    _SERVICES = ("navidrome", "spotify", "lastfm", "musicbrainz", "fanart", "openai", "lidarr", "tautulli")

    class _Packs(ModuleType):
        # A pack has the name of its module. Python binds an imported module here, so it is replaced by its pack.
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
