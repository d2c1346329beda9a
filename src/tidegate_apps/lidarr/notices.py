"""Log events and notices of the submission queue."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tidegate import Fault
from tidegate.events import Notice, NoticeKind
from tidegate_apps.lidarr.codes import REFUSED, TARGET
from tidegate_apps.lidarr.models import Submission

_log = logging.getLogger("tidegate.lidarr")

GIVEN_UP = "given up"  # the key of the notice about entries
_FAILED_CYCLES_BEFORE_NOTICE = 5  # failed cycles in a row before a notice


def log_submitted(sub: Submission, seconds: float) -> None:
    about = (sub.entity_type, sub.entity_id, sub.musicbrainz_id, round(seconds * 1000))
    _log.info("metric.lidarr.submitted entity_type=%s entity_id=%s musicbrainz_id=%s duration_ms=%s", *about)


def log_failed(sub: Submission, error: str, attempts: int) -> None:
    about = (sub.entity_type, sub.entity_id, error, attempts)
    _log.info("metric.lidarr.failed entity_type=%s entity_id=%s error=%s attempts=%s", *about)


def log_backpressure(depth: int, limit: int, pending: int) -> None:
    _log.info("metric.lidarr.backpressure queue_depth=%s queue_max=%s local_pending=%s", depth, limit, pending)


def log_drained(submitted_: int, skipped: int, remaining: int) -> None:
    about = (submitted_, skipped, remaining)
    _log.info("metric.lidarr.queue_drained submitted_count=%s skipped_count=%s remaining_count=%s", *about)


@dataclass(frozen=True, slots=True)
class SubmitFailure:
    """Why a cycle could not continue, and how many cycles in a row failed."""

    fault: Fault
    wakes: int
    since: float

    def notice(self) -> Notice | None:
        """Return the notice; None if the failure may be transient."""
        refused = self.fault.status in REFUSED
        if not refused and self.fault.retriable and self.wakes < _FAILED_CYCLES_BEFORE_NOTICE:
            return None
        title = "Lidarr refuses our key" if refused else "Nothing can be sent to Lidarr"
        return Notice(
            kind=NoticeKind.FATAL if refused else NoticeKind.CAP,
            target=TARGET,
            episode=self.since,
            title=title,
            message=self.fault.message,
            advice=self.fault.advice,
            # Transient failures change their code between cycles. They share one notice.
            code="" if self.fault.retriable else self.fault.code,
        )


def recovered(now: float) -> Notice:
    return Notice(
        kind=NoticeKind.RECOVERED,
        target=TARGET,
        episode=now,
        title="Lidarr takes entries again",
        message="The wakes go on as before.",
    )


def gave_up(n: int, now: float) -> Notice:
    many, they, them = ("1 entry was", "It is", "it") if n == 1 else (f"{n} entries were", "They are", "them")
    return Notice(
        kind=NoticeKind.CAP,
        target=TARGET,
        key=GIVEN_UP,
        episode=now,
        title=f"{many} given up for Lidarr",
        message=f"{they} not tried again without you, nor are the albums of an artist that was given up.",
        advice=f"See why on the page Lidarr, and retry {them} there.",
    )
