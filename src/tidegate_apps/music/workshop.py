"""What the loops of one process share, for as long as it lives: a turn of the job that ends forgets nothing of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidegate.apps import Db
from tidegate_apps.music.connections import ConnectionRow, Connections
from tidegate_apps.music.health import BlockingClock, Healths
from tidegate_apps.music.keeping import LibraryWriter, SyncOperation
from tidegate_apps.music.kind import ProviderKind
from tidegate_apps.music.pacing import Limiters
from tidegate_apps.music.settings import MusicSettings, addresses, of_kind, operator_values
from tidegate_apps.music.states import OperationStates

Pair = tuple[str, str]  # a user and a provider


@dataclass(slots=True, kw_only=True)
class SyncContext:
    """All of it is used on one loop at a time."""

    db: Db
    settings: MusicSettings
    kinds: Mapping[str, ProviderKind]
    connections: Connections
    healths: Healths
    clock: BlockingClock
    agent: str
    keeping: LibraryWriter
    states: OperationStates
    limiters: Limiters
    dues: dict[SyncOperation, float] = field(
        default_factory=dict
    )  # on the clock that never steps; infinite: a person must act
    generations: dict[Pair, int] = field(default_factory=dict)  # of the credentials that were last used
    asked: dict[Pair, float] = field(default_factory=dict)
    # That had nothing to ask for, in their order: no call was made, so none is too soon.
    idle: dict[SyncOperation, None] = field(default_factory=dict)
    wakes: dict[Pair, Callable[[], None]] = field(default_factory=dict)
    loaded: bool = False

    def load(self) -> None:
        """What an earlier process left; once."""
        if self.loaded:
            return
        kept = self.settings.keep_health
        if kept:
            self.healths.restore(self.db)
        else:
            self.db.all("clear_all_health")
        self.states.load(forget=not kept)
        self.loaded = True

    def every(self, kind: ProviderKind) -> float:
        return float(of_kind(self.settings, kind).every)

    def enabled(self, kind: ProviderKind) -> bool:
        return of_kind(self.settings, kind).enabled

    def addresses(self, kind: ProviderKind) -> dict[str, str]:
        return addresses(self.settings, kind)

    def operator(self, kind: ProviderKind) -> dict[str, str]:
        return operator_values(self.settings, kind)

    def values(self, kind: ProviderKind, row: ConnectionRow | None) -> dict[str, str]:
        """What the operator and the user have entered; BadSecret when it cannot be read any more."""
        mine = {} if row is None else self.connections.values(row)
        defaults = {each.name: each.default for each in kind.fields if each.default}
        return {**defaults, **self.operator(kind), **mine}

    def due(self, operation: SyncOperation) -> float:
        return self.dues.get(operation, -math.inf)

    def news(self, user: str) -> None:
        """Something new is in the library of a user: whoever had nothing to ask for looks again."""
        for lane in [lane for lane in self.idle if lane.user == user]:
            del self.idle[lane]
            self.dues.pop(lane, None)
            self.wakes.get((lane.user, lane.provider), lambda: None)()

    def forget(self, pair: Pair) -> None:
        """As reconnecting does: all state of the key is gone, and the next call goes at once."""
        user, provider = pair
        self.healths.forget(user, provider)
        self.states.forget(user, provider)
        for lane in [lane for lane in self.dues if (lane.user, lane.provider) == pair]:
            del self.dues[lane]
