"""MusicBrainz: ids for artists, albums (release groups) and songs (recordings)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import AsyncIterator, Mapping, Sequence

from tidegate import Rate, rules
from tidegate_apps.music.client import ProviderClient, ProviderRequest, one_by_one
from tidegate_apps.music.parsing import mapping, mbid, number, rows, text
from tidegate_apps.music.provider import (
    Batch,
    Enrichment,
    EnrichmentRequest,
    Operation,
    Provider,
    ProviderContext,
    ProviderKind,
)

_ADDRESS = "https://musicbrainz.org"
_KNOWN = "89ad4ac3-39f7-470e-963a-56509c546377"  # Various Artists, which always exists
_MIN_SCORE = 90  # of 100: minimum score of a match
_LIMIT = 5
_SPECIAL = re.compile(r'([+\-!(){}\[\]^"~*?:\\/&|])')

# By kind: entity, field of the name in a search, list in the response.
_ENTITIES: Mapping[str, tuple[str, str, str]] = {
    "artist": ("artist", "artist", "artists"),
    "album": ("release-group", "releasegroup", "release-groups"),
    "song": ("recording", "recording", "recordings"),
}


class MusicBrainz(Provider):
    """Looks up one entry at a time. All requests of the process share a rate limit."""

    def __init__(self, context: ProviderContext) -> None:
        self._base = f"{context.addresses.get('musicbrainz', _ADDRESS).rstrip('/')}/ws/2"
        self._client = ProviderClient("musicbrainz", rules.musicbrainz, context, rate=kind.rate)

    async def check(self) -> None:
        await self._ask(f"artist/{_KNOWN}")

    def enrich(self, operation: Operation, requests: Sequence[EnrichmentRequest]) -> AsyncIterator[Batch[Enrichment]]:
        return one_by_one(self._client, requests, self._look)

    async def _look(self, request: EnrichmentRequest) -> Enrichment:
        return await (self._looked_up(request) if request.mbid else self._searched(request))

    async def _looked_up(self, request: EnrichmentRequest) -> Enrichment:
        """Look up a known id, which may have been merged or deleted."""
        document = await self._ask(f"{_ENTITIES[request.kind][0]}/{request.mbid}")
        known = None if document is None else mbid(document.get("id"))
        return Enrichment(id=request.id, mbid=known, score=100 if known else 0, nothing=known is None)

    async def _searched(self, request: EnrichmentRequest) -> Enrichment:
        entity, name, listed = _ENTITIES[request.kind]
        query = f'{name}:"{escaped(request.name)}"'
        if request.kind != "artist" and request.artist:
            query += f' AND artist:"{escaped(request.artist)}"'
        document = await self._ask(entity, query=query, limit=str(_LIMIT))
        for row in rows((document or {}).get(listed), listed):
            if not isinstance(row, dict):
                continue
            known, score = mbid(row.get("id")), number(row.get("score")) or 0
            if known and score >= _MIN_SCORE and plain(request.name) in _names(row):
                return Enrichment(id=request.id, mbid=known, score=int(score))
        return Enrichment(id=request.id, nothing=True)

    async def _ask(self, path: str, **query: str) -> Mapping[str, object] | None:
        answer = await self._client.ask(ProviderRequest(url=f"{self._base}/{path}", query={"fmt": "json", **query}))
        return None if answer.missing else mapping(answer.json, "object")


def _names(row: Mapping[str, object]) -> set[str]:
    aliases = row.get("aliases")
    named = [row, *(aliase for aliase in (aliases if isinstance(aliases, list) else []) if isinstance(aliase, dict))]
    return {plain(text(entity.get(name))) for entity in named for name in ("name", "title")}


def plain(name: str) -> str:
    """Return a name without case, accents and punctuation, for comparison; never empty."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(sign for sign in folded if sign.isalnum()) or folded.strip()


def escaped(name: str) -> str:
    """Return *name* for a quoted term of a Lucene query."""
    return _SPECIAL.sub(r"\\\1", name)


kind = ProviderKind(
    name="musicbrainz",
    title="MusicBrainz",
    about="Ids for artists, albums and songs, so that those of several services are known to be the same.",
    operations=(Operation.IDS,),
    fields=(),
    every=900,
    rules=rules.musicbrainz,
    make=lambda _, context: MusicBrainz(context),
    rate=Rate(1, "1.1s"),
    addresses={"musicbrainz": _ADDRESS},
)
