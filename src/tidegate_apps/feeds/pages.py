"""The list of feeds, the page of one feed, and their forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, File, Form, Path, Request, Response, UploadFile

from tidegate.apps import DbTx, Installed
from tidegate.errors import NotFound, Rejected
from tidegate.web import (
    Permission,
    Problem,
    body_limit,
    current_principal,
    current_user,
    number_of,
    page,
    problem,
    redirect_with_flash,
    requires,
)
from tidegate_apps.feeds import notices, opml
from tidegate_apps.feeds.codes import MANUAL, ErrorType
from tidegate_apps.feeds.models import (
    AUTO,
    FeedAbout,
    PollRow,
    Source,
    SourceRequest,
    check_url,
    matching,
    public,
)
from tidegate_apps.feeds.notices import REASONS, WHEN
from tidegate_apps.feeds.service import Sources
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


def day_bar(beats: Iterable[PollRow], now: float) -> list[Piece]:
    """Return the last day in half hours, each with its worst outcome."""
    wide = DAY / _SLOTS
    worst: dict[int, tuple[str, str, int]] = {}
    for beat in beats:
        outcome = beat.outcome
        slot = int((beat.at - (now - DAY)) // wide)
        if 0 <= slot < _SLOTS or beat.at == now:
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


def bar_words(beats: list[PollRow]) -> str:
    """Return the bar as text, for screen readers."""
    bad = sum(tone_of(beat.outcome) in ("warn", "bad") for beat in beats)
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
    about: FeedAbout
    look: FeedStatusLabel
    why_then: str
    bar: list[Piece]
    bar_words: str

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
        ((total, disabled),) = tx.all("count_sources")
        ((failing, unclassified, items, unpolled, known),) = tx.all("count_states")
        if elsewhere:
            total, disabled = known, tx.scalar(int, "count_resting")
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

    def page_of(like: str, after: int, n: int) -> list[Source]:
        if elsewhere:
            return [_source(tx, id_) for id_ in tx.scalars(int, "states_found", like=like, after=after, n=n)]
        return tx.query_as(Source, "sources_found", like=like, after=after, n=n)

    if like:
        return matching(like, after, n, page_of)
    match tab:
        case "disabled" if not elsewhere:
            return tx.query_as(Source, "sources_disabled", after=after, n=n)
        case "disabled":
            ids = tx.scalars(int, "states_disabled", after=after, n=n)
        case "failing":
            ids = tx.scalars(int, "feeds_failing", after=after, n=n)
        case "unclassified":
            ids = tx.scalars(int, "feeds_by_error", type="unexpected", after=after, n=n)
        case _:
            sources = tx.query_as(Source, "sources", after=after, n=n)
            if sources:
                return sources
            ids = tx.scalars(int, "known_states", after=after, n=n)
    return [_source(tx, id_) for id_ in ids]


def _source(tx: DbTx, id_: int) -> Source:
    """Return the source. If another server manages the sources, it is built from the poller's state."""
    source = tx.first(Source, "source", id=id_)
    if source is not None:
        return source
    state = tx.first(FeedState, "states", source_id=id_)
    if state is None:
        raise NotFound(f"there is no feed {id_}")
    return Source(
        id=id_,
        name=state.name,
        feed_url=state.feed_url,
        interval=state.interval,
        enabled_n=1,
        feed_disabled_at=state.rest_at,
        feed_disable_reason=state.rest_reason,
        disabled_by=state.rest_by,
        active_from=state.rest_until if state.rest.disabled else 0.0,
        created_at=0.0,
    )


def _line(tx: DbTx, source: Source, now: float) -> FeedRow:
    state = tx.first(FeedState, "states", source_id=source.id)
    beats = tx.query_as(PollRow, "beats", source_id=source.id, since=now - DAY, n=_MAX_BEATS)
    return FeedRow(
        source=source,
        state=state,
        about=tx.first(FeedAbout, "details", source_id=source.id) or FeedAbout(),
        look=status_label(source, state, now),
        why_then=next_poll(state),
        bar=day_bar(beats, now),
        bar_words=bar_words(beats),
    )


# -- forms, which work without JavaScript ------------------------------------------------------------------------------

MAX_ID = 2**53 - 1
POLLER = "poller"  # the role of programs that poll
SourceId = Annotated[int, Path(ge=1, le=MAX_ID, description="The number of a source.")]
TextField = Annotated[str, Form(max_length=2000)]


def check_manages(app: Installed[FeedsSettings]) -> None:
    """Raise Problem if another server manages the sources."""
    if app.settings.source_manager_url:
        raise Problem("refused", f"The sources are kept at {app.settings.source_manager_url}; change them there.")


def check_polls(app: Installed[FeedsSettings]) -> None:
    """Raise Rejected unless this server polls feeds."""
    if not app.settings.poll:
        raise Rejected("this server does not poll; another one does")


def sees_whole(request: Request) -> bool:
    """Return whether the URL may include its password: for users who may change it, and for programs that poll it."""
    who = current_principal(request)
    return who is not None and (who.has_permission(Permission.PUT_IN) or who.role == POLLER)


def opml_of(app: Installed[FeedsSettings], *, whole: bool) -> Response:
    """Return all feeds as OPML, with secrets in their URLs only if *whole*."""
    sources = opml.every(app.jobs.sources)
    if not whole:
        sources = (replace(source, feed_url=source.feed_url and public(source.feed_url)) for source in sources)
    text = "\n".join(opml.write_opml(sources, app.queue.clock.now()))
    headers = {"Content-Disposition": 'attachment; filename="feeds.opml"'}
    return Response(text, media_type=opml.MEDIA_TYPE, headers=headers)


def forms_router(app: Installed[FeedsSettings]) -> APIRouter:
    router = APIRouter()
    sources: Sources = app.jobs.sources

    @router.post("/feeds/add")
    @requires(Permission.PUT_IN)
    def add(request: Request, feed_url: TextField = "", name: TextField = "") -> Response:
        check_manages(app)
        try:
            url = check_url(feed_url if "://" in feed_url else f"https://{feed_url.strip()}")
            made = sources.add(SourceRequest(feed_url=url, name=name.strip()[:200]), current_user(request))
        except (ValueError, Rejected) as error:
            return redirect_with_flash(request, "/feeds", f"Nothing was added: {_plain(error)}.", tone="bad")
        then = " It is polled now; its items appear here." if app.settings.poll else ""
        return redirect_with_flash(request, f"/feeds/{made.id}", f"{made.name} was added.{then}")

    @router.post("/feeds/import")
    @requires(Permission.PUT_IN)
    @body_limit(opml.MAX_BYTES + 10_000)
    def import_list(request: Request, file: Annotated[UploadFile, File()]) -> Response:
        check_manages(app)
        try:
            wanted, refused = opml.parse_opml(file.file.read(opml.MAX_BYTES + 1))
        except opml.NoOpml as error:
            return redirect_with_flash(request, "/feeds", f"Nothing was added: {_plain(error)}.", tone="bad")
        done = opml.add_all(sources, wanted, refused, current_user(request))
        parts = [f"{done.added} added", f"{done.there} were there already"]
        if done.refused:
            parts.append(f"{done.refused} have no address that can be used")
        return redirect_with_flash(request, "/feeds", f"{', '.join(parts)}.", tone="good" if done.added else "warn")

    @router.get("/feeds/export.opml")
    @requires(Permission.SEE)
    def export(request: Request) -> Response:
        return opml_of(app, whole=sees_whole(request))

    @router.post("/feeds/{id}/remove")
    @requires(Permission.PUT_IN)
    def remove(request: Request, id: SourceId) -> Response:  # noqa: A002
        check_manages(app)
        try:
            name = sources.get(id).name
            sources.remove(id, current_user(request))
        except NotFound as error:
            return redirect_with_flash(request, "/feeds", f"Nothing was changed: {error}.", tone="bad")
        return redirect_with_flash(request, "/feeds", f"{name} was removed, with its items.")

    _add_switches(router, app, sources)
    return router


def _add_switches(router: APIRouter, app: Installed[FeedsSettings], sources: Sources) -> None:
    @router.post("/feeds/{id}/poll")
    @requires(Permission.PUT_IN)
    def poll(request: Request, id: SourceId, back: TextField = "") -> Response:  # noqa: A002 - the name in the address
        def work() -> str:
            check_polls(app)
            return f"{sources.poll_now(id, current_user(request)).name} is polled now."

        return _done(request, app, id, back, work)

    @router.post("/feeds/{id}/enable")
    @requires(Permission.PUT_IN)
    def enable(request: Request, id: SourceId, back: TextField = "") -> Response:  # noqa: A002
        def work() -> str:
            name = sources.enable(id, current_user(request)).name
            return f"{name} is enabled, and polled now." if app.settings.poll else f"{name} is enabled."

        return _done(request, app, id, back, work)

    @router.post("/feeds/{id}/disable")
    @requires(Permission.PUT_IN)
    def disable(request: Request, id: SourceId, back: TextField = "") -> Response:  # noqa: A002
        def work() -> str:
            name = sources.disable(id, MANUAL, current_user(request)).name
            return f"{name} is disabled until a user enables it."

        return _done(request, app, id, back, work)


def _plain(error: Exception) -> str:
    text = str(error)
    return text.partition(": ")[2] if text.startswith(("feed_url: ", "file: ")) else text


def _done(request: Request, app: Installed[FeedsSettings], id_: int, back: str, work: Callable[[], str]) -> Response:
    check_manages(app)
    path = f"/feeds/{id_}" if f"/feeds/{id_}" in back else "/feeds"
    try:
        return redirect_with_flash(request, path, work())
    except (NotFound, Rejected) as error:
        return redirect_with_flash(request, path, f"Nothing was changed: {error}.", tone="warn")
