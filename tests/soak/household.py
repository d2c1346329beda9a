"""A library that stays as long as it is: for each band that comes, the oldest one goes.

What a process needs to look through a library may grow with the library. Only when that has its full length from the
start, a process that grows is one that forgets nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.apps import DbTx, Installed
from tidegate_apps.music.library import key_of, tables
from tidegate_demo import stage
from tidegate_demo.stage import LISTENER, DemoEnvironment

MOST = 15  # bands of ten albums each


class Household(DemoEnvironment):
    """As in the demo, but for people who give away what they have had longest."""

    _gone = 0  # bands

    def fill(self, apps: Sequence[Installed[Any]]) -> None:
        super().fill(apps)
        self.more_albums(MOST - self._bands)

    def more_albums(self, bands: int = 10, *, known: bool = False) -> None:
        over = max(0, self._bands + bands - self._gone - MOST)
        self._give_away(stage.band_names(self._gone, over))  # before the look for those that come, which sees it, too
        self._gone += over
        super().more_albums(bands, known=known)

    def _give_away(self, names: Sequence[str]) -> None:
        def write(tx: DbTx) -> None:
            for name in names:
                for artist in tx.scalars(int, "artists_by_key", user_id=LISTENER, name_key=key_of(name)):
                    for album in tx.scalars(int, "albums_of_artist", artist_id=artist):
                        tx.all("remove_album", id=album)
                    tx.all("remove_artist", id=artist)

        tables(self["lidarr"].queue).write(write)
