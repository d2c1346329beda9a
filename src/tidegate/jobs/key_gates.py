"""What the ends of attempts make of the lanes of their targets, inside the store's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tidegate import outbox
from tidegate.events import Event, EventKind, NoticeKind
from tidegate.faults.fault import Fault
from tidegate.guard import publisher
from tidegate.guard.policy import TargetRules
from tidegate.guard.publisher import Subject
from tidegate.jobs.job import AttemptOutcome, Claimed
from tidegate.store.base import Tx
from tidegate.targets import key_health, table


@dataclass(frozen=True, slots=True)
class TargetVerdict:
    """What one attempt says about its target: True well, False ill, None nothing; and its fault."""

    target: str
    lane: str
    generation: int
    ok: bool | None
    fault: Fault | None = None


class KeyHealthTx:
    """The lanes during one transaction."""

    def __init__(
        self, tx: Tx, now: float, rng: Callable[[], float], happened: Callable[..., None], events: list[Event]
    ) -> None:
        self._tx, self._now, self._rng = tx, now, rng
        self._happened, self._events = happened, events  # what is written, and what is told after the commit

    def note(self, rules: TargetRules, said: Sequence[tuple[AttemptOutcome, TargetVerdict | None]]) -> bool:
        """What a batch says of the lanes of one target: one change of each that is not well.

        True when everything of the target was held, because its jobs have no keys, and is not any more.
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
        """Tells people, if nobody has told them of this episode yet."""
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
        """A probe that came back and proved nothing leaves its place to the next one."""
        for job in jobs:
            self._tx.query("hold_unprobe", {"target": target, "lane": key_text, "job": job})


def _well(
    row: table.StoredKeyHealth, rules: TargetRules, batch: Sequence[tuple[AttemptOutcome, TargetVerdict | None]]
) -> bool:
    """Whether one of the batch shows that the lane is well: it went well, and began after the last failure."""
    return any(
        (note.ok and not note.fault) or (note.fault is not None and key_health.is_answer(note.fault, rules))
        for outcome, note in batch
        if note is not None and (not row.failures or outcome.job.claimed_at > row.failed_at)
    )


def _worst(faults: Sequence[tuple[Fault, Claimed]]) -> tuple[Fault, Claimed]:
    """A fatal one before others; else the one whose call was let through last."""
    return max(faults, key=lambda each: (each[0].fatal, each[1].claimed_at))
