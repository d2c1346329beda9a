"""Verdicts that must be confirmed before they are believed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable

from tidegate.durations import seconds
from tidegate.faults.codes import CodeBook
from tidegate.faults.confirm import Confirm
from tidegate.faults.fault import Fault, Reach

_MAX_REMEMBERED = 10_000  # places that are remembered, of sightings and of successes each
_IDLE = 86_400.0  # what was not seen for so long is forgotten

ConfirmationKey = tuple[Hashable, str | None]  # a key, and its operation when the code reaches no further


class ConfirmationTracker:
    """Remembers how often each doubtful code of a target was seen, and what has worked. The caller holds the lock."""

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
            raise ValueError(f"confirm: there is no code {unknown[0]!r} in the book of the target's rules")
        self._code_book = code_book
        # How often, when it last counted, when it was last seen; the one not seen for longest comes first.
        self._sightings: OrderedDict[tuple[ConfirmationKey, str], tuple[int, float, float]] = OrderedDict()
        self._worked: OrderedDict[ConfirmationKey, None] = (
            OrderedDict()
        )  # where there was a success, if anybody must know
        self.tracks_success = any(policy.only_worked for policy in self._policies.values())

    def __bool__(self) -> bool:
        return bool(self._policies)

    @property
    def waiting(self) -> bool:
        """Whether something was seen that a success would end."""
        return bool(self._sightings)

    def policy(self, fault: Fault) -> Confirm | None:
        return self._policies.get(fault.code)

    def judged(
        self, policy: Confirm, key: Hashable, operation: str | None, fault: Fault, now: float, *, worked: bool
    ) -> Fault | None:
        """The fault as it is to be treated after this sighting; None when it is a good answer after all."""
        place = (key, operation if fault.reach.rank <= Reach.OPERATION.rank else None)
        times = self._sighted(policy, place, now)
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
        """What was seen of this key, and of this operation, proves nothing any more."""
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
        """Whether a success there is to be told: the first, and every one while that decides who is forgotten."""
        return (key, operation) not in self._worked or len(self._worked) > _MAX_REMEMBERED // 2

    def forget(self, key: Hashable) -> None:
        """A reconnect: everything of the key is forgotten."""
        for place in [place for place in self._sightings if place[0][0] == key]:
            del self._sightings[place]
        for worked in [worked for worked in self._worked if worked[0] == key]:
            del self._worked[worked]

    def _sighted(self, policy: Confirm, place: ConfirmationKey, now: float) -> int:
        self._expire(now)
        times, counted, _ = self._sightings.pop((place, policy.code), (0, 0.0, 0.0))
        if not times or now - counted >= seconds(policy.apart):
            times, counted = times + 1, now
        self._sightings[place, policy.code] = (times, counted, now)
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
        said = {
            place[0] for (place, code), (_, _, seen) in self._sightings.items() if code == policy.code and seen >= since
        }
        return len(said)

    def _as(self, name: str, fault: Fault, word: str) -> Fault:
        return self._code_book[name].fault(
            f"{fault.rule} ({word})", status=fault.status, retry_after=fault.retry_after, detail=fault.detail
        )
