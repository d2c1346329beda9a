"""A look through the library, as a job: where Lidarr keeps it from its end, it goes on later by itself."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from tidegate import Again, Context
from tidegate.apps import Installed
from tidegate_apps.lidarr.client import LidarrError, fault_of
from tidegate_apps.lidarr.enriching import Enricher, ScanCounts
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.lidarr.submitter import Submitter

_log = logging.getLogger("tidegate.lidarr")

_RESUME_SECONDS = 300.0  # seconds until a look goes on
_MAX_KEPT = 100  # entries without an answer that a look leaves aside when it goes on


@dataclass(frozen=True, slots=True)
class LibraryScan:
    app: Installed[LidarrSettings]
    submitter: Submitter
    enricher: Enricher

    async def scan(self, force: bool, job: Context) -> dict[str, int]:
        """What was looked for lately is left alone, unless by *force*.

        Those that Lidarr gave no answer for are left aside when it goes on, so that they never keep it from the rest.
        """
        if not self.app.settings.configured:
            return ScanCounts().as_json()
        clock, settings = self.app.queue.clock, self.app.settings
        began, tally = _kept(job.saved, clock.now())
        before = began if force else clock.now() - float(settings.enrich_every)
        ended = None
        async with self.submitter.opened() as lidarr:
            try:
                await self.enricher.run(lidarr, lambda: job.stopping, before=before, tally=tally)
            except (httpx2.HTTPError, LidarrError) as error:
                ended = fault_of(error)
                _log.log(ended.level.number, "look_ended code=%s error=%s", ended.code, ended.detail)
        message = ended.message if ended is not None else _skipped(tally)
        if tally.looked or message:
            goes_on_at = clock.now() + _RESUME_SECONDS if ended is not None else None
            seen = {**tally.as_json(), "at": began, "message": message, "goes_on_at": goes_on_at}
            await self.app.queue.run_blocking(lambda: self.app.db.all("put_look", **seen))
        if ended is not None or job.stopping:
            await job.save(began=began, **tally.as_json(), unanswered=tally.unanswered[-_MAX_KEPT:], why=tally.why)
        if job.stopping:
            raise Again(keep_attempt=True)
        if ended is not None:
            raise Again(
                _RESUME_SECONDS, keep_attempt=True, code=ended.code, message=ended.message, status=ended.status or None
            )
        return tally.as_json()


def _kept(saved: Mapping[str, Any], now: float) -> tuple[float, ScanCounts]:
    """When this look began, and what it has done so far."""
    if "began" not in saved:
        return now, ScanCounts()
    tally = ScanCounts(
        looked=saved["looked"], found=saved["found"], queued=saved["queued"], why=saved["why"],
        unanswered=[(kind, entity_id) for kind, entity_id in saved["unanswered"]],
    )  # fmt: skip
    return saved["began"], tally


def _skipped(tally: ScanCounts) -> str:
    n = len(tally.unanswered)
    return f"{n} could not be looked for, and will be in the next look: {tally.why}" if n else ""
