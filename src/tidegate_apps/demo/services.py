"""The simulated services of the demo: all five applications call them, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

from tidegate.apps import App, Simulated
from tidegate_apps.convert.simulator import GatewaySimulator
from tidegate_apps.feeds.simulator import FeedSimulator
from tidegate_apps.lidarr.simulated_lidarr import SimulatedTiming
from tidegate_apps.lidarr.simulator import KEY as LIDARR_KEY
from tidegate_apps.lidarr.simulator import LidarrSimulator
from tidegate_apps.music.simulator import MusicSimulator, settings_of
from tidegate_apps.tautulli.simulator import KEY as TAUTULLI_KEY
from tidegate_apps.tautulli.simulator import TautulliSimulator

FEEDS = 24
LISTENER = "local"  # whoever is at the machine
_SONGS = 60


@dataclass(frozen=True, slots=True)
class Services:
    """They take about as long as real ones, where that is to be seen, and are quicker where one would have to wait."""

    gateway: GatewaySimulator = field(default_factory=lambda: GatewaySimulator(takes="400ms"))
    feeds: FeedSimulator = field(default_factory=lambda: FeedSimulator(feeds=FEEDS, items=10))
    music: MusicSimulator = field(default_factory=lambda: MusicSimulator(every=20.0))
    lidarr: LidarrSimulator = field(
        default_factory=lambda: LidarrSimulator(pace=SimulatedTiming(refresh=0.2, found=1.0, lasts=8.0))
    )
    tautulli: TautulliSimulator = field(
        default_factory=lambda: TautulliSimulator(rows=3000, per_day=40, titles=200, every=15)
    )

    def under(self, apps: Sequence[App[Any]]) -> list[App[Any]]:
        """The applications, which call these from now on."""
        known = self._simulated()
        return [replace(app, simulator=partial(known.__getitem__, app.name)) for app in apps if app.name in known]

    def _simulated(self) -> Mapping[str, Simulated]:
        return {
            "convert": Simulated(self.gateway, lambda url: {"gateway_url": url}),
            "feeds": Simulated(
                self.feeds, lambda url: {"allow_networks": ["127.0.0.0/8"], "ports": [], "simulated": url}
            ),
            "music": Simulated(self.music, self._of_music),
            "lidarr": Simulated(self.lidarr, lambda url: {"base_url": url, "api_key": LIDARR_KEY}),
            "tautulli": Simulated(self.tautulli, lambda url: {"url": url, "api_key": TAUTULLI_KEY}),
        }

    def _of_music(self, url: str) -> Mapping[str, object]:
        """For one listener, with what was heard on the days before: each trouble is then told once."""
        now, music = time.time(), self.music
        logs = [each.listening for each in (music.navidrome, music.spotify, music.lastfm)]
        for number, (step, log) in product(range(1, _SONGS), enumerate(logs)):
            log.hear(LISTENER, number * 7 + step * 16, at=now - number * 1700 - step * 500)
        found = dict(settings_of(music, url))
        # After it: at Spotify a new consent ends an earlier one.
        values = {kind: dict(each) for kind, each in music.connect(LISTENER, url).items() if each}
        return {**found, "connect": {LISTENER: values}}
