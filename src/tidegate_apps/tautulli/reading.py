"""What is stored, as pages, answers and commands show it: how fresh it is, how the breaker is, and what was played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate import DbTx
from tidegate_apps.tautulli.settings import Settings, next_time
from tidegate_apps.tautulli.storing import State, state_of


@dataclass(frozen=True, slots=True)
class Freshness:
    """How old what is stored is. *stale_since* is None while it is as new as it should be."""

    state: State
    breaker: str  # "closed", "open", "half-open": as it is now
    next_trial: float | None  # when the open breaker lets a call through
    stale_since: float | None


def freshness(tx: DbTx, settings: Settings, now: float) -> Freshness:
    """Stale: the last attempt did not bring all, or two that were due since have not been made."""
    state = state_of(tx.one("state"))
    said, until = state.breaker.get("state", "closed"), state.breaker.get("until")
    # Nobody calls an open breaker, so nobody told that its time is over.
    now_it_is = "half-open" if said == "open" and until is not None and until <= now else said
    late = state.synced_at is not None and now > next_time(settings, state.synced_at, 2)
    stale = state.outcome != "synced" or now_it_is != "closed" or late
    return Freshness(state, now_it_is, until if said == "open" else None, state.synced_at if stale else None)


def history(tx: DbTx, asked: Mapping[str, Any]) -> list[Any]:
    """Plays, the newest first: by the index of the first of user, title, platform and kind that is given."""
    place = {name: asked[name] for name in ("started", "row_id", "since", "n")}
    given = [name for name in ("person", "show", "platform", "media_type") if asked[name]]
    if not given:
        return tx.all("plays", **place)
    for name in ("platform", "media_type"):
        # What nobody has would be sought in all plays of a user, or of a platform.
        if name in given[1:] and tx.one(f"any_of_{name}", sought=asked[name]) is None:
            return []
    rest = {name: asked[name] for name in ("show", "platform", "media_type")}
    return tx.all(f"plays_of_{given[0]}", **place, **rest, sought=asked[given[0]])
