"""What is stored, as pages, answers and commands show it: how fresh it is, and how the breaker is."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.apps import DbTx
from tidegate_apps.tautulli.settings import TautulliSettings, next_time
from tidegate_apps.tautulli.storing import SyncState, state_of


@dataclass(frozen=True, slots=True)
class Freshness:
    """How old what is stored is. *stale_since* is None while it is as new as it should be."""

    state: SyncState
    breaker: str  # "closed", "open", "half-open": as it is now
    next_trial: float | None  # when the open breaker lets a call through
    stale_since: float | None


def freshness(tx: DbTx, settings: TautulliSettings, now: float) -> Freshness:
    """Stale: the last attempt did not bring all, or two that were due since have not been made."""
    state = state_of(tx.one("state"))
    said, until = state.breaker.get("state", "closed"), state.breaker.get("until")
    # Nobody calls an open breaker, so nobody told that its time is over.
    now_it_is = "half-open" if said == "open" and until is not None and until <= now else said
    late = state.synced_at is not None and now > next_time(settings, state.synced_at, 2)
    stale = state.outcome != "synced" or now_it_is != "closed" or late
    return Freshness(state, now_it_is, until if said == "open" else None, state.synced_at if stale else None)
