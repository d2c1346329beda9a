"""Uploads under way: so many at once, each with a draft that is dropped whatever happens."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from tidegate.apps import Installed
from tidegate.web import client_network, current_principal, not_signed_in
from tidegate_apps.convert import intake
from tidegate_apps.convert.intake import AcceptedUpload
from tidegate_apps.convert.receiving import UploadReceiver, boundary_of, check_length, receive
from tidegate_apps.convert.refusals import problem_without_code
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.storage import StorageError
from tidegate_apps.convert.visitors import Upload, VisitorQuota, is_shut_out


class Uploads:
    """All that come in at this server. Its number is only changed on the loop of the page."""

    def __init__(self, app: Installed[ConvertSettings]) -> None:
        self._app = app
        self._visitors = VisitorQuota(
            app.queue.clock.monotonic, app.settings.anonymous_uploads, app.settings.anonymous_bytes
        )
        self._under_way = 0

    async def take(self, request: Request, owner: str) -> AcceptedUpload:
        """The job of the upload; Problem when there is none."""
        there, settings = self._app, self._app.settings
        if is_shut_out(there, request):
            raise await run_in_threadpool(not_signed_in, request)
        check_length(request, settings.most_bytes)
        boundary_of(request)
        reason = await run_in_threadpool(intake.held_until, there)
        if reason is not None:
            raise reason
        if self._under_way >= settings.uploads_at_once:
            raise problem_without_code("too_many", "Too many files come in at the moment.", status=503, retry_after=5)
        counted = self._count_visitor(request) if current_principal(request) is None else None
        self._under_way += 1
        try:
            return await self._taken(request, owner, counted)
        finally:
            self._under_way -= 1

    def _count_visitor(self, request: Request) -> Upload:
        """Counts an upload of a visitor, with all bytes that it may have; Problem when that is too much."""
        stated = request.headers.get("content-length", "")
        size = min(int(stated), self._app.settings.most_bytes) if stated.isdecimal() else self._app.settings.most_bytes
        found = self._visitors.begin(client_network(request), size)
        if not isinstance(found, Upload):
            raise problem_without_code(
                "too_many", "You uploaded much in the last hour. Sign in to go on.", retry_after=found
            )
        return found

    async def _taken(self, request: Request, owner: str, counted: Upload | None) -> AcceptedUpload:
        there, settings = self._app, self._app.settings
        got: UploadReceiver | None = None
        try:
            with await run_in_threadpool(there.jobs.storage.draft) as draft:
                got = UploadReceiver(draft, settings.most_bytes)
                await receive(request, got, settings.upload_time)
                if counted is not None:
                    counted.bytes = got.bytes
                return await run_in_threadpool(intake.take, there, owner, got, draft)
        except StorageError as error:
            raise await run_in_threadpool(intake.record_aborted, there, error, owner, got) from error
