"""Who gets the free slots of a worker: fair over queues and targets, then over the keys of each, as the gates allow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tidegate.core.job import Claimed
from tidegate.runtime.in_flight import runs_suspects
from tidegate.runtime.job_gates import GateTurn
from tidegate.store import claims
from tidegate.store.claims import Cycle, Front, Lane, Rounds
from tidegate.store.tx import Tx

_LOOK = 128  # lanes of one look into the index
_MOST_HELD = 2048  # held lanes that one turn walks past; the next turn goes on from there
_MOST_CUTS = 4  # turns in a row that do so without a pause


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a worker can take, and under which lease."""

    worker: str
    lease: float
    room: int  # jobs that it has use for
    slots: int  # jobs that it can begin at once
    rounds: Rounds
    cycle: Cycle | None = None  # nothing but what that may take


@dataclass(slots=True)
class Taken:
    """What was claimed, of which generation of its breaker, and whose turn it is next."""

    rounds: Rounds
    jobs: list[Claimed] = field(default_factory=list)
    generations: dict[int, int] = field(default_factory=dict)


def claim(tx: Tx, gates: GateTurn, fronts: Sequence[Front], terms: Terms) -> Taken:
    """Each front that is open gets its share, and what some do not need goes to the others."""
    sharing = _Sharing(tx, gates, terms)
    hungry = [front for front in _after(fronts, terms.rounds.front) if gates.admits(front)]
    while hungry and sharing.left > 0:
        before = sharing.left
        hungry = [front for i, front in enumerate(hungry) if sharing.serve(front, len(hungry) - i)]
        if sharing.left == before:
            break
    return sharing.taken


def suspect(
    tx: Tx, gates: GateTurn, fronts: Sequence[Front], terms: Terms, *, alone: bool, duty: SuspectDuty | None
) -> Taken | None:
    """The first suspect that may go; without a job when it must wait to run *alone*, and None when there is none.

    It goes before everything else, as it was claimed before that. Without *duty* any suspect may be claimed.
    """
    sharing = _Sharing(tx, gates, terms)
    open_fronts = {front.place for front in fronts if gates.admits(front)}
    for each in claims.suspects(tx, terms.cycle):
        lane = each.lane
        if (lane.queue, lane.target) not in open_fronts or not sharing.is_open(lane):
            continue
        if duty is not None and not duty.includes(lane.queue, each.waited):
            continue
        if not gates.eligible(lane.target) or gates.left(lane.target) <= 0:
            continue
        if not alone or sharing.take_suspect(lane, each.id):
            return sharing.taken
    return None


class SuspectDuty:
    """Which suspects this worker makes way for: a few processes do, so that the others go on with their work."""

    def __init__(self, tx: Tx, terms: Terms) -> None:
        # A worker whose jobs were taken back was not seen for the time of a lease.
        self._workers, self._now = claims.workers_at_work(tx, terms.lease)
        self._process = next((each.process for each in self._workers if each.id == terms.worker), None)

    def includes(self, queue: str, waited: float) -> bool:
        """Whether it does for a suspect of *queue* that has *waited* so many seconds."""
        processes = list(dict.fromkeys(each.process for each in self._workers if queue in each.queues))
        if self._process not in processes:
            return True  # its own heartbeat is late
        return runs_suspects(processes.index(self._process), len(processes), waited, self._now)


class _Sharing:
    def __init__(self, tx: Tx, gates: GateTurn, terms: Terms) -> None:
        self._tx, self._gates, self._terms = tx, gates, terms
        self.left, self._slots = terms.room, terms.slots
        self.taken = Taken(terms.rounds)
        self._held = 0  # lanes walked past
        self._single: set[tuple[str, str]] = set()  # fronts with one lane: there is nobody to take turns with

    def serve(self, front: Front, sharers: int) -> bool:
        """Claims the share of one front; True when it may have more than that."""
        share = math.ceil(self.left / sharers)
        room = self._gates.left(front.target)
        most = min(share, room, self._slots) if self._gates.gated(front.target) else min(share, room)
        if most <= 0 and not (self._gates.wants_ask(front.target) and self._slots > 0):
            return False
        lanes = self._open_lanes(front, max(most, 1))
        if not lanes or not self._gates.eligible(front.target):
            return False
        got = self._from_lanes(front, lanes, most)
        if got:
            self.taken.rounds = replace(self.taken.rounds, front=front.place)
        return 0 < share == got

    def _from_lanes(self, front: Front, lanes: Sequence[Lane], most: int) -> int:
        got, hungry = 0, list(lanes)
        while got < most and hungry:
            before, still = got, []
            for i, lane in enumerate(hungry):
                share = math.ceil((most - got) / (len(hungry) - i))
                n = len(self._from_lane(lane, share))
                got += n
                if n == share and lane.hold is None:
                    still.append(lane)
                if got >= most:
                    self._served(front, lane)
                    break
            if got == before:
                break
            hungry = still
        return got

    def _from_lane(self, lane: Lane, n: int) -> list[Claimed]:
        terms = self._terms
        n = n if lane.hold is None else min(n, 1)
        if n <= 0:
            return []
        return self._take(lane, lambda: claims.claim(self._tx, lane, n, terms.worker, terms.lease, terms.cycle))

    def take_suspect(self, lane: Lane, id_: int) -> bool:
        """Claims that one job; False when another worker takes it just now."""
        worker, lease = self._terms.worker, self._terms.lease
        return bool(self._take(lane, lambda: claims.claim_suspect(self._tx, lane, id_, worker, lease)))

    def _take(self, lane: Lane, claim: Callable[[], list[Claimed]]) -> list[Claimed]:
        gates = self._gates
        if lane.hold is not None and not gates.probe(lane.target, lane.lane):
            return []
        taken = claim()
        if lane.hold is not None:
            gates.probing(lane.target, lane.lane, taken)
        gates.claimed(lane.target, taken)
        self.left -= len(taken)
        self._slots -= len(taken)
        self.taken.jobs += taken
        generation = gates.generation(lane.target)
        self.taken.generations |= {job.id: generation for job in taken}
        return taken

    def _served(self, front: Front, lane: Lane) -> None:
        lanes = {**self.taken.rounds.lanes, front.place: lane.lane}
        if front.place in self._single:
            lanes.pop(front.place)
        self.taken.rounds = replace(self.taken.rounds, lanes=lanes)

    def _open_lanes(self, front: Front, most: int) -> list[Lane]:
        """The next lanes whose jobs may go, at most so many, going round once."""
        found: list[Lane] = []
        for lane in self._walk(front):
            if self.is_open(lane):
                found.append(lane)
                if len(found) >= most:
                    break
                continue
            self._gates.look_at(lane.hold_until)
            self._held += 1
            if self._held >= _MOST_HELD:
                self._cut_short(front, lane)
                break
        return found

    def is_open(self, lane: Lane) -> bool:
        return lane.hold is None or (lane.hold_until is not None and lane.hold_until <= self._gates.now)

    def _cut_short(self, front: Front, lane: Lane) -> None:
        """So many are held that the next turn must go on from here: at once, but not for ever."""
        self._served(front, lane)
        rounds, cuts = self.taken.rounds, self._terms.rounds.cuts
        if cuts < _MOST_CUTS:
            self._gates.look_at(self._gates.now + 0.001)
        self.taken.rounds = replace(rounds, cuts=cuts + 1 if cuts < _MOST_CUTS else 0)

    def _walk(self, front: Front) -> Iterator[Lane]:
        start = self.taken.rounds.lanes.get(front.place)
        after, seen = start, set[str]()
        while True:
            batch = claims.lanes(self._tx, front, after, _LOOK)
            if after is None and len(batch) == 1:
                self._single.add(front.place)
            for lane in batch:
                if lane.lane in seen:
                    return  # once round
                seen.add(lane.lane)
                yield lane
            if len(batch) == _LOOK:
                after = batch[-1].lane
            elif start is None:
                return
            else:
                after = start = None


def _after(fronts: Sequence[Front], last: tuple[str, str]) -> list[Front]:
    """Beginning behind the one that was served last, in our own order: that of a database depends on its language."""
    ordered = sorted(fronts, key=lambda front: front.place)
    at = next((i for i, front in enumerate(ordered) if front.place > last), 0)
    return [*ordered[at:], *ordered[:at]]
