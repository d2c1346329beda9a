"""Confirmation of verdicts that a service may report by mistake."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable

from tidegate.durations import seconds
from tidegate.faults.codes import CodeBook
from tidegate.faults.confirm import Confirm
from tidegate.faults.fault import Fault, Reach
from tidegate.validation import did_you_mean

_MAX_REMEMBERED = 10_000  # entries, for sightings and for successes each
_IDLE = 86_400.0  # seconds after which an old sighting expires

ConfirmationKey = tuple[Hashable, str | None]  # a key, and its operation if the code reaches no further


class ConfirmationTracker:
    """Counts the sightings of each unconfirmed code of a target, and its successes. The caller holds the lock."""

    __slots__ = ("_code_book", "_policies", "_sightings", "_worked", "tracks_success")

    def __init__(self, policies: Iterable[Confirm], code_book: CodeBook) -> None:
        self._policies = {policy.code: policy for policy in policies}
        unknown = [
            code
            for p in self._policies.values()
            for code in (p.code, p.becomes, p.until_then)
            if code and code not in code_book
        ]
        if unknown:
            raise ValueError(
                f"confirm: the target's rules have no code {unknown[0]!r}{did_you_mean(unknown[0], code_book)}"
            )
        self._code_book = code_book
        # Count, time of the last one that counted, time of the last one. Least recently seen first.
        self._sightings: OrderedDict[tuple[ConfirmationKey, str], tuple[int, float, float]] = OrderedDict()
        # Keys and operations with a success, if a policy needs them.
        self._worked: OrderedDict[ConfirmationKey, None] = OrderedDict()
        self.tracks_success = any(policy.only_worked for policy in self._policies.values())

    def __bool__(self) -> bool:
        return bool(self._policies)

    @property
    def waiting(self) -> bool:
        """Whether there is a sighting that a success would end."""
        return bool(self._sightings)

    def policy(self, fault: Fault) -> Confirm | None:
        return self._policies.get(fault.code)

    def judged(
        self, policy: Confirm, key: Hashable, operation: str | None, fault: Fault, now: float, *, worked: bool
    ) -> Fault | None:
        """Returns the fault to record after this sighting, or None if it is a good response after all."""
        confirmation_key = (key, operation if fault.reach.rank <= Reach.OPERATION.rank else None)
        times = self._sighted(policy, confirmation_key, now)
        if policy.unless_worked and worked:
            return self.unconfirmed(policy, fault)
        if policy.fewer_than is not None and self._keys_saying(policy, now) >= policy.fewer_than:
            return self.unconfirmed(policy, fault)
        if policy.only_worked and (key, operation) not in self._worked:
            return self.confirmed(policy, fault)
        return self.confirmed(policy, fault) if times >= policy.times else self.unconfirmed(policy, fault)

    def confirmed(self, policy: Confirm, fault: Fault) -> Fault | None:
        if policy.good:
            return None
        return fault if policy.becomes is None else self._as(policy.becomes, fault, "confirmed")

    def unconfirmed(self, policy: Confirm, fault: Fault) -> Fault:
        return self._as(policy.until_then, fault, "unconfirmed")

    def record_success(self, key: Hashable, operation: str | None, now: float) -> None:
        """Drops the sightings of this key and operation."""
        self._expire(now)
        for code in self._policies:
            self._sightings.pop(((key, None), code), None)
            self._sightings.pop(((key, operation), code), None)
        if self.tracks_success:
            self._worked[key, operation] = None
            self._worked.move_to_end((key, operation))
            if len(self._worked) > _MAX_REMEMBERED:
                self._worked.popitem(last=False)

    def must_hear(self, key: Hashable, operation: str | None) -> bool:
        """Whether to record a success: the first one, and all of them when entries may be evicted."""
        return (key, operation) not in self._worked or len(self._worked) > _MAX_REMEMBERED // 2

    def forget(self, key: Hashable) -> None:
        """Forgets all state of the key, for example after the user reconnects."""
        for (observed_key, operation), code in [*self._sightings]:
            if observed_key == key:
                del self._sightings[(observed_key, operation), code]
        for working_key, operation in [*self._worked]:
            if working_key == key:
                del self._worked[working_key, operation]

    def _sighted(self, policy: Confirm, confirmation_key: ConfirmationKey, now: float) -> int:
        self._expire(now)
        times, counted, _ = self._sightings.pop((confirmation_key, policy.code), (0, 0.0, 0.0))
        if not times or now - counted >= seconds(policy.apart):
            times, counted = times + 1, now
        self._sightings[confirmation_key, policy.code] = (times, counted, now)
        if len(self._sightings) > _MAX_REMEMBERED:
            self._sightings.popitem(last=False)
        return times

    def _expire(self, now: float) -> None:
        while self._sightings:
            oldest = next(iter(self._sightings))
            if now - self._sightings[oldest][2] <= _IDLE:
                return
            del self._sightings[oldest]

    def _keys_saying(self, policy: Confirm, now: float) -> int:
        since = now - seconds(policy.within)
        keys = {
            place[0] for (place, code), (_, _, seen) in self._sightings.items() if code == policy.code and seen >= since
        }
        return len(keys)

    def _as(self, name: str, fault: Fault, word: str) -> Fault:
        return self._code_book[name].fault(
            f"{fault.rule} ({word})", status=fault.status, retry_after=fault.retry_after, detail=fault.detail
        )
