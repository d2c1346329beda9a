"""How a feed is, in a state, a sentence and a bar of its last day. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidegate_apps.feeds.dues import DueReason
from tidegate_apps.feeds.matrix import MANUAL, ErrorType
from tidegate_apps.feeds.recording import OK, OWN, UNMODIFIED
from tidegate_apps.feeds.source import AUTO, Source, public
from tidegate_apps.feeds.telling import REASONS, WHEN
from tidegate_apps.feeds.verdicts import FeedState

DAY = 86400.0
_SLOTS = 48
_RANK = {"": 0, "good": 1, "calm": 2, "warn": 3, "bad": 4}


@dataclass(frozen=True, slots=True)
class FeedStatusLabel:
    """A state of the pages, the word for it if it is another one, and the reason."""

    token: str
    word: str
    reason: str


def status_label(source: Source, state: FeedState | None, now: float) -> FeedStatusLabel:
    """The first that is true."""
    if source.feed_disabled_at is not None:
        return _disabled(source, state, now)
    if not source.enabled:
        return FeedStatusLabel("paused", "Switched off", "The source is switched off, so nothing is polled.")
    if not source.feed_url:
        return FeedStatusLabel("paused", "No address", "The source has no address of a feed.")
    if state is None or state.last_polled_at is None:
        return FeedStatusLabel("new", "", "It was not polled yet.")
    return _polled(state)


def _disabled(source: Source, state: FeedState | None, now: float) -> FeedStatusLabel:
    reason, by = source.feed_disable_reason or "", source.disabled_by
    why = REASONS.get(reason, reason)
    if reason == MANUAL:
        return FeedStatusLabel("paused", "Disabled", f"Disabled by {by}; only a person enables it again.")
    often = state.rest.failing_count if state is not None and by == AUTO else 0
    times = f", {often} times in a row" if often > 1 else ""
    said = "" if by == AUTO else f" Disabled by {by}."
    if source.rests_until is not None and source.rests_until <= now:
        return FeedStatusLabel(
            "probing", "", f"Its rest is over; one poll finds out whether it is well. Before, {why}.{said}"
        )
    return FeedStatusLabel("disabled", "", f"{why[:1].upper()}{why[1:]}{times}.{said}")


def _polled(state: FeedState) -> FeedStatusLabel:
    kind = state.last_error_type
    if kind is None:
        return FeedStatusLabel("ok", "", "")
    if state.due_why == DueReason.OWN_LINK:
        return FeedStatusLabel("degraded", "", "Our own network seemed to be down, so nothing is known of the feed.")
    why = REASONS.get(kind, kind)
    detail = f" ({state.last_error})" if state.last_error else ""
    said = f"{why[:1].upper()}{why[1:]}{detail}."
    if kind == ErrorType.UNEXPECTED:
        return FeedStatusLabel("action", "Unclassified", f"{said} It is polled on; please look at it.")
    token = "limited" if kind == ErrorType.RATE_LIMITED else "degraded"
    often = state.consecutive_errors
    return FeedStatusLabel(token, "", said if often < 2 else f"{said[:-1]}, {often} failures since the last success.")


def next_poll(state: FeedState | None) -> str:
    """Why the next poll is when it is."""
    return "" if state is None or state.due_at is None else WHEN.get(state.due_why, state.due_why)


def describe_event(kind: str, actor: str, detail: str | None) -> str:
    """One line of the history of a feed."""
    why = REASONS.get(detail or "", detail or "")
    match kind:
        case "disabled" if actor == AUTO:
            return f"It rests: {why}"
        case "disabled":
            return "It was disabled" if detail == MANUAL else f"It was disabled: {why}"
        case "enabled":
            return "A poll after its rest was good, so it is enabled again" if actor == AUTO else "It was enabled"
        case "moved":
            return f"It was moved to {public(detail or '')}"
    return f"It was {kind}"


def tone_of(outcome: str) -> str:
    return {OK: "good", UNMODIFIED: "good", OWN: "calm", "unexpected": "bad"}.get(outcome, "warn")


Piece = tuple[float, float, str, str]  # from, to, tone, words


def day_bar(beats: Iterable[tuple[Any, ...]], now: float) -> list[Piece]:
    """The last day in half hours: the worst that happened in each."""
    wide = DAY / _SLOTS
    worst: dict[int, tuple[str, str, int]] = {}
    for at, outcome, *_ in beats:
        slot = int((at - (now - DAY)) // wide)
        if 0 <= slot < _SLOTS or at == now:
            slot = min(slot, _SLOTS - 1)
            tone, word, n = worst.get(slot, ("", "", 0))
            if _RANK[tone_of(outcome)] > _RANK[tone]:
                tone, word = tone_of(outcome), WORDS.get(outcome, outcome)
            worst[slot] = (tone, word, n + 1)
    start = now - DAY
    return [
        (start + slot * wide, start + (slot + 1) * wide * 0.999, tone, f"{word}, {n} polls" if n > 1 else word)
        for slot, (tone, word, n) in sorted(worst.items())
    ]


WORDS = {OK: "read", UNMODIFIED: "not modified", OWN: "our own network was down"}


def bar_words(beats: list[tuple[Any, ...]]) -> str:
    """The bar for those who do not see it."""
    bad = sum(tone_of(beat[1]) in ("warn", "bad") for beat in beats)
    polls = "1 poll" if len(beats) == 1 else f"{len(beats)} polls"
    return f"{polls} in the last day, {bad} failed" if beats else "no poll in the last day"
