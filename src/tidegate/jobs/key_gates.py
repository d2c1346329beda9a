"""Updates the health of keys from finished attempts, inside the store's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tidegate import outbox
from tidegate.events import Event, EventKind, NoticeKind
from tidegate.faults.fault import Fault
from tidegate.guard import publisher
from tidegate.guard.policy import TargetRules
from tidegate.guard.publisher import Subject
from tidegate.jobs.job import AttemptOutcome, Claimed
from tidegate.store.base import Tx
from tidegate.targets import key_health, table


class ClaimAdmission(NamedTuple):
    """How the breaker of a target admitted a job."""

    generation: int
    outage: float | None = None  # of a trial: seconds since the breaker opened, if the service has not responded since


NO_BREAKER = ClaimAdmission(0)


@dataclass(frozen=True, slots=True)
class TargetVerdict:
    """The verdict of one attempt on its target: healthy (True), failing (False) or unknown (None), and its fault."""

    target: str
    lane: str
    generation: int
    ok: bool | None
    fault: Fault | None = None


class KeyHealthTx:
    """The health of keys during one transaction."""

    def __init__(
        self, tx: Tx, now: float, rng: Callable[[], float], happened: Callable[..., None], events: list[Event]
    ) -> None:
        self._tx, self._now, self._rng = tx, now, rng
        self._happened, self._events = happened, events  # written now, and published after the commit

    def note(self, rules: TargetRules, said: Sequence[tuple[AttemptOutcome, TargetVerdict | None]]) -> bool:
        """Applies a batch of attempts to the keys of one target.

        Returns True when the whole target was held, because its jobs have no key, and has recovered.
        """
        back = False
        by_lane: defaultdict[str, list[tuple[AttemptOutcome, TargetVerdict | None]]] = defaultdict(list)
        for outcome, note in said:
            by_lane[outcome.job.lane].append((outcome, note))
        rows = table.lock_holds(self._tx, [(rules.name, lane) for lane in by_lane])
        for lane, batch in sorted(by_lane.items()):
            row = rows.get((rules.name, lane))
            faults = [(note.fault, outcome.job) for outcome, note in batch if note is not None and note.fault]
            bad = [(fault, job) for fault, job in faults if not key_health.is_answer(fault, rules)]
            if row is not None and _well(row, rules, batch):
                held, row = (
                    row.reason != table.NOT_HELD,
                    self._apply_change(key_health.record_success(row, self._now), lane),
                )
                back |= held and not lane and row.reason == table.NOT_HELD
            if bad:  # many failures of one batch are one outage
                fault, job = _worst(bad)
                old = row or key_health.fresh(rules.name, lane, self._now)
                at = {"claimed_at": job.claimed_at, "now": self._now, "roll": self._rng()}
                changed = key_health.record_failure(old, rules, fault, **at)
                if changed.row != old or row is not None:
                    row = self._apply_change(changed, lane, fault)
            if row is not None and row.probe is not None:
                self._unprobed(rules.name, lane, [outcome.job.id for outcome, _ in batch])
        return back

    def _apply_change(
        self, changed: key_health.Changed, key_text: str, fault: Fault | None = None
    ) -> table.StoredKeyHealth:
        table.put_hold(self._tx, changed.row)
        for kind, fields in changed.news:
            self._happened(kind, changed.row.target, key_text, fields, fault)
        for notice in changed.notices:
            self._notify(notice, changed.row, fault)
        return changed.row

    def _notify(self, kind: NoticeKind, row: table.StoredKeyHealth, fault: Fault | None) -> None:
        """Records a notice, unless one was recorded for this episode."""
        began = row.rest.disabled_at if kind is NoticeKind.DISABLED else row.since
        about = Subject(row.target, row.lane, None, self._now if began is None else began)
        notice = publisher.of(kind, about, fault)
        written = outbox.record_target_notice(self._tx, outbox.of_target(notice, row.lane))
        if written is not None:
            notice = replace(notice, episode=written.episode)
            self._events.append(
                Event(kind=EventKind.NOTICE, at=self._now, target=row.target, key=row.lane, fault=fault, notice=notice)
            )

    def _unprobed(self, target: str, key_text: str, jobs: Sequence[int]) -> None:
        """Releases the probe of an attempt that proved nothing, so that another job can be the probe."""
        for job in jobs:
            self._tx.query("hold_unprobe", {"target": target, "lane": key_text, "job": job})


def _well(
    row: table.StoredKeyHealth, rules: TargetRules, batch: Sequence[tuple[AttemptOutcome, TargetVerdict | None]]
) -> bool:
    """Whether an attempt of the batch proves the key healthy: it succeeded, and started after the last failure."""
    return any(
        (note.ok and not note.fault) or (note.fault is not None and key_health.is_answer(note.fault, rules))
        for outcome, note in batch
        if note is not None and (not row.failures or outcome.job.claimed_at > row.failed_at)
    )


def _worst(faults: Sequence[tuple[Fault, Claimed]]) -> tuple[Fault, Claimed]:
    """The fault to apply: a fatal one if there is one, else that of the job claimed last."""
    return max(faults, key=lambda pair: (pair[0].fatal, pair[1].claimed_at))
