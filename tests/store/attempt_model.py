"""What becomes of a job, in the plainest words: one object for each, no database, no batches, no locks."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.store.jobs import LEASE

# kind, at, attempt, fence, code
Told = tuple[str, float, int, int, str | None]

QUEUED = ("waiting", "ready")
FINAL = ("done", "failed", "cancelled")


@dataclass(slots=True)
class LostLease:
    worker: str
    alone: bool
    survived: bool = False
    counted: bool = False


@dataclass(slots=True)
class ModelJob:
    most_attempts: int
    created_at: float
    state: str = "ready"
    attempt: int = 0
    fence: int = 0
    deaths: int = 0
    deaths_alone: int = 0
    suspect: bool = False
    due_at: float = 0.0
    lease_until: float = 0.0
    claimed_at: float = 0.0
    stop_asked: bool = False
    manual_retries: int = 0
    saved: str | None = None
    result: str | None = None
    error: str | None = None
    last: str | None = None
    told: list[Told] = field(default_factory=list)
    stale: set[int] = field(default_factory=set)  # fences whose result came too late
    endings: dict[int, str] = field(default_factory=dict)  # by fence
    worker: str = ""  # that claimed it last
    lost_leases: dict[int, LostLease] = field(default_factory=dict)  # by fence

    def __post_init__(self) -> None:
        self.due_at = self.created_at
        self.told.append(("queued", self.created_at, 0, 0, None))

    def row(self) -> tuple[object, ...]:
        return (
            self.state, self.attempt, self.fence, self.deaths, self.deaths_alone, int(self.suspect),
            int(self.stop_asked), self.manual_retries, self.saved,
            self.result, self.error, self.last, self.due_at if self.state == "waiting" else None,
        )  # fmt: skip

    def history(self, now: float) -> list[Told]:
        running = [("processing", self.claimed_at, self.attempt, self.fence, None)] if self.state == "running" else []
        return sorted([*self.told, *running], key=repr)

    # -- what workers do -----------------------------------------------------------------------------------------

    def claimed(self, now: float, worker: str) -> None:
        self.state, self.attempt, self.fence = "running", self.attempt + 1, self.fence + 1
        self.worker = worker
        self.lease_until, self.claimed_at = now + LEASE, now

    def holds(self, fence: int) -> bool:
        return self.state == "running" and self.fence == fence

    def ended(self, fence: int, now: float, ending: str, state: str, *, wait: float = 0.0, refund: bool = False,
              code: str | None = None, result: str | None = None, attempt: int) -> None:  # fmt: skip
        """An attempt is over, if it still counts."""
        if not self.holds(fence):
            same = self.endings.get(fence) in (ending, "cancelled")
            if not same and fence not in self.stale:
                self.stale.add(fence)
                self.told.append(("stale_result", now, attempt, fence, code))
            return
        given = state
        if self.stop_asked and state in QUEUED:
            ending, state = "cancelled", "cancelled"
        self._end(now, ending, code)
        self.state, self.stop_asked, self.result = state, False, result
        self.attempt -= refund
        self.suspect = self.suspect and (given == "ready" or refund)
        self.due_at = now + wait if wait else self.due_at
        self.last = code or self.last
        self.error = code if state == "failed" else None

    def lost(self, now: float) -> bool:
        """Its worker was not heard of in time; False when it is waited for, since its death would fail the job."""
        first = self.fence not in self.lost_leases
        lease = self.lost_leases.setdefault(self.fence, LostLease(self.worker, self.suspect))
        crash = self.suspect and not lease.survived
        last = self.attempt >= self.most_attempts
        all_crashes = not lease.survived and self.deaths + 1 >= self.most_attempts + 3
        fails = self.deaths_alone + crash >= 3 or (last and (self.most_attempts == 1 or all_crashes))
        if first and not self.stop_asked and fails:
            self.lease_until = now + LEASE
            return False
        self._end(now, "lost", "worker_lost")
        lease.counted = crash
        self.deaths += 1
        self.deaths_alone += crash
        if self.stop_asked:
            self.state = "cancelled"
        elif fails:
            self.state, self.error, self.last = "failed", "worker_lost", "worker_lost"
        else:
            self.state = "ready"
            self.attempt -= last
        self.suspect = self.state == "ready"
        self.stop_asked = False
        if self.state != "ready":
            self.told.append((self.state, now, self.attempt, self.fence, "worker_lost"))
        return True

    def survived(self, worker: str) -> None:
        """A worker that was not heard of in time lives."""
        for fence, lease in sorted(self.lost_leases.items()):
            if lease.worker != worker or lease.survived:
                continue
            lease.survived = True
            if self.state in FINAL or self.endings.get(fence) != "lost":
                continue
            self.deaths_alone -= lease.counted
            if self.state == "ready" and self.fence == fence:
                self.suspect = lease.alone

    def _end(self, now: float, ending: str, code: str | None) -> None:
        self.told.append(("processing", self.claimed_at, self.attempt, self.fence, None))
        self.told.append((ending, now, self.attempt, self.fence, code))
        self.endings[self.fence] = ending

    # -- what people do ------------------------------------------------------------------------------------------

    def retried(self, now: float) -> bool:
        if self.state not in ("failed", "cancelled"):
            return False
        self.state, self.attempt, self.deaths, self.error, self.due_at = "ready", 0, 0, None, now
        self.deaths_alone, self.suspect = 0, False
        self.lost_leases.clear()
        self.manual_retries += 1
        self.told.append(("retried", now, 0, self.fence, None))
        return True

    def cancelled(self, now: float) -> str | None:
        if self.state in FINAL:
            return None
        if self.state == "running":
            self.stop_asked = True
            self.told.append(("cancel_asked", now, self.attempt, self.fence, None))
            return "asked"
        self.state = "cancelled"
        self.told.append(("cancelled", now, self.attempt, self.fence, None))
        return "cancelled"
