"""The music that all simulated services have, each with ids of its own: made-up artists, albums and songs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from uuid import NAMESPACE_DNS, uuid5

_ALBUMS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Harbour Lights", "Slack Water", ("Slack Water", "Mooring", "The Long Quay", "Fog Signal")),
    ("Harbour Lights", "Spring Tide", ("Spring Tide", "Undertow", "Breakwater", "Salt")),
    ("Møl & the Tidemarks", "Neap", ("Neap", "Ebb and After", "Sandbank", "Højvande")),
    ("The Sluice Keepers", "Gates", ("Gates", "Rust", "Lock and Weir", "High Water, Low Bridge")),
    ("Ana Ferreira", "Maré Cheia", ("Maré Cheia", "Farol", "Areia", "Âncora")),
    ("Ana Ferreira", "Vazante", ("Vazante", "Cais", "Sal e Vento", "Regresso")),
    ("Pontoon", "Pontoon", ("Pontoon", "Gangway", "Bollard", "Dry Dock")),
    ("DJ Estuary", "Brackish", ("Brackish", "Delta", "Silt (Extended Mix)", "Outflow")),
    ("海の門", "潮", ("潮", "満ち潮", "引き潮", "灯台")),
    ("Kelp Choir", "Holdfast", ("Holdfast", "Canopy", "Drift", "Stipe")),
    ("Old Pilot", "Soundings", ("Soundings", "By the Mark", "No Bottom", "Lead Line")),
    ("Wrack Line", "What Is Left", ("What Is Left", "Driftwood", "Glass", "Plastic")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueTrack:
    """*number* counts from 0 through all of them."""

    number: int
    title: str
    artist: str
    album: str

    @property
    def seconds(self) -> int:
        return 150 + self.number * 37 % 180

    @property
    def mbid(self) -> str:
        return known_as("recording", f"{self.artist} {self.title}")

    @property
    def artist_mbid(self) -> str:
        return known_as("artist", self.artist)

    @property
    def album_mbid(self) -> str:
        return known_as("release-group", f"{self.artist} {self.album}")

    @property
    def isrc(self) -> str:
        return f"XXTG1{self.number:07d}"


@cache
def known_as(entity: str, name: str) -> str:
    """The id of MusicBrainz for a name."""
    return str(uuid5(NAMESPACE_DNS, f"{entity} {name}"))


TRACKS: tuple[CatalogueTrack, ...] = tuple(
    CatalogueTrack(number=number, title=title, artist=artist, album=album)
    for number, (artist, album, title) in enumerate(
        (artist, album, title) for artist, album, titles in _ALBUMS for title in titles
    )
)
ARTISTS: tuple[str, ...] = tuple(dict.fromkeys(track.artist for track in TRACKS))
ALBUMS: tuple[CatalogueTrack, ...] = tuple({track.album_mbid: track for track in reversed(TRACKS)}.values())[
    ::-1
]  # a track of each
