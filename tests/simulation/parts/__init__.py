"""The applications in the world: each with its simulated service, what happens there, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.simulation.parts.convert import Convert
from tests.simulation.parts.feeds import Feeds
from tests.simulation.parts.lidarr import Lidarr
from tests.simulation.parts.music import Music
from tests.simulation.parts.part import Part
from tests.simulation.parts.tautulli import Tautulli

ALL: Mapping[str, Callable[[Any], Part]] = {each.name: each for each in (Feeds, Lidarr, Music, Tautulli, Convert)}

__all__ = ["ALL", "Part"]
