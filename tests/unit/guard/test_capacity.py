"""How many may be sent to a target that says how full it is, against a model of such a target."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.guard import capacity
from tidegate.guard.capacity import DEPTH_TIMEOUT, CapacityLimits, FillLevel, QueueDepth

CAP = 4
LIMITS = CapacityLimits(cap=CAP, own=900.0, every=30.0, each=False)


@dataclass
class Model:
    """The target as it really is: what is on its way, what is visible, and what has ended."""

    now: float = 1000.0
    known: FillLevel = field(default_factory=FillLevel)
    on_its_way: list[int] = field(default_factory=list)  # accepted, and not visible yet
    visible: list[int] = field(default_factory=list)
    under_way: list[int] = field(default_factory=list)  # claimed, and not answered yet
    next_job: int = 1
    most: int = 0

    def full(self) -> int:
        return len(self.on_its_way) + len(self.visible) + len(self.under_way)

    def claim(self) -> None:
        room = capacity.send_allowance(self.known, LIMITS, self.now)
        if room.ask:
            self.ask()
            room = capacity.send_allowance(self.known, LIMITS, self.now)
        jobs = list(range(self.next_job, self.next_job + max(0, room.n)))
        self.next_job += len(jobs)
        self.known = capacity.record_claims(self.known, LIMITS, jobs, self.now)
        self.under_way += jobs
        self.most = max(self.most, self.full())

    def ask(self) -> None:
        who = f"w/{self.now}"
        self.known = capacity.depth_requested(self.known, who, self.now)
        self.known = capacity.depth_observed(self.known, LIMITS, who, QueueDepth(len(self.visible)), self.now)

    def accept(self) -> None:
        if self.under_way:
            job = self.under_way.pop(0)
            self.on_its_way.append(job)
            self.known = capacity.record_settled(self.known, LIMITS, [(job, True)], self.now)

    def refuse(self) -> None:
        if self.under_way:
            job = self.under_way.pop()
            self.known = capacity.record_settled(self.known, LIMITS, [(job, False)], self.now)

    def appear(self) -> None:
        if self.on_its_way:
            self.visible.append(self.on_its_way.pop(0))

    def end(self) -> None:
        if self.visible:
            self.visible.pop(0)

    def wait(self) -> None:
        self.now += 10


STEPS = st.lists(st.sampled_from(["claim", "accept", "refuse", "appear", "end", "wait", "ask"]), max_size=60)


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_however_things_come_and_go_the_cap_is_never_exceeded(steps: list[str]) -> None:
    model = Model()
    for step in steps:
        getattr(model, step)()
        assert model.full() <= CAP
        kept = capacity.own_sends(model.known, LIMITS, model.now)
        assert len(kept) >= len(model.on_its_way)  # nothing that is really on its way is forgotten


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_what_is_kept_comes_back_as_it_was(steps: list[str]) -> None:
    model = Model()
    for step in steps:
        getattr(model, step)()
        assert FillLevel.load(model.known.dump()) == model.known


def test_while_somebody_asks_nobody_else_does() -> None:
    asked = capacity.depth_requested(FillLevel(), "a", 100.0)

    assert capacity.send_allowance(asked, LIMITS, 101.0) == capacity.SendAllowance(until=100.0 + DEPTH_TIMEOUT)
    assert capacity.send_allowance(asked, LIMITS, 100.0 + DEPTH_TIMEOUT).ask


def test_an_answer_that_comes_after_another_question_changes_nothing() -> None:
    first = capacity.depth_requested(FillLevel(), "a", 100.0)
    second = capacity.depth_requested(first, "b", 120.0)

    assert capacity.depth_observed(second, LIMITS, "a", QueueDepth(0), 121.0) == second
    assert capacity.depth_failed(second, LIMITS, "a", 121.0) == second


def test_a_job_that_is_claimed_again_is_one_send() -> None:
    known = capacity.record_claims(FillLevel(), LIMITS, [7], 100.0)
    known = capacity.record_claims(known, LIMITS, [7, 8], 200.0)

    assert [send.job for send in capacity.own_sends(known, LIMITS, 201.0)] == [7, 8]


def test_a_send_counts_no_longer_when_the_clock_was_set_back_by_more_than_it_counts() -> None:
    known = capacity.record_claims(FillLevel(depth=0), LIMITS, [7], 1_000_000.0)

    assert len(capacity.own_sends(known, LIMITS, 1_000_000.0 - LIMITS.own / 2)) == 1
    assert capacity.own_sends(known, LIMITS, 1_000_000.0 - LIMITS.own) == ()


def test_what_is_known_from_the_future_holds_nobody() -> None:
    """A clock that was set back: it is asked at once, and not when that time has come again."""
    now, later = 1000.0, 5000.0
    answered = capacity.depth_observed(
        capacity.depth_requested(FillLevel(), "a", later), LIMITS, "a", QueueDepth(1), later
    )
    silent = capacity.depth_failed(capacity.depth_requested(FillLevel(), "a", later), LIMITS, "a", later)
    for known in (answered, silent, capacity.depth_requested(FillLevel(), "a", later)):
        assert not capacity.send_allowance(known, LIMITS, later).ask
        assert capacity.send_allowance(known, LIMITS, now).ask


def test_times_move_with_the_clock_and_what_was_never_set_stays() -> None:
    known = FillLevel(
        depth=3, at=100.0, own=(capacity.PendingSend(7, 90.0, done=True),), failures=1, failed_at=95.0, retry_at=105.0
    )

    moved = known.shift(lambda at: at + 1000)

    assert (moved.at, moved.failed_at, moved.retry_at, moved.asking_until) == (1100.0, 1095.0, 1105.0, 0.0)
    assert moved.own == (capacity.PendingSend(7, 1090.0, done=True),)
    assert (moved.depth, moved.failures) == (3, 1)
    assert FillLevel(asking="a", asking_until=5.0).shift(lambda at: at - 2).asking_until == 3.0
