"""Visitors who are not signed in: whether they may upload, how much, and what they still see."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request

from tidegate.apps import Installed
from tidegate.web import current_principal, not_signed_in, owner_session
from tidegate_apps.convert.files import files_of
from tidegate_apps.convert.settings import ConvertSettings

_WINDOW = 3600.0  # seconds
_MAX_NETWORKS = 10_000


def is_shut_out(app: Installed[ConvertSettings], request: Request) -> bool:
    """Whether the caller must sign in before uploading."""
    return current_principal(request) is None and not app.settings.anonymous


def reading_owner(app: Installed[ConvertSettings], request: Request) -> str:
    """The owner whose files are shown. A stranger must sign in, unless this browser uploaded files before."""
    owner = owner_session(request)
    if is_shut_out(app, request) and not files_of(app.db, owner, limit=1):
        raise not_signed_in(request)
    return owner


@dataclass(slots=True)
class Upload:
    """One upload of a visitor: when it began, and its bytes, at first those that it may have."""

    at: float
    bytes: int


class VisitorQuota:
    """Counts what visitors upload per network and hour, in this process. Use it on one event loop."""

    def __init__(self, clock: Callable[[], float], max_uploads: int, max_bytes: int) -> None:
        self._clock, self._max_uploads, self._max_bytes = clock, max_uploads, max_bytes
        self._networks: OrderedDict[str, deque[Upload]] = OrderedDict()

    def begin(self, network: str, size: int) -> Upload | float:
        """The upload, which counts from here on; or the seconds until one of *size* bytes is allowed."""
        now = self._clock()
        uploads = self._networks.pop(network, deque[Upload]())
        self._networks[network] = uploads
        if len(self._networks) > _MAX_NETWORKS:
            self._networks.popitem(last=False)
        while uploads and now - uploads[0].at >= _WINDOW:
            uploads.popleft()
        left = self._max_bytes - sum(upload.bytes for upload in uploads)
        if len(uploads) < self._max_uploads and size <= max(left, 0):
            made = Upload(now, size)
            uploads.append(made)
            return made
        return _WINDOW if not uploads else max(1.0, uploads[0].at + _WINDOW - now)
