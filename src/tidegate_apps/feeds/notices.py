"""The texts of notices and log lines about feeds."""

from __future__ import annotations

import logging

from tidegate.events import Notice, NoticeKind
from tidegate.faults import Level
from tidegate.guard import CooldownChange
from tidegate_apps.feeds.codes import MANUAL, ErrorType, rest_of
from tidegate_apps.feeds.state import DueReason, PollResult

TARGET = "feeds"
UNCLASSIFIED, HOST = "unclassified", "host "  # keys that are not a feed

REASONS: dict[str, str] = {
    ErrorType.RATE_LIMITED: "the site asks us to come more rarely",
    ErrorType.FORBIDDEN: "the site does not let us read it",
    ErrorType.NOT_FOUND: "there is nothing at this address",
    ErrorType.GONE: "the site says that it is gone for good",
    ErrorType.UPSTREAM: "the site reports an error of its own",
    ErrorType.NETWORK: "the site cannot be reached",
    ErrorType.PARSE: "the response of the site is not a valid feed",
    ErrorType.UNEXPECTED: "the site answers in a way that is not known yet",
    MANUAL: "a user disabled it",
}
WHEN: dict[str, str] = {
    DueReason.NEW: "it is new",
    DueReason.ASKED: "a user requested it",
    DueReason.INTERVAL: "that is its interval",
    DueReason.HINT: "the feed asks to be polled no sooner",
    DueReason.SKIPPED: "the feed names hours without news",
    DueReason.BACKOFF: "it failed, so the waits grow",
    DueReason.RETRY_AFTER: "the site named that time",
    DueReason.COOLDOWN: "its rest is over then",
    DueReason.OWN_LINK: "our own network seemed to be down",
}


def sentence(reason: str) -> str:
    """Return why a feed fails, as one sentence."""
    why = REASONS.get(reason, reason)
    return f"{why[:1].upper()}{why[1:]}."


def resting(id_: int, name: str, reason: str, at: float) -> Notice:
    """Return the notice for a feed that was suspended automatically."""
    rest = _for_people(rest_of(reason) or 0.0)
    advice = f"It is left alone for {rest}; then one poll finds out whether it is well. You can enable it sooner."
    if reason == ErrorType.GONE:
        advice = f"Remove it, and add its new address if it has one. It is asked once more in {rest}."
    return Notice(
        kind=NoticeKind.DISABLED,
        target=TARGET,
        key=id_,
        episode=at,
        title=f"The feed “{name}” rests",
        message=f"{sentence(reason)} {advice}",
        advice=advice,
        code=reason,
    )


def _for_people(seconds: float) -> str:
    n, unit = (seconds / 86400, "day") if seconds >= 86400 else (seconds / 3600, "hour")
    return f"{n:g} {unit}{'' if n == 1 else 's'}"


def recovered(id_: int, name: str, at: float) -> Notice:
    return Notice(
        kind=NoticeKind.RECOVERED,
        target=TARGET,
        key=id_,
        episode=at,
        title=f"The feed “{name}” works again",
        message="It was polled after its rest, and is well. There is nothing more to do.",
    )


def host(name: str, kind: str, at: float) -> Notice:
    """Return the notice for a host: most of its feeds fail with the same type, or without *kind*, they recovered."""
    if not kind:
        return Notice(
            kind=NoticeKind.RECOVERED,
            target=TARGET,
            key=f"{HOST}{name}",
            episode=at,
            title=f"{name} works again",
            message="Most of its feeds can be read. There is nothing more to do.",
        )
    advice = "Look whether the site is well. What it cannot help is not counted against its feeds, for a day at most."
    return Notice(
        kind=NoticeKind.DISABLED,
        target=TARGET,
        key=f"{HOST}{name}",
        episode=at,
        code=kind,
        advice=advice,
        title=f"Most feeds of {name} fail",
        message=f"For most of them, {REASONS[kind]}. {advice}",
    )


def unclassified(at: float) -> Notice:
    return Notice(
        kind=NoticeKind.FATAL,
        target=TARGET,
        key=UNCLASSIFIED,
        episode=at,
        code=str(ErrorType.UNEXPECTED),
        title="Some feeds answer in a way that is not known",
        message="They are polled on, and none of them rests. Look at them: Feeds, Unclassified.",
    )


def own_link(at: float) -> Notice:
    return Notice(
        kind=NoticeKind.OWN_LINK,
        target=TARGET,
        episode=at,
        title="Our own network seems to be down",
        message="Most feeds fail at the same time, so none of them is blamed. Check the connection of this machine.",
    )


# -- log lines ---------------------------------------------------------------------------------------------------------

log = logging.getLogger("tidegate.feeds")


def log_poll(each: PollResult) -> None:
    """Log a failed poll, and one more line if its feed is now suspended."""
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
            level,
            "feed poll failed source_id=%s error_type=%s status_code=%s error=%s",
            state.source_id,
            str(error.type),
            error.status_code,
            str(error),
        )
    if each.verdict.change is CooldownChange.DISABLED:
        log.warning(
            "feed disabled source_id=%s reason=%s consecutive_errors=%s",
            state.source_id,
            state.rest.reason,
            state.rest.failing_count,
        )
