"""The list of feeds and the page of one feed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request, Response

from tidegate.apps import DbTx, Installed
from tidegate.errors import NotFound
from tidegate.web import number_of, page, problem
from tidegate_apps.feeds import notices
from tidegate_apps.feeds.codes import MANUAL, ErrorType
from tidegate_apps.feeds.models import AUTO, Source, matching, public
from tidegate_apps.feeds.notices import REASONS, WHEN
from tidegate_apps.feeds.poll_results import state_of
from tidegate_apps.feeds.settings import FeedsSettings
from tidegate_apps.feeds.state import OK, OWN, UNMODIFIED, DueReason, FeedState, name_of

# -- status of a feed --------------------------------------------------------------------------------------------------

DAY = 86400.0
_SLOTS = 48
_RANK = {"": 0, "good": 1, "calm": 2, "warn": 3, "bad": 4}


@dataclass(frozen=True, slots=True)
class FeedStatusLabel:
    """A state of the pages, its label if it is not the usual one, and the reason."""

    token: str
    word: str
    reason: str


def status_label(source: Source, state: FeedState | None, now: float) -> FeedStatusLabel:
    """Return the status of a feed. The first rule that applies decides."""
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
    """Return the reason for the time of the next poll."""
    return "" if state is None or state.due_at is None else WHEN.get(state.due_why, state.due_why)


def describe_event(kind: str, actor: str, detail: str | None) -> str:
    """Return one line of the history of a feed."""
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


Piece = tuple[float, float, str, str]  # from, to, tone, text


def day_bar(beats: Iterable[tuple[Any, ...]], now: float) -> list[Piece]:
    """Return the last day in half hours, each with its worst outcome."""
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
    """Return the bar as text, for screen readers."""
    bad = sum(tone_of(beat[1]) in ("warn", "bad") for beat in beats)
    polls = "1 poll" if len(beats) == 1 else f"{len(beats)} polls"
    return f"{polls} in the last day, {bad} failed" if beats else "no poll in the last day"


_PAGE_SIZE = 50
_MAX_BEATS = 500
_TABS = ("", "failing", "disabled", "unclassified")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRow:
    """One row of the list."""

    source: Source
    state: FeedState | None
    look: FeedStatusLabel
    why_then: str
    bar: list[Piece]
    bar_words: str
    title: str | None
    link: str | None
    malformed: str | None
    items: int
    last_new_at: float | None

    @property
    def path(self) -> str:
        """Return the path of the URL, which distinguishes feeds named after one host; empty if the feed has a name."""
        url = self.source.feed_url or ""
        return urlsplit(url).path if self.source.name == name_of(url) else ""


def show_all(request: Request, app: Installed[FeedsSettings]) -> Response:
    """Render the list. Tabs, search and paging are plain links."""
    asked = request.query_params
    tab = asked.get("state", "") if asked.get("state", "") in _TABS else ""
    like = asked.get("q", "")[:200].strip()
    return _list(request, app, tab, like, number_of(asked.get("after", "")) or 0)


def _list(request: Request, app: Installed[FeedsSettings], tab: str, like: str, after: int = 0) -> Response:
    now, elsewhere = app.queue.clock.now(), bool(app.settings.source_manager_url)

    def read(tx: DbTx) -> dict[str, Any]:
        sources = _sources(tx, tab, like, after, elsewhere=elsewhere)
        total, disabled = tx.all("count_sources")[0]
        failing, unclassified, items, unpolled, known = tx.all("count_states")[0]
        if elsewhere:
            total, disabled = known, tx.all("count_resting")[0][0]
        return {
            "lines": [_line(tx, source, now) for source in sources[:_PAGE_SIZE]],
            "more_after": sources[_PAGE_SIZE - 1].id if len(sources) > _PAGE_SIZE else None,
            "total": total,
            "items": items,
            "unpolled": unpolled,
            "known": known,
            "counts": {"": total, "failing": failing, "disabled": disabled, "unclassified": unclassified},
        }

    seen = app.db.read(read)
    return page(
        request,
        "feeds/all.html",
        **seen,
        tab=tab,
        tabs=_TABS,
        like=like,
        paged=bool(after),
        start=now - DAY,
        end=now,
        elsewhere=app.settings.source_manager_url,
        polls=app.settings.poll,
        simulated=app.settings.simulated,
    )


def show_one(request: Request, app: Installed[FeedsSettings]) -> Response:
    """Render one feed: status, entries and history."""
    key = request.path_params["key"]
    # Notices also link here for keys that are not a feed: unclassified failures, and hosts.
    if key == notices.UNCLASSIFIED:
        return _list(request, app, "unclassified", "")
    if key.startswith(notices.HOST):
        return _list(request, app, "", key.removeprefix(notices.HOST).partition(":")[0])
    now = app.queue.clock.now()

    def read(tx: DbTx) -> dict[str, Any]:
        number = number_of(key)
        if number is None:
            raise NotFound("there is no such feed")
        source = _source(tx, number)
        return {
            "line": _line(tx, source, now),
            "items": tx.all("items", source_id=source.id, before=2**53, n=30),
            "beats": tx.all("beats", source_id=source.id, since=0.0, n=50),
            "events": tx.all("events", source_id=source.id, n=30),
        }

    try:
        seen = app.db.read(read)
    except NotFound as error:
        return problem(404, "not_there", detail=f"{error}.")
    return page(
        request,
        "feeds/one.html",
        **seen,
        start=now - DAY,
        end=now,
        tone_of=tone_of,
        words=WORDS,
        public=public,
        happened=describe_event,
        elsewhere=app.settings.source_manager_url,
        polls=app.settings.poll,
    )


def _sources(tx: DbTx, tab: str, like: str, after: int, *, elsewhere: bool) -> list[Source]:
    n = _PAGE_SIZE + 1
    if like:
        known = (
            (lambda **asked: [_source(tx, row[0]) for row in tx.all("states_found", **asked)]) if elsewhere else None
        )
        return matching(tx, like, after, n, read=known)
    if tab == "disabled" and elsewhere:
        return [_source(tx, row[0]) for row in tx.all("states_disabled", after=after, n=n)]
    if tab == "disabled":
        return [Source(*row) for row in tx.all("sources_disabled", after=after, n=n)]
    if tab == "failing":
        return [_source(tx, row[0]) for row in tx.all("feeds_failing", after=after, n=n)]
    if tab == "unclassified":
        return [_source(tx, row[0]) for row in tx.all("feeds_by_error", type="unexpected", after=after, n=n)]
    sources = [Source(*row) for row in tx.all("sources", after=after, n=n)]
    return sources or [_source(tx, row[0]) for row in tx.all("known_states", after=after, n=n)]


def _source(tx: DbTx, id_: int) -> Source:
    """Return the source. If another server manages the sources, it is built from the poller's state."""
    row = tx.one("source", id=id_)
    if row is not None:
        return Source(*row)
    known = tx.one("states", source_id=id_)
    if known is None:
        raise NotFound(f"there is no feed {id_}")
    state = state_of(known)
    rest = state.rest
    return Source(
        id_,
        state.name,
        state.feed_url,
        state.interval,
        1,
        rest.disabled_at,
        rest.reason,
        rest.by,
        rest.until if rest.disabled else 0.0,
        0.0,
    )


def _line(tx: DbTx, source: Source, now: float) -> FeedRow:
    row, more = tx.one("states", source_id=source.id), tx.one("details", source_id=source.id)
    state = None if row is None else state_of(row)
    beats = tx.all("beats", source_id=source.id, since=now - DAY, n=_MAX_BEATS)
    _, _, title, link, malformed, items, last_new_at = more or (0, 0, None, None, None, 0, None)
    return FeedRow(
        source=source,
        state=state,
        look=status_label(source, state, now),
        why_then=next_poll(state),
        bar=day_bar(beats, now),
        bar_words=bar_words(beats),
        title=title,
        link=link,
        malformed=malformed,
        items=items,
        last_new_at=last_new_at,
    )
