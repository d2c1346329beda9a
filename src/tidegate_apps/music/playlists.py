"""The playlists of an account, fetched one after the other; one that cannot be read does not hide the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass

from tidegate.faults import Reach
from tidegate_apps.music.calls import ProviderClient
from tidegate_apps.music.contract import Batch, Playlist, RejectedRow, Song

MAX_SONGS = 10_000  # of one playlist
# Of one playlist, although the word may reach further elsewhere: its name is all that there is to see.
_NOT_SHOWN = frozenset({"forbidden", "not_shared"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaylistHead:
    """What a list of playlists says of one; *version* changes when its songs do, and is empty when nobody knows.

    *name* may be empty, because services take such playlists.
    """

    ref: str
    name: str
    about: str = ""
    version: str = ""


class Playlists:
    """Knows which versions were handed over, so that a playlist that stays the same costs one request for all."""

    def __init__(
        self, client: ProviderClient, songs: Callable[[PlaylistHead], Awaitable[tuple[Song, ...] | None]]
    ) -> None:
        self._client, self._songs = client, songs
        self._seen: dict[str, str] = {}

    async def each(
        self, heads: Iterable[PlaylistHead], bad: Iterable[RejectedRow] = ()
    ) -> AsyncIterator[Batch[Playlist]]:
        """A batch for each playlist. What failed for one operation is raised when the others have been fetched."""
        broken: Exception | None = None
        unread = tuple(bad)
        if unread:
            yield Batch(bad=unread)
        for head in heads:
            try:
                songs = None if self._same(head) else await self._songs(head)
            except Exception as error:
                fault = self._client.verdict(error)
                if fault is None or fault.code in _NOT_SHOWN:
                    songs = None
                elif fault.reach.rank > Reach.OPERATION.rank:
                    raise
                else:
                    broken = broken or (error if fault.reach is Reach.OPERATION else None)
                    yield Batch(bad=(RejectedRow(row=(head.name or head.ref)[:80], why=fault.message),))
                    continue
            yield Batch(items=(Playlist(ref=head.ref, name=head.name, about=head.about, songs=songs),))
            # Whoever asks for the next one has kept this one.
            if head.version:
                self._seen[head.ref] = head.version
        if broken is not None:
            raise broken

    def _same(self, head: PlaylistHead) -> bool:
        return bool(head.version) and self._seen.get(head.ref) == head.version
