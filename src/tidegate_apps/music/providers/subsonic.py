"""The API of Subsonic, as Navidrome and others speak it. An answer of 200 may be a failure; the rules see to that."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping

from tidegate_apps.music.calls import ProviderClient, ProviderRequest
from tidegate_apps.music.contract import RejectedRow, Song
from tidegate_apps.music.playlists import MAX_SONGS, PlaylistHead
from tidegate_apps.music.reading import isrc, mapping, mbid, number, part, read_rows, required_text, rows, text

_VERSION, _NAME = "1.16.1", "tidegate"


class Subsonic:
    """Logs in with every request, by a hash of the password and a salt that is used once."""

    def __init__(self, client: ProviderClient, base: str, user: str, password: str) -> None:
        self._client, self._base, self._user, self._password = client, base, user, password

    async def ping(self) -> None:
        await self._ask("ping")

    async def heads(self) -> tuple[list[PlaylistHead], list[RejectedRow]]:
        """The playlists of the user and those shared with everybody."""
        listed = part(await self._ask("getPlaylists"), "playlists")
        return read_rows(rows(listed.get("playlist"), "list of playlists"), _head)

    async def songs(self, head: PlaylistHead) -> tuple[Song, ...]:
        playlist = mapping((await self._ask("getPlaylist", id=head.ref)).get("playlist"), "playlist")
        songs, _ = read_rows(rows(playlist.get("entry"), "list of songs")[:MAX_SONGS], _subsonic_song)
        return tuple(songs)

    async def _ask(self, method: str, **given: str) -> Mapping[str, object]:
        salt = secrets.token_hex(8)
        token = hashlib.md5(f"{self._password}{salt}".encode(), usedforsecurity=False).hexdigest()
        login = {"u": self._user, "t": token, "s": salt, "v": _VERSION, "c": _NAME, "f": "json"}
        answer = await self._client.ask(ProviderRequest(url=f"{self._base}/rest/{method}", query={**login, **given}))
        return mapping(mapping(answer.json, "object").get("subsonic-response"), "subsonic-response")


def _head(row: Mapping[str, object]) -> PlaylistHead:
    # An empty list of songs is left out, so the count is what tells an empty playlist from one that is not shown.
    version = f"{text(row.get('changed'))} {text(row.get('songCount'))}" if row.get("changed") else ""
    return PlaylistHead(
        ref=required_text(row, "id"), name=text(row.get("name")), about=text(row.get("comment")), version=version
    )


def _subsonic_song(row: Mapping[str, object]) -> Song:
    return Song(
        title=required_text(row, "title"),
        artist=required_text(row, "artist"),
        album=text(row.get("album")),
        mbid=mbid(row.get("musicBrainzId")),
        isrc=isrc(row.get("isrc")),
        seconds=number(row.get("duration")),
        ref=text(row.get("id")),
    )
