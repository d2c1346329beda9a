"""Sources as their table has them: one of them, those that somebody looks for, and what follows from a row."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.apps import Db, DbTx
from tidegate.errors import NotFound
from tidegate_apps.feeds.source import Source, public


def found_in(tx: DbTx, id_: int, *, lock: bool = False) -> Source:
    """NotFound when there is no such source."""
    row = tx.one("lock_source" if lock else "source", id=id_)
    if row is None:
        raise NotFound(f"there is no source {id_}")
    return Source(*row)


def matching(
    tx: DbTx, like: str, after: int, n: int, *, whole: bool = False, read: Callable[..., list[Source]] | None = None
) -> list[Source]:
    """Those that have *like* in their names or addresses.

    Who does not see an address *whole* must not find out a password in it letter by letter. *read* asks elsewhere.
    """
    pattern = Db.containing(like.lower())
    found: list[Source] = []
    while len(found) < n:
        asked = {"after": after, "n": n, "like": pattern}
        some = [Source(*row) for row in tx.all("sources_found", **asked)] if read is None else read(**asked)
        found += [each for each in some if whole or _shows(each, like.lower())]
        if len(some) < n:
            break
        after = some[-1].id
    return found[:n]


def _shows(source: Source, like: str) -> bool:
    return like in source.name.lower() or like in public(source.feed_url or "").lower()


def active_from(url: str | None, *, enabled: bool) -> float | None:
    """When a source that does not rest may be polled: at any time, or never."""
    return 0.0 if enabled and url else None


def standing(found: Source) -> dict[str, str | None]:
    """How it was, for those who ask who changed it."""
    if found.feed_disabled_at is None:
        return {"state": "enabled"}
    return {"state": "disabled", "why": found.feed_disable_reason, "by": found.disabled_by}
