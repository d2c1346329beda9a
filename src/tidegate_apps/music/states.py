"""How each operation is, as people read it; written a little later and many at once, because nothing depends on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from tidegate import Fault
from tidegate.apps import Db
from tidegate.guard import Hold
from tidegate_apps.music.contract import Operation
from tidegate_apps.music.keeping import SyncOperation

_DETAIL = 300


@dataclass(slots=True, kw_only=True)
class OperationState:
    """The fields are the columns. Times are UNIX time."""

    user_id: str
    provider: str
    operation: str
    tried_at: float | None = None
    success_at: float | None = None
    began_at: float | None = None  # it is at it now
    items: int = 0  # that the last success brought
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
        """It is not called now: why, and when it is."""
        self.began_at = None
        self.held = None if hold is None else _HELD.get(str(hold.reason), "other")
        self.next_at = due

    def well(self) -> None:
        self.began_at, self.failures, self.failed_since, self.held = None, 0, None, None
        self.code = self.message = self.advice = self.detail = None


_HELD = {"fatal": "fatal", "backoff": "backoff", "retry_after": "retry_after"}
_COLUMNS = [field.name for field in fields(OperationState)]


def read(rows: list[tuple[object, ...]]) -> list[OperationState]:
    return [OperationState(**dict(zip(_COLUMNS, row, strict=True))) for row in rows]  # type: ignore[arg-type]  # as the table has it


class OperationStates:
    """Those of one process. What changed is written by `flush`, in one transaction."""

    def __init__(self, db: Db, now: Callable[[], float]) -> None:
        self._db, self._now = db, now
        self._all: dict[SyncOperation, OperationState] = {}
        self._changed: dict[SyncOperation, None] = {}

    def load(self, *, forget: bool) -> None:
        """What an earlier process left; *forget*: its failures and waits are no more."""
        if forget:
            self._db.all("forget_all_health")
        for state in read(self._db.all("states")):
            state.began_at = None
            self._all[_lane(state)] = state

    def of(self, operation: SyncOperation) -> OperationState:
        if operation not in self._all:
            self._all[operation] = OperationState(
                user_id=operation.user, provider=operation.provider, operation=str(operation.operation)
            )
        return self._all[operation]

    def changed(self, operation: SyncOperation) -> None:
        self._changed[operation] = None

    def forget(self, user: str, provider: str) -> None:
        """A connection is gone, with all that was known of it."""
        for lane in [each for each in self._all if (each.user, each.provider) == (user, provider)]:
            del self._all[lane]
            self._changed.pop(lane, None)

    @property
    def waiting(self) -> bool:
        return bool(self._changed)

    def taken(self) -> list[dict[str, object]]:
        """The rows to write, once."""
        lanes, self._changed = list(self._changed), {}
        return [{name: getattr(self._all[lane], name) for name in _COLUMNS} for lane in lanes if lane in self._all]

    def put_back(self, rows: list[dict[str, object]]) -> None:
        """They could not be written; what is true by then is written next time."""
        for row in rows:
            self.changed(SyncOperation(str(row["user_id"]), str(row["provider"]), Operation(str(row["operation"]))))

    def write(self, rows: list[dict[str, object]]) -> None:
        if rows:
            self._db.write(lambda tx: tx.many("put_states", rows))


def _lane(state: OperationState) -> SyncOperation:
    return SyncOperation(state.user_id, state.provider, Operation(state.operation))
