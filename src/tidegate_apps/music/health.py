"""The health of every user at every provider: one target for each provider, a user is a key of it.

Backoff, fatal state and doubts are the core's; there is no breaker. All of it is in memory, and forgotten with the
process, unless the settings keep it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tidegate import Backoff, Target
from tidegate.apps import Db, DbTx
from tidegate.events import Bus
from tidegate.guard import Health, TargetKey, Tuning
from tidegate_apps.music.contract import ProviderClock
from tidegate_apps.music.kind import ProviderKind
from tidegate_apps.music.settings import MusicSettings

_log = logging.getLogger("tidegate.music")


class BlockingClock(ProviderClock, Protocol):
    """Time for both colours."""

    def sleep(self, wait: float) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncDependencies:
    """What the health of a process needs of the world. *store*: where its notices become rows; None: nowhere."""

    clock: BlockingClock
    store: str | None = None
    bus: Bus | None = None
    rng: Callable[[], float] = random.random


class Healths:
    """One for the process, so that a turn of the job that ends forgets nothing."""

    def __init__(self, kinds: Mapping[str, ProviderKind], settings: MusicSettings, outside: SyncDependencies) -> None:
        self._kinds, self._settings, self._outside = kinds, settings, outside
        self._targets: dict[str, Target] = {}
        self._caught_up: set[str] = set()

    def of(self, user: str, provider: str) -> TargetKey:
        return self.target(provider).key(user)

    def target(self, provider: str) -> Target:
        """Made when somebody is connected to it: a target that nobody calls tells the store nothing."""
        if provider not in self._targets:
            self._targets[provider] = _target(self._kinds[provider], self._settings, self._outside)
        return self._targets[provider]

    def forget(self, user: str, provider: str) -> None:
        """All state of the key. Where nobody was called there is none, and perhaps no such provider any more."""
        if provider in self._targets:
            self.of(user, provider).clear()

    def paused(self) -> set[str]:
        """The providers that somebody has paused."""
        held = {name: target.explain() for name, target in self._targets.items()}
        return {name for name, holds in held.items() if any(str(hold.reason) == "paused" for hold in holds)}

    def caught_up(self, providers: Iterable[str]) -> None:
        """Waits a little until it is known what people ordered of these, so that no call goes that they have paused."""
        new = {provider: self.target(provider) for provider in set(providers) - self._caught_up}
        for provider, target in new.items():
            self._caught_up.add(provider)
            if not target.caught_up():
                _log.warning("music_orders_not_read target=%s", provider)

    # -- kept in the store, where the settings say so ------------------------------------------------------------------

    def restore(self, db: Db) -> None:
        """Goes on with what an earlier process has kept."""
        for user, provider, operation, failures, since, until, code, detail in db.all("healths"):
            kind = self._kinds.get(provider)
            if kind is not None and code in kind.rules.code_book:
                fault = kind.rules.code_book[code].fault("kept", detail=detail)
                self.of(user, provider).restore(
                    fault, failures=failures, since=since, until=until, operation=operation or None
                )

    def keep(self, db: Db, pairs: Iterable[tuple[str, str]]) -> None:
        """Writes how these users are at these providers."""
        rows = [(user, provider, _rows(user, provider, self.of(user, provider).health())) for user, provider in pairs]

        def write(tx: DbTx) -> None:
            for user, provider, kept in rows:
                tx.all("clear_health", user_id=user, provider=provider)
                if kept:
                    tx.many("put_health", kept)

        if rows:
            db.write(write)


def _target(kind: ProviderKind, settings: MusicSettings, outside: SyncDependencies) -> Target:
    backoff = Backoff(
        float(settings.backoff_base), cap=max(float(settings.backoff_cap), float(settings.backoff_base)),
        jitter=settings.backoff_jitter,
    )  # fmt: skip
    tuning = Tuning(cap_notice=settings.cap_notice, rng=outside.rng, bus=outside.bus)
    return Target(
        kind.name, "sync", title=kind.title, rules=kind.rules, backoff=backoff, breaker=False, confirm=kind.confirm,
        deadline=float(settings.deadline), reprobe_every=float(settings.reprobe) or None,
        store=outside.store, clock=outside.clock, tuning=tuning,
    )  # fmt: skip


def _rows(user: str, provider: str, ill: list[Health]) -> list[dict[str, object]]:
    return [
        {
            "user_id": user, "provider": provider, "operation": each.operation or "", "failures": each.failures,
            "since": each.since, "until": None if each.hold is None else each.hold.until,
            "code": each.fault.code, "detail": each.fault.detail[:300],
        }
        for each in ill
        if each.fault is not None and each.failures
    ]  # fmt: skip
