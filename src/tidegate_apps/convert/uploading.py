"""Uploads under way: so many at once, each with a draft that is dropped whatever happens."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from tidegate import Installed
from tidegate_apps.convert import intake
from tidegate_apps.convert.intake import Taken
from tidegate_apps.convert.receiving import Received, boundary_of, check_length, receive
from tidegate_apps.convert.refusals import beside_the_ten
from tidegate_apps.convert.settings import Settings
from tidegate_apps.convert.storage import StorageError


class Uploads:
    """All that come in at this server. Its number is only changed on the loop of the page."""

    def __init__(self, there: Installed[Settings]) -> None:
        self._there = there
        self._under_way = 0

    async def take(self, request: Request, owner: str) -> Taken:
        """The job of the upload; Problem when there is none."""
        there, settings = self._there, self._there.settings
        check_length(request, settings.most_bytes)
        boundary_of(request)
        reason = await run_in_threadpool(intake.held, there)
        if reason is not None:
            raise reason
        if self._under_way >= settings.uploads_at_once:
            raise beside_the_ten("too_many", "Too many files come in at the moment.", status=503, retry_after=5)
        self._under_way += 1
        try:
            return await self._taken(request, owner)
        finally:
            self._under_way -= 1

    async def _taken(self, request: Request, owner: str) -> Taken:
        there, settings = self._there, self._there.settings
        got: Received | None = None
        try:
            with await run_in_threadpool(there.jobs.storage.draft) as draft:
                got = Received(draft, settings.most_bytes)
                await receive(request, got, settings.upload_time)
                return await run_in_threadpool(intake.take, there, owner, got, draft)
        except StorageError as error:
            raise await run_in_threadpool(intake.broken_off, there, error, owner, got) from error
