"""What one target tells the world: its events and its notices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from tidegate.core.events import Event, EventKind, Notice
from tidegate.core.fault import Fault
from tidegate.core.logs import logger
from tidegate.machine import cooldown as resting
from tidegate.machine.keystate import Notified
from tidegate.runtime import notices
from tidegate.runtime.admission import Admission
from tidegate.runtime.bus import Bus
from tidegate.runtime.changes import FailureChange, RecoveryChange
from tidegate.runtime.clock import Clock
from tidegate.runtime.notices import Subject

_log = logger("tidegate.target")


class TargetPublisher:
    """Publishes on the bus, in the words of one target."""

    def __init__(
        self, target: str, user: Callable[[Hashable], Hashable], clock: Clock, bus: Bus, title: str = ""
    ) -> None:
        self._target, self._title = target, title
        self._user = user
        self._clock = clock
        self._bus = bus
        self.notify: Callable[[Event], object] = bus.publish  # where notices go; to the store first, if there is one
        # Episodes are named by when they began; both ends must say the same, whatever the wall clock did in between.
        self._to_episode = clock.now() - clock.monotonic()

    def publish(
        self,
        kind: EventKind,
        key: Hashable = None,
        operation: str | None = None,
        *,
        fault: Fault | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        event = Event(
            kind=kind, at=self._clock.now(), target=self._target, key=key, operation=operation,
            user=self._user_of(key), fault=fault, fields=fields or {},
        )  # fmt: skip
        self._bus.publish(event)

    def publish_failure(self, call: Admission, fault: Fault, changes: list[FailureChange]) -> None:
        """What a recorded failure changed."""
        for change in changes:
            about = self._subject(call.key, change.operation, change.since)
            if change.rest is not None:
                fields = _disabled_fields(change.rest, change.failures)
                self.publish(EventKind.TARGET_DISABLED, call.key, fault=fault, fields=fields)
            if change.news & Notified.FATAL:
                self.publish(EventKind.TARGET_FATAL, call.key, change.operation, fault=fault)
                self._notify(notices.fatal(about, fault))
            if change.news & Notified.CAP:
                self._notify(notices.cap(about, fault))

    def publish_recovery(self, call: Admission, changes: list[RecoveryChange]) -> None:
        """What a success ended."""
        for change in changes:
            if change.enabled:
                self.publish(EventKind.TARGET_ENABLED, call.key, fields={"by": resting.AUTO})
            if change.resolved:
                # No notice: the same fault may come back with the next call, and is told only once a day.
                self.publish(EventKind.TARGET_RECOVERED, call.key, change.operation, fields={"held": False})
            if change.told:
                self.publish(EventKind.TARGET_RECOVERED, call.key, change.operation)
                self._notify(notices.recovered(self._subject(call.key, change.operation, change.since)))

    def own_link(self, *, lost: bool) -> None:
        self.publish(EventKind.OWN_LINK_LOST if lost else EventKind.OWN_LINK_BACK)
        if lost:
            self._notify(notices.own_link(self._target, self._clock.now()))

    def _subject(self, key: Hashable, operation: str | None, since: float) -> Subject:
        return Subject(self._target, key, operation, since + self._to_episode, self._title)

    def _notify(self, notice: Notice) -> None:
        self.notify(Event(
            kind=EventKind.NOTICE, at=self._clock.now(), target=self._target, key=notice.key,
            operation=notice.operation, user=self._user_of(notice.key), notice=notice,
        ))  # fmt: skip

    def _user_of(self, key: Hashable) -> Hashable:
        if key is None:
            return None
        try:
            user = self._user(key)
            hash(user)
        except Exception:  # a function of the user's; its failure must not replace the one that is being told
            _log.exception("user_not_found target=%s", self._target)
            return None
        return user


def _disabled_fields(rest: resting.CooldownState, failures: int) -> Mapping[str, Any]:
    return {"reason": rest.reason, "by": rest.by, "run_length": rest.failing_count, "consecutive_errors": failures}
