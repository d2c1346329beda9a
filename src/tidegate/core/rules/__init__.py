"""Rule packs: how to read the answers of one service. A pack of your own is ten lines.

acme = rules.Pack("acme", [
    rules.Rule(name="no-art", code=None, status=404, path="/art"),
    rules.Rule(name="quota", code="quota_exhausted", status=429, json={"error.code": "insufficient_quota"}),
])
spot = Target("acme", rules=acme)
"""

from tidegate.core.codes import Code
from tidegate.core.fault import Level, Reach, Reason
from tidegate.core.kinds import Kind
from tidegate.core.policy import Confirm
from tidegate.core.rule import ANY, Pack, Rule
from tidegate.core.rules.fanart import fanart
from tidegate.core.rules.lastfm import lastfm
from tidegate.core.rules.lidarr import lidarr
from tidegate.core.rules.musicbrainz import musicbrainz
from tidegate.core.rules.navidrome import navidrome
from tidegate.core.rules.openai import openai
from tidegate.core.rules.spotify import spotify
from tidegate.core.rules.tautulli import tautulli

PACKS = (navidrome, spotify, lastfm, musicbrainz, fanart, openai, lidarr, tautulli)

__all__ = [
    "ANY",
    "PACKS",
    "Code",
    "Confirm",
    "Kind",
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
