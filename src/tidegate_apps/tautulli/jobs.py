"""The sync job: what each outcome means for the log, the store and the next attempt."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import NoReturn

import httpx2

from tidegate import Again, Backoff, BreakerOpen, Context, Fail, Fault, Held, TooManyRequests, classify, fault_of
from tidegate.apps import Installed
from tidegate.errors import LeaseLost
from tidegate.jobs import JobFunction
from tidegate_apps.tautulli.client import PACK, TARGET, advice_for, no_rows
from tidegate_apps.tautulli.guarded_client import Api, SyncStopped, picture
from tidegate_apps.tautulli.settings import TautulliSettings
from tidegate_apps.tautulli.sync import DOUBT, Doubtful, HistorySync, Synced

_log = logging.getLogger("tidegate.tautulli")

QUEUE = "tautulli"
BY_CLOCK, BY_PERSON = "history", "history now"
_ATTEMPTS = 5
# five attempts within half a minute open a breaker with a threshold of five
_BACKOFF = Backoff("2s", cap="30s", jitter=0.1)
_MIN_DELAY_SECONDS = 1.0  # seconds, the minimum delay of a held run
_MAX_RETRY_AFTER = 3600.0  # seconds, the upper limit for Retry-After of Tautulli or a proxy


@dataclass(frozen=True, slots=True)
class TautulliJobs:
    """The parts of the application that routes, pages, schedules and commands share."""

    api: Api
    sync: JobFunction[[str], Synced]


def declare(app: Installed[TautulliSettings], transport: httpx2.BaseTransport | None = None) -> TautulliJobs:
    """Declare the job. *transport* replaces sockets in tests."""
    api = Api(app, transport)
    app.queue.set_retention(QUEUE, done="1d", failed="7d")

    @app.queue.job(queue=QUEUE, name="tautulli.sync", unique=lambda: BY_CLOCK, attempts=_ATTEMPTS)
    def sync(job: Context, which: str) -> Synced:
        try:
            return Run(app, api, job).made(which)
        except Fail:
            if job.saved:
                job.save_now(tried=False)  # a retry by a user allows one more probe
            raise

    return TautulliJobs(api, sync)


class Run:
    """One attempt at a sync."""

    def __init__(self, app: Installed[TautulliSettings], api: Api, job: Context) -> None:
        self._app, self._api, self._job = app, api, job

    def made(self, which: str) -> Synced:
        if not self._app.settings.url:
            raise Fail("misconfigured", "No address of Tautulli is set: tautulli.url.")
        if which == BY_PERSON and not self._job.saved.get("tried"):
            self._job.save_now(tried=True)  # one request allows one probe: if it fails, the breaker decides again
            self._api.let_try()
        try:
            syncing = self._syncing()
            self._trials(syncing)
            synced = syncing.run()
        except SyncStopped as error:
            self._stopped(error)
            return Synced()
        except Held as held:
            self._held(held)
        except Exception as error:
            self._failed(error)
        self.record("synced")
        level = logging.INFO if synced.new or synced.changed else logging.DEBUG
        about = (synced.new, synced.changed, synced.seen, synced.passed_over)
        _log.log(level, "history synced new=%s changed=%s seen=%s passed_over=%s", *about)
        return synced

    def record(self, outcome: str, fault: Fault | None = None) -> None:
        """Record the outcome with the current state of the breaker."""
        clock = self._app.queue.clock
        self._app.db.all(
            "ended",
            at=clock.now(),
            outcome=outcome,
            code=None if fault is None else fault.code,
            message=None if fault is None else advice_for(fault),
            breaker=json.dumps(picture(self._api.breaker, clock)),
        )

    def _syncing(self) -> HistorySync:
        job = self._job
        return HistorySync(
            self._app.db,
            self._api.client,
            self._app.settings.page,
            self._app.queue.clock.now,
            lambda: job.cancelled or job.stopping,
            threads=not self._app.queue.inline,
        )

    def _trials(self, syncing: HistorySync) -> None:
        """Close a half-open breaker with small calls: a short sync might leave it half-open for hours."""
        for _ in range(self._app.settings.breaker_max_requests):
            if self._api.breaker.state != "half-open":
                return
            syncing.asked(self._api.client.arnold)

    def _stopped(self, error: SyncStopped) -> None:
        """Nothing is lost: the next attempt continues after the last stored page."""
        if self._job.lost:
            raise LeaseLost(self._job.id, self._job.fence) from error
        if self._job.stopping:
            raise Again(keep_attempt=True) from error

    def _held(self, held: Held) -> NoReturn:
        """Handle a call that was not made: stored plays are served until the hold ends."""
        if isinstance(held, TooManyRequests):
            self.record("throttled")
            _log.warning("sync throttled target=%s retry_after=%.1f", TARGET, held.retry_after or 0.0)
        elif held.reason == "fatal":
            self._gave_up(held)
        else:
            self.record("skipped")
            why = "open" if isinstance(held, BreakerOpen) else held.reason
            _log.warning("sync skipped target=%s breaker=%s retry_after=%.1f", TARGET, why, held.retry_after or 0.0)
        raise Again(max(held.retry_after or 0.0, _MIN_DELAY_SECONDS), keep_attempt=True) from held

    def _gave_up(self, held: Held) -> NoReturn:
        """Fail: Tautulli rejected us before, and the settings have not changed since."""
        fault = next(
            (key_health.fault for key_health in self._api.target.unhealthy() if key_health.fault is not None), None
        )
        fault = fault or PACK.code_book["misconfigured"].fault("held")
        self.record("failed", fault)
        _log.log(fault.level.number, "sync failed code=%s error=held", fault.code)
        raise Fail(fault.code, advice_for(fault)) from held

    def _failed(self, error: Exception) -> NoReturn:
        if isinstance(error, Doubtful):
            fault: Fault | None = PACK.code_book["empty_history"].fault("first-look")
        else:
            fault = fault_of(error) or classify(error, PACK) or no_rows(error)
        fault = fault or PACK.code_book["unexpected"].fault("sync", detail=f"{type(error).__name__}: {error}")
        self.record("failed", fault)
        unknown = error if fault.unclassified else None
        _log.log(fault.level.number, "sync failed code=%s error=%s", fault.code, fault.detail, exc_info=unknown)
        if fault.fatal:
            raise Fail(fault.code, advice_for(fault), status=fault.status or None) from error
        raise self._again(fault, doubtful=isinstance(error, Doubtful)) from error

    def _again(self, fault: Fault, *, doubtful: bool) -> Exception:
        """Retry later.

        It costs an attempt only while the breaker is closed, because an open one blocks the next attempt anyway.
        """
        if self._api.breaker.state != "closed":
            return Again(_MIN_DELAY_SECONDS, keep_attempt=True, code=fault.code)
        if doubtful:
            return Again(DOUBT, keep_attempt=True, code=fault.code)
        if self._job.attempt >= _ATTEMPTS:
            return Fail(fault.code, advice_for(fault), status=fault.status or None)
        wait = max(_BACKOFF.delay(self._job.attempt - 1), min(fault.retry_after or 0.0, _MAX_RETRY_AFTER))
        return Again(wait, code=fault.code)
