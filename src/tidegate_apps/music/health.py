"""The health of users at providers: one target per provider, one key per user.

Backoff, fatal state and confirmation come from the core. There is no breaker. State is in memory and lost with the
process, unless the settings persist it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Protocol

from tidegate import Backoff, Fault, Target
from tidegate.apps import Db, DbTx
from tidegate.events import Bus
from tidegate.faults import Code, Reach, Reason
from tidegate.guard import Health, Hold, TargetKey, Tuning
from tidegate_apps.music.library_writer import SyncOperation
from tidegate_apps.music.provider import Operation, ProviderClock, ProviderKind
from tidegate_apps.music.settings import MusicSettings

_log = logging.getLogger("tidegate.music")


class BlockingClock(ProviderClock, Protocol):
    """A clock for sync and async code."""

    def sleep(self, wait: float) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncDependencies:
    """External dependencies of health. *store*: where notices become rows; None: nowhere."""

    clock: BlockingClock
    store: str | None = None
    bus: Bus | None = None
    rng: Callable[[], float] = random.random


class Healths:
    """The targets of a process. They outlive a single run of the job."""

    def __init__(self, kinds: Mapping[str, ProviderKind], settings: MusicSettings, outside: SyncDependencies) -> None:
        self._kinds, self._settings, self._outside = kinds, settings, outside
        self._targets: dict[str, Target] = {}
        self._caught_up: set[str] = set()

    def of(self, user: str, provider: str) -> TargetKey:
        return self.target(provider).key(user)

    def target(self, provider: str) -> Target:
        """Return the target, created at the first connection: a target without calls reports nothing to the store."""
        if provider not in self._targets:
            self._targets[provider] = _target(self._kinds[provider], self._settings, self._outside)
        return self._targets[provider]

    def forget(self, user: str, provider: str) -> None:
        """Clear all state of the key. It may not exist, and neither may its provider."""
        if provider in self._targets:
            self.of(user, provider).clear()

    def paused(self) -> set[str]:
        """Return the providers that an operator has paused."""
        held = {name: target.explain() for name, target in self._targets.items()}
        return {name for name, holds in held.items() if any(str(hold.reason) == "paused" for hold in holds)}

    def caught_up(self, providers: Iterable[str]) -> None:
        """Wait briefly for remote orders for these providers, so that no call is made to a paused one."""
        new = {provider: self.target(provider) for provider in set(providers) - self._caught_up}
        for provider, target in new.items():
            self._caught_up.add(provider)
            if not target.caught_up():
                _log.warning("music_orders_not_read target=%s", provider)

    # -- persistence, if enabled in the settings -----------------------------------------------------------------------

    def restore(self, db: Db) -> None:
        """Load the state of an earlier process."""
        for user, provider, operation, failures, since, until, code, detail in db.all("healths"):
            kind = self._kinds.get(provider)
            if kind is not None and code in kind.rules.code_book:
                fault = kind.rules.code_book[code].fault("kept", detail=detail)
                self.of(user, provider).restore(
                    fault, failures=failures, since=since, until=until, operation=operation or None
                )

    def keep(self, db: Db, pairs: Iterable[tuple[str, str]]) -> None:
        """Save the state of these users at these providers."""
        rows = [(user, provider, _rows(user, provider, self.of(user, provider).health())) for user, provider in pairs]

        def write(tx: DbTx) -> None:
            for user, provider, health in rows:
                tx.all("clear_health", user_id=user, provider=provider)
                if health:
                    tx.many("put_health", health)

        if rows:
            db.write(write)


def _target(kind: ProviderKind, settings: MusicSettings, outside: SyncDependencies) -> Target:
    backoff = Backoff(
        float(settings.backoff_base),
        cap=max(float(settings.backoff_cap), float(settings.backoff_base)),
        jitter=settings.backoff_jitter,
    )
    tuning = Tuning(cap_notice=settings.cap_notice, rng=outside.rng, bus=outside.bus)
    return Target(
        kind.name,
        "sync",
        title=kind.title,
        rules=kind.rules,
        backoff=backoff,
        breaker=False,
        confirm="rules" if kind.confirm is None else kind.confirm,
        deadline=float(settings.deadline),
        reprobe_every=float(settings.reprobe) or None,
        store=outside.store,
        clock=outside.clock,
        tuning=tuning,
    )


def _rows(user: str, provider: str, ill: list[Health]) -> list[dict[str, object]]:
    return [
        {
            "user_id": user,
            "provider": provider,
            "operation": failing.operation or "",
            "failures": failing.failures,
            "since": failing.since,
            "until": None if failing.hold is None else failing.hold.until,
            "code": failing.fault.code,
            "detail": failing.fault.detail[:300],
        }
        for failing in ill
        if failing.fault is not None and failing.failures
    ]


# -- state of each operation for display -------------------------------------------------------------------------------
# It is written late and in batches, because nothing depends on it.

_DETAIL = 300


@dataclass(slots=True)
class OperationState:
    """The fields are the columns. Times are UNIX time."""

    user_id: str
    provider: str
    operation: str
    tried_at: float | None = None
    success_at: float | None = None
    began_at: float | None = None  # it is running
    items: int = 0  # of the last success
    bad: int = 0
    failures: int = 0
    failed_since: float | None = None
    code: str | None = None
    message: str | None = None
    advice: str | None = None
    detail: str | None = None
    held: str | None = None
    next_at: float | None = None

    def begin(self, now: float) -> None:
        self.began_at = now

    def succeed(self, now: float, items: int, bad: int, due: float) -> None:
        self.tried_at = self.success_at = now
        self.items, self.bad, self.next_at = items, bad, due
        self.well()

    def idle(self, now: float, due: float | None) -> None:
        self.tried_at = now
        self.plan(None, due)

    def fail(self, now: float, fault: Fault, failures: int, hold: Hold | None, due: float | None) -> None:
        self.tried_at, self.began_at = now, None
        self.failed_since = self.failed_since if self.failures and self.failed_since is not None else now
        self.failures = max(1, failures)
        self.code, self.message, self.advice = fault.code, fault.message, fault.advice
        self.detail = fault.detail[:_DETAIL]
        self.plan(hold, due)

    def plan(self, hold: Hold | None, due: float | None) -> None:
        """Record why it is not called now, and when it will be."""
        self.began_at = None
        self.held = None if hold is None else _HELD.get(str(hold.reason), "other")
        self.next_at = due

    def well(self) -> None:
        self.began_at, self.failures, self.failed_since, self.held = None, 0, None, None
        self.code = self.message = self.advice = self.detail = None


_HELD = {"fatal": "fatal", "backoff": "backoff", "retry_after": "retry_after"}
_COLUMNS = [field.name for field in fields(OperationState)]


class OperationStates:
    """The states of one process. `flush` writes changes in one transaction."""

    def __init__(self, db: Db, now: Callable[[], float]) -> None:
        self._db, self._now = db, now
        self._all: dict[SyncOperation, OperationState] = {}
        self._changed: dict[SyncOperation, None] = {}

    def load(self, *, forget: bool) -> None:
        """Load the states of an earlier process; *forget* drops its failures and delays."""
        if forget:
            self._db.all("forget_all_health")
        for state in self._db.query_as(OperationState, "states"):
            state.began_at = None
            self._all[SyncOperation(state.user_id, state.provider, Operation(state.operation))] = state

    def of(self, operation: SyncOperation) -> OperationState:
        if operation not in self._all:
            self._all[operation] = OperationState(
                user_id=operation.user, provider=operation.provider, operation=str(operation.operation)
            )
        return self._all[operation]

    def changed(self, operation: SyncOperation) -> None:
        self._changed[operation] = None

    def forget(self, user: str, provider: str) -> None:
        """Remove the states of a deleted connection."""
        for lane in [operation for operation in self._all if (operation.user, operation.provider) == (user, provider)]:
            del self._all[lane]
            self._changed.pop(lane, None)

    @property
    def waiting(self) -> bool:
        return bool(self._changed)

    def taken(self) -> list[dict[str, object]]:
        """Return the rows to write, once."""
        lanes, self._changed = list(self._changed), {}
        return [{name: getattr(self._all[lane], name) for name in _COLUMNS} for lane in lanes if lane in self._all]

    def put_back(self, rows: list[dict[str, object]]) -> None:
        """Mark rows as unwritten. The next write uses their values at that time."""
        for row in rows:
            self.changed(SyncOperation(str(row["user_id"]), str(row["provider"]), Operation(str(row["operation"]))))

    def write(self, rows: list[dict[str, object]]) -> None:
        if rows:
            self._db.write(lambda tx: tx.many("put_states", rows))


# -- codes -------------------------------------------------------------------------------------------------------------

UNREADABLE = Code(
    name="MUSIC_UNREADABLE",
    reason=Reason.AUTH,
    reach=Reach.CREDENTIAL,
    message="What was entered for this connection cannot be read, because the key of the server is another one now.",
    advice="Connect again on the page Music, or put the former key back.",
)
UNUSABLE = Code(
    name="MUSIC_UNUSABLE",
    reason=Reason.TRANSIENT,
    reach=Reach.CREDENTIAL,
    message="This connection could not be set up. It is tried again every half minute.",
    advice="Check what was entered. If it is right, the log of the server says what went wrong.",
)
CODES: tuple[Code, ...] = (UNREADABLE, UNUSABLE)
