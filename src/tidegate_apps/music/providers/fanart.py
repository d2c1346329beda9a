"""Fanart.tv: images of artists and albums by MusicBrainz id. Most have none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from tidegate import Rate, rules
from tidegate_apps.music.client import ProviderClient, ProviderRequest, fits_a_header, one_by_one
from tidegate_apps.music.parsing import BadRow, mapping, mbid, number, text
from tidegate_apps.music.provider import (
    Batch,
    Enrichment,
    EnrichmentRequest,
    Field,
    Operation,
    Provider,
    ProviderConnection,
    ProviderContext,
    ProviderKind,
)

_ADDRESS = "https://webservice.fanart.tv"
_KNOWN = "89ad4ac3-39f7-470e-963a-56509c546377"

# Our kinds and theirs. The first of theirs with an image is used.
_ARTIST = {
    "thumb": ("artistthumb",),
    "background": ("artistbackground",),
    "logo": ("hdmusiclogo", "musiclogo"),
    "banner": ("musicbanner",),
}
_ALBUM = {"cover": ("albumcover",), "disc": ("cdart",)}


class Fanart(Provider):
    """Makes one request per entry."""

    def __init__(self, connection: ProviderConnection, context: ProviderContext) -> None:
        values = connection.values
        self._base = context.addresses.get("fanart", _ADDRESS).rstrip("/")
        # In headers, because queries end up in the logs of proxies.
        self._keys = {"api-key": values["api_key"]}
        if values.get("client_key"):
            self._keys["client-key"] = values["client_key"]
        self._client = ProviderClient("fanart", rules.fanart, context, rate=kind.rate, key=kind.counted(values))

    async def check(self) -> None:
        await self._ask(_KNOWN)

    def enrich(self, operation: Operation, requests: Sequence[EnrichmentRequest]) -> AsyncIterator[Batch[Enrichment]]:
        return one_by_one(self._client, requests, self._look)

    async def _look(self, request: EnrichmentRequest) -> Enrichment:
        known = mbid(request.mbid)
        if request.kind == "song":
            raise BadRow("there are no pictures of songs")
        if known is None:
            # Without an id the URL is that of another call, whose 404 would look like "no images".
            raise BadRow("it has no id of MusicBrainz yet")
        if request.kind == "artist":
            art = self._best(await self._ask(known), _ARTIST)
        else:
            document = await self._ask(f"albums/{known}")
            art = self._best(_album(document.get("albums"), known), _ALBUM)
        return Enrichment(id=request.id, mbid=known, art=art, nothing=not art)

    async def _ask(self, path: str) -> Mapping[str, object]:
        answer = await self._client.ask(ProviderRequest(url=f"{self._base}/v3/music/{path}", headers=self._keys))
        if answer.missing:
            return {}
        document = mapping(answer.json, "object")
        return {} if document.get("status") == "error" else document

    def _best(self, document: Mapping[str, object], wanted: Mapping[str, tuple[str, ...]]) -> Mapping[str, str]:
        urls = {}
        for ours, theirs in wanted.items():
            addresses = (self._liked(document.get(their)) for their in theirs)
            if address := next(filter(None, addresses), None):
                urls[ours] = address
        return urls

    def _liked(self, images: object) -> str | None:
        """Return the URL of the image with the most likes, which are numbers in text."""
        rows = [image for image in (images if isinstance(images, list) else []) if isinstance(image, dict)]
        rows.sort(key=lambda each: number(each.get("likes")) or 0, reverse=True)
        return next(filter(None, (self._address(text(row.get("url"))) for row in rows)), None)

    def _address(self, url: str) -> str | None:
        if url.startswith("http://") and self._base.startswith("https://"):
            url = f"https://{url.removeprefix('http://')}"
        return url if url.startswith(("https://", "http://")) else None


def _album(albums: object, known: str) -> Mapping[str, object]:
    """Return the requested album of a response: by id, or in newer versions from a list."""
    if isinstance(albums, dict):
        match = albums.get(known)
        return match if isinstance(match, dict) else {}
    for album in albums if isinstance(albums, list) else []:
        if isinstance(album, dict) and mbid(album.get("release_group_id")) == known:
            return album
    return {}


def _key(text: str) -> str:
    if not fits_a_header(text):
        raise ValueError(
            "it has a character that is not allowed in a key, perhaps an invisible one; type it or copy it again"
        )
    return text


kind = ProviderKind(
    name="fanart",
    title="Fanart.tv",
    about="Pictures of artists and covers of albums.",
    operations=(Operation.ART,),
    fields=(
        Field(name="api_key", label="API key", secret=True, operator=True, hint="The project key of this program."),
        Field(
            name="client_key",
            label="Personal API key",
            secret=True,
            required=False,
            hint="Shows new pictures a few days earlier.",
            check=_key,
        ),
    ),
    every=3600,
    rules=rules.fanart,
    make=Fanart,
    rate=Rate(2, "1s", burst=2),
    counted=lambda values: values.get("api_key", ""),
    addresses={"fanart": _ADDRESS},
)
