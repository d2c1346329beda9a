"""The gateway's answer: XML straight from a file, which may be deleted while it is sent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import Response

from tidegate_apps.convert.gateway.conversions import Result

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_CHUNK = 256 * 1024


class XmlAnswer(Response):
    """Opens the file when it is made: from then on nobody can take it away. *delete*: it is the only one to need it."""

    media_type = "application/xml"

    def __init__(self, result: Result, *, delete: bool) -> None:
        self._file = result.path.open("rb")
        if delete:
            Path(result.path).unlink()
        super().__init__(
            headers={
                "Content-Length": str(result.made.size),
                "Tidegate-Pages": str(result.made.pages),
                "Tidegate-Scanned-Pages": str(result.made.scans),
            }
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while chunk := await asyncio.to_thread(self._file.read, _CHUNK):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
