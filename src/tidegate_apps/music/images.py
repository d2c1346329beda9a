"""Images for the library. Browsers request them from us, never from a third party. We fetch each once and cache it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Path, Request, Response

from tidegate import Backoff, Held, Target, fault_of, net
from tidegate.apps import Installed
from tidegate.web import Permission, requires
from tidegate_apps.music.client import Reply, ServiceError
from tidegate_apps.music.jobs import user_agent
from tidegate_apps.music.service import user_of
from tidegate_apps.music.settings import MusicSettings

_MAX_BYTES = 2_000_000
_MAX_KEPT = 2000
_MAX_CONCURRENT = 4
_RETRY_SECONDS = 3600.0  # seconds until a failed image is retried
_USED_EVERY = 3600.0  # seconds between updates of the time of last use: writing it every time would be expensive
_RETRIABLE_STATUSES = frozenset({408, 425, 429})
_SEEN = "private, max-age=86400"
# File signatures. The content type of the service is not trusted.
_KINDS = ((b"\xff\xd8\xff", "image/jpeg"), (b"\x89PNG\r\n\x1a\n", "image/png"), (b"GIF8", "image/gif"))
_NONE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 96 96"><rect width="96" height="96" fill="#8884"/>\
<circle cx="48" cy="48" r="30" fill="none" stroke="#8888" stroke-width="4"/>\
<circle cx="48" cy="48" r="7" fill="#8888"/></svg>"""

Number = Annotated[int, Path(ge=1, le=2**53)]


@dataclass(frozen=True, slots=True)
class Picture:
    media_type: str
    body: bytes


class ArtRow(NamedTuple):
    art: str | None


class PictureRow(NamedTuple):
    """A cached image; without a *body*, a failed fetch."""

    media_type: str
    body: bytes | None
    fetched_at: float
    used_at: float


class Pictures:
    """Fetches images on the server's event loop. A failing host is skipped for a while."""

    def __init__(self, app: Installed[MusicSettings]) -> None:
        self._app = app
        self._target = Target(
            "music-pictures",
            "sync",
            backoff=Backoff("1m", cap="1h"),
            breaker=False,
            clock=app.queue.clock,
            self_guard=False,
        )
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)

    async def of(self, address: str) -> Picture | None:
        """Return the image at *address* from the cache or the host; None if it is not available."""
        cached, fetched_at = await asyncio.to_thread(self._kept, address)
        now = self._app.queue.clock.now()
        if cached is not None or not self._app.settings.pictures or now - fetched_at < _RETRY_SECONDS:
            return cached
        try:
            image = await self._target.key(address.split("/")[2]).acall(self._fetch, address)
        except Held:
            return None  # no request was made, so the image may exist
        except (ServiceError, net.FetchError, OSError, ValueError) as error:
            fault = fault_of(error)
            if fault is not None and not fault.fatal:
                return None  # the host is suspended with all of its images
            image = None
        await asyncio.to_thread(self._keep, address, image)
        return image

    async def _fetch(self, address: str) -> Picture | None:
        settings = self._app.settings
        async with (
            self._slots,
            net.Client(
                user_agent=user_agent(settings),
                allow=settings.allow_networks,
                body=_MAX_BYTES,
                total="10s",
                ports=None if settings.allow_networks else (80, 443),
            ) as client,
        ):
            answer = await client.get(address)
        if answer.status >= 500 or answer.status in _RETRIABLE_STATUSES:
            reply = Reply(status_code=answer.status, headers=answer.headers, content=b"", method="GET", url=answer.url)
            raise ServiceError("the host of pictures", reply, "no picture now")
        media_type = _kind_of(answer.body) if answer.status == 200 else ""
        return Picture(media_type, answer.body) if media_type else None

    def _kept(self, address: str) -> tuple[Picture | None, float]:
        row = self._app.db.first(PictureRow, "picture", address=address)
        if row is None or row.body is None:
            return None, 0.0 if row is None else row.fetched_at
        now = self._app.queue.clock.now()
        if now - row.used_at > _USED_EVERY:
            self._app.db.all("use_picture", address=address, at=now)
        return Picture(row.media_type, bytes(row.body)), row.fetched_at

    def _keep(self, address: str, found: Picture | None) -> None:
        db, now = self._app.db, self._app.queue.clock.now()
        media_type, body = ("", None) if found is None else (found.media_type, found.body)
        db.all("put_picture", address=address, media_type=media_type, body=body, at=now)
        db.all("prune_pictures", most=_MAX_KEPT)


def images_router(app: Installed[MusicSettings]) -> APIRouter:
    router, pictures = APIRouter(), Pictures(app)

    @router.get("/music/art/{kind}/{id}")
    @requires(Permission.SEE)
    async def art(request: Request, kind: Literal["artist", "album"], id: Number) -> Response:  # noqa: A002 - in the address
        user = user_of(request, request.query_params.get("user", ""))
        row = await app.db.afirst(ArtRow, f"art_of_{kind}", id=id, user_id=user)
        address = address_of(row.art) if row is not None else ""
        picture = await pictures.of(address) if address else None
        if picture is None:
            return Response(_NONE, media_type="image/svg+xml", headers={"Cache-Control": "private, max-age=300"})
        return Response(picture.body, media_type=picture.media_type, headers={"Cache-Control": _SEEN})

    return router


def address_of(art: str | None) -> str:
    """Return the image of an entry. They are stored in order of preference."""
    images: dict[str, str] = json.loads(art) if art else {}
    return next((url for url in images.values() if url.startswith(("https://", "http://"))), "")


def _kind_of(body: bytes) -> str:
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for begins, media_type in _KINDS if body.startswith(begins)), "")
