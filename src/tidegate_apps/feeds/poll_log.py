"""What the log has to say of polls, by the table."""

from __future__ import annotations

import logging

from tidegate.faults import Level
from tidegate.guard import CooldownChange
from tidegate_apps.feeds.recording import PollResult

log = logging.getLogger("tidegate.feeds")


def say(each: PollResult) -> None:
    """One line for a poll that failed, one more when its feed rests now."""
    error, state = each.verdict.error, each.verdict.state
    if error is None:
        if each.verdict.change is CooldownChange.ENABLED:
            log.info("feed enabled source_id=%s", state.source_id)
        return
    level = logging.ERROR if error.level is Level.ERROR else logging.WARNING
    if error.untyped:
        log.log(level, "feed poll failed source_id=%s error=%s", state.source_id, str(error), exc_info=error.cause)
    else:
        log.log(
            level, "feed poll failed source_id=%s error_type=%s status_code=%s error=%s",
            state.source_id, str(error.type), error.status_code, str(error),
        )  # fmt: skip
    if each.verdict.change is CooldownChange.DISABLED:
        log.warning(
            "feed disabled source_id=%s reason=%s consecutive_errors=%s",
            state.source_id, state.rest.reason, state.rest.failing_count,
        )  # fmt: skip


def host(name: str, kind: str) -> None:
    """All of a host fails, or it is well again."""
    if kind:
        log.warning("host_failing host=%s error_type=%s", name, kind)
    else:
        log.info("host_well host=%s", name)


def link(lost: bool) -> None:
    """Our own link was lost, or is back."""
    if lost:
        log.warning("own_link_lost")
    else:
        log.info("own_link_back")
