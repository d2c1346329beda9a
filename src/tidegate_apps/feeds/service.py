"""The source manager of this server: which feeds are polled. Only this module suspends and resumes a feed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tidegate.apps import Db, DbTx
from tidegate.errors import Rejected
from tidegate_apps.feeds import notices, state
from tidegate_apps.feeds.codes import MANUAL, REASONS, rest_of
from tidegate_apps.feeds.models import (
    AUTO,
    Change,
    Source,
    SourceRequest,
    active_from,
    found_in,
    matching,
    public,
    standing,
)
from tidegate_apps.feeds.state import DueReason, FeedState, host_of, name_of

# -- suspend and resume ------------------------------------------------------------------------------------------------


def disable(tx: DbTx, id_: int, reason: str, by: str, at: float, *, recorded: bool) -> Source:
    """Suspend a feed and return its source.

    *recorded*: the poller has already written its state. Raises ValueError for an unknown reason.
    """
    if reason not in REASONS:
        raise ValueError(f"reason: {reason[:40]!r} is not known; give one of: {', '.join(REASONS)}")
    source = found_in(tx, id_, lock=True)
    if _only_a_person_ends_it(source, by):
        return source
    rest = rest_of(reason)
    until = None if rest is None else at + rest
    able = active_from(source.feed_url, enabled=source.enabled) is not None
    tx.all(
        "set_rest",
        id=id_,
        feed_disabled_at=at,
        feed_disable_reason=reason,
        disabled_by=by,
        active_from=until if able else None,
    )
    tx.all("add_event", source_id=id_, at=at, kind="disabled", actor=by, detail=reason)
    if by != AUTO:
        became = {"state": "disabled", "why": reason, "until": until, "feed": source.name}
        tx.noted(by, "target_disabled", notices.TARGET, id_, was=standing(source), became=became)
    if not recorded:
        tx.all(
            "set_state_rest",
            source_id=id_,
            rest_at=at,
            rest_until=until,
            rest_reason=reason,
            rest_by=by,
            due_at=until if able else None,
            due_why=str(DueReason.COOLDOWN),
        )
    if reason != MANUAL:
        tx.tell(notices.resting(id_, source.name, reason, at))
    return found_in(tx, id_)


def enable(tx: DbTx, id_: int, by: str, at: float, *, recorded: bool) -> tuple[Source, Source]:
    """Resume a feed and return its source before and after.

    Both are equal if it was not suspended, or only an operator may resume it.
    """
    source = found_in(tx, id_, lock=True)
    if source.feed_disabled_at is None or _only_a_person_ends_it(source, by):
        return source, source
    active = active_from(source.feed_url, enabled=source.enabled)
    tx.all("set_rest", id=id_, feed_disabled_at=None, feed_disable_reason=None, disabled_by=None, active_from=active)
    tx.all("add_event", source_id=id_, at=at, kind="enabled", actor=by, detail=source.feed_disable_reason)
    if by != AUTO:
        became = {"state": "enabled", "feed": source.name}
        tx.noted(by, "target_enabled", notices.TARGET, id_, was=standing(source), became=became)
    if not recorded:
        tx.all(
            "set_state_rest",
            source_id=id_,
            rest_at=None,
            rest_until=None,
            rest_reason=None,
            rest_by=None,
            due_at=None if active is None else state.POLL_NOW,
            due_why=str(DueReason.ASKED),
        )
    if by == AUTO:
        tx.tell(notices.recovered(id_, source.name, at))
    else:
        tx.settled(notices.TARGET, id_)
    return source, found_in(tx, id_)


def _only_a_person_ends_it(source: Source, by: str) -> bool:
    return by == AUTO and source.feed_disable_reason == MANUAL


# -- poller state that follows from the source -------------------------------------------------------------------------


def _mirror_change(tx: DbTx, was: Source, now: Source, at: float) -> None:
    """Write what a change at time *at* means for the polls of a source."""
    if not now.feed_url:
        tx.all("remove_state", source_id=now.id)
        return
    due = now.active_from  # now, unless it is suspended
    tx.many("add_state", [state.new_row(now.id, now.name, now.feed_url, now.interval, (due, DueReason.NEW))])
    if not was.feed_url and now.feed_disabled_at is not None:
        rest = rest_of(now.feed_disable_reason or "")
        tx.all(
            "set_state_rest",
            source_id=now.id,
            rest_at=now.feed_disabled_at,
            rest_reason=now.feed_disable_reason,
            rest_until=None if rest is None else now.feed_disabled_at + rest,
            rest_by=now.disabled_by,
            due_at=due,
            due_why=str(DueReason.COOLDOWN),
        )
    elif was.feed_url != now.feed_url:
        tx.all(
            "set_address",
            source_id=now.id,
            feed_url=now.feed_url,
            host=host_of(now.feed_url),
            due_at=due,
            due_why=str(DueReason.NEW),
        )
    elif was.active_from != now.active_from:
        tx.all("set_due", source_id=now.id, due_at=due, due_why=str(DueReason.COOLDOWN if due else DueReason.NEW))
    elif was.interval != now.interval:
        # Sooner only if just the interval delayed it.
        tx.all("sooner", source_id=now.id, due_at=at + now.interval, due_why=str(DueReason.INTERVAL))


_BATCH_SIZE = 500


class Sources:
    """The sources of this server. Every transaction that may make a feed due calls *wake*."""

    elsewhere = False  # see `SourceManager`

    def __init__(self, db: Db, now: Callable[[], float], interval: float, wake: Callable[[DbTx], object]) -> None:
        self._db, self._now, self._interval, self._wake = db, now, interval, wake

    # -- queries -------------------------------------------------------------------------------------------------------

    def get(self, id_: int) -> Source:
        """Return the source. Raises NotFound."""
        return self._db.read(lambda tx: found_in(tx, id_))

    def list_sources(self, after: int = 0, n: int = 100, like: str = "", *, whole: bool = True) -> list[Source]:
        """Return sources by id. *like* filters by name or URL, with *whole* also by secrets in URLs."""
        if not like:
            return self._db.query_as(Source, "sources", after=after, n=n)

        def page(pattern: str, after: int, n: int) -> list[Source]:
            return self._db.query_as(Source, "sources_found", like=pattern, after=after, n=n)

        return matching(like, after, n, page, whole=whole)

    def active(self, after: tuple[float, int] = (-1.0, 0), n: int = 100) -> list[Source]:
        """Return sources that may be polled now: active ones, then those whose suspension expired.

        *after* is the cursor.
        """
        at, (after_from, after_id) = self._now(), after

        def read(tx: DbTx) -> list[Source]:
            # Two ranges of one index: SQLite cannot start in the middle of the rows with 0.
            sources = [] if after_from > 0 else tx.query_as(Source, "sources_active", after=after_id, n=n)
            if len(sources) < n:
                start, id_ = (after_from, after_id) if after_from > 0 else (0.0, 0)
                left = n - len(sources)
                sources += tx.query_as(Source, "sources_rested", at=at, after_from=start, after=id_, n=left)
            return sources

        return self._db.read(read)

    def at(self, url: str) -> int | None:
        """Return the id of the source with a URL."""
        return self._db.scalar_or_none(int, "source_at", feed_url=url)

    # -- changes -------------------------------------------------------------------------------------------------------

    def add(self, request: SourceRequest, by: str) -> Source:
        """Add a source. Raises Rejected if its URL exists."""
        (made,) = self.add_many([request], by)
        if made is None:
            raise Rejected(f"there is a source with that feed_url already: {self.at(request.feed_url or '')}")
        return self.get(made)

    def add_many(
        self, requests: Sequence[SourceRequest], by: str, *, place: int = 0, of: int | None = None
    ) -> list[int | None]:
        """Add sources in one transaction; None for each whose URL exists.

        *place* and *of*: position of the batch in the whole list and its length. They spread the first polls.
        """
        return self._db.write(lambda tx: self._added(tx, requests, by, place, of or len(requests)))

    def _added(self, tx: DbTx, requests: Sequence[SourceRequest], by: str, start: int, of: int) -> list[int | None]:
        at = self._now()
        made: list[int | None] = []
        states = []
        for place, request in enumerate(requests, start):
            url, name, interval = request.feed_url, request.name or name_of(request.feed_url), request.interval
            interval = interval or self._interval
            id_ = tx.scalar_or_none(
                int,
                "add_source",
                name=name,
                feed_url=url,
                interval_s=interval,
                enabled=int(request.enabled),
                active_from=active_from(url, enabled=request.enabled),
                at=at,
            )
            made.append(id_)
            if id_ is None:
                continue
            tx.all("add_event", source_id=id_, at=at, kind="added", actor=by, detail=None)
            if url:
                due_at, why = (state.POLL_NOW, DueReason.NEW) if of == 1 else state.first(at, interval, place, of)
                states.append(state.new_row(id_, name, url, interval, (due_at if request.enabled else None, why)))
        if states:
            tx.many("add_state", states)
            self._wake(tx)
        # One audit entry per request. For a list, the first batch writes it.
        if by != AUTO and start == 0 and of > 1:
            tx.noted(by, "target_imported", notices.TARGET, became={"listed": of})
        elif by != AUTO and start == 0 and made and made[0] is not None:
            name = requests[0].name or name_of(requests[0].feed_url)
            tx.noted(by, "target_added", notices.TARGET, made[0], became={"feed": name})
        return made

    def change(self, id_: int, change: Change, by: str) -> Source:
        """Change a source. Its suspension stays, and so do concurrent changes of other fields."""

        def work(tx: DbTx) -> Source:
            at = self._now()
            was = found_in(tx, id_, lock=True)
            wanted = change.of(was)
            if wanted == Change().of(was):
                return was
            url = wanted.feed_url
            other = tx.scalar_or_none(int, "source_at", feed_url=url)
            if other not in (None, id_):
                raise Rejected(f"there is a source with that feed_url already: {other}")
            active = active_from(url, enabled=wanted.enabled)
            if active is not None and was.feed_disabled_at is not None:
                rest = rest_of(was.feed_disable_reason or "")
                active = None if rest is None else was.feed_disabled_at + rest
            tx.all(
                "set_source",
                id=id_,
                name=wanted.name,
                feed_url=url,
                interval_s=wanted.interval,
                enabled=int(wanted.enabled),
                active_from=active,
            )
            tx.all("add_event", source_id=id_, at=at, kind="changed", actor=by, detail=None)
            now = found_in(tx, id_)
            _mirror_change(tx, was, now, at)
            self._wake(tx)
            if by != AUTO:
                before = _values(was)
                after = {name: value for name, value in _values(now).items() if value != before[name]}
                was_so, became = {name: before[name] for name in after}, {"feed": now.name, **after}
                tx.noted(by, "target_changed", notices.TARGET, id_, was=was_so, became=became)
            return now

        return self._db.write(work)

    def remove(self, id_: int, by: str) -> None:
        """Delete a source with its entries and history. Raises NotFound."""

        def first(tx: DbTx) -> None:
            source = found_in(tx, id_, lock=True)
            was = {"feed": source.name, **standing(source)}
            tx.noted(by, "target_removed", notices.TARGET, id_, was=was, became={"state": "gone"})
            tx.all("remove_source", id=id_)
            tx.all("remove_state", source_id=id_)
            tx.all("remove_beats", source_id=id_)
            tx.all("remove_events", source_id=id_)
            tx.settled(notices.TARGET, id_)

        self._db.write(first)
        while len(self._db.all("remove_items", source_id=id_, n=_BATCH_SIZE)) == _BATCH_SIZE:
            pass

    def disable(self, id_: int, reason: str, by: str) -> Source:
        """Suspend a feed. Raises NotFound, and ValueError for an unknown reason."""
        return self._db.write(lambda tx: disable(tx, id_, reason, by, self._now(), recorded=False))

    def enable(self, id_: int, by: str) -> Source:
        def work(tx: DbTx) -> Source:
            was, now = enable(tx, id_, by, self._now(), recorded=False)
            if was != now:
                self._wake(tx)
            return now

        return self._db.write(work)

    def poll_now(self, id_: int, by: str = AUTO) -> Source:
        """Make the feed due now. Raises Rejected while it must not be polled."""
        (source,) = self.poll_all([id_], by)
        return source

    def poll_all(self, ids: Sequence[int], by: str = AUTO) -> list[Source]:
        """Make several feeds due, in batches that keep write transactions short. Each batch is all or nothing."""
        sources: list[Source] = []
        for start in range(0, len(ids), _BATCH_SIZE):
            some = ids[start : start + _BATCH_SIZE]
            sources += self._db.write(partial(self._make_due, ids=some, by=by, of=0 if start else len(ids)))
        return sources

    def _make_due(self, tx: DbTx, *, ids: Sequence[int], by: str, of: int) -> list[Source]:
        """Make a batch due. *of*: the total, with the first batch, for the audit entry; 0 with the others."""
        sources = [found_in(tx, id_, lock=True) for id_ in ids]
        for source in sources:
            if not source.enabled or not source.feed_url:
                raise Rejected("the source is switched off, or has no feed_url; change that first")
            if source.active_from is None or source.active_from > self._now():
                raise Rejected("the feed is disabled; enable it first")
            tx.all("set_due", source_id=source.id, due_at=state.POLL_NOW, due_why=str(DueReason.ASKED))
        self._wake(tx)
        if by != AUTO and of:
            only = sources[0] if of == 1 else None
            many = {"feeds": of} if only is None else {"feed": only.name}
            became = {"state": "polled now", **many}
            tx.noted(by, "target_asked", notices.TARGET, None if only is None else only.id, became=became)
        return sources

    # -- for the poller, in the transaction of a poll ------------------------------------------------------------------

    async def refresh(self) -> None:
        """Do nothing: the poller reads the sources of this database."""

    def disabled(self, tx: DbTx, feed: FeedState, reason: str) -> None:
        disable(tx, feed.source_id, reason, AUTO, self._now(), recorded=True)

    def enabled(self, tx: DbTx, feed: FeedState) -> None:
        enable(tx, feed.source_id, AUTO, self._now(), recorded=True)

    def moved(self, tx: DbTx, feed: FeedState, url: str) -> bool:
        """Record a permanent move; False if another source has that URL."""
        source = found_in(tx, feed.source_id, lock=True)
        if tx.all("source_at", feed_url=url):
            return False
        tx.all(
            "set_source",
            id=source.id,
            name=source.name,
            feed_url=url,
            interval_s=source.interval,
            enabled=source.enabled_n,
            active_from=source.active_from,
        )
        tx.all("add_event", source_id=source.id, at=self._now(), kind="moved", actor=AUTO, detail=url)
        return True


def _values(source: Source) -> dict[str, str]:
    """Return the fields that users can change, without secrets in the URL."""
    return {
        "name": source.name,
        "address": public(source.feed_url or ""),
        "interval": f"{source.interval:g} s",
        "state": "on" if source.enabled else "off",
    }
