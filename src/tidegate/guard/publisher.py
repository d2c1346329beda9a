"""Events and notices of one target, and the texts of the notices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from tidegate.clock import Clock
from tidegate.events import Bus, Event, EventKind, Notice, NoticeKind
from tidegate.faults.fault import Fault
from tidegate.guard import cooldown
from tidegate.guard.key_health import Admission, FailureChange, Notified, RecoveryChange
from tidegate.logs import logger

# -- notices --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a notice: a key, or one operation of it, since its episode began."""

    target: str
    key: Hashable
    operation: str | None
    episode: float
    title: str = ""  # the name of the target for users, if it differs

    @property
    def called(self) -> str:
        return self.title or self.target


def fatal(about: Subject, fault: Fault) -> Notice:
    return _notice(NoticeKind.FATAL, about, f"{about.called} needs your attention", fault, fault.advice)


def cap(about: Subject, fault: Fault) -> Notice:
    advice = "It is still tried, at the longest interval. If this stays, check the service."
    return _notice(NoticeKind.CAP, about, f"{about.called} has been failing for a while", fault, advice)


def resting(about: Subject, fault: Fault) -> Notice:
    advice = "It failed too often, so it is left alone for a while; then one call finds out whether it is well again."
    return _notice(NoticeKind.DISABLED, about, f"{about.called} is resting", fault, advice)


def recovered(about: Subject) -> Notice:
    return Notice(
        kind=NoticeKind.RECOVERED,
        target=about.target,
        key=about.key,
        operation=about.operation,
        episode=about.episode,
        title=f"{about.called} works again",
        message="The service answers again; there is nothing more to do.",
    )


def of(kind: NoticeKind, about: Subject, fault: Fault | None) -> Notice:
    """Returns the notice of a kind. *fault* is its cause, except for a recovery."""
    return recovered(about) if fault is None else _OF[kind](about, fault)


def own_link(target: str, episode: float) -> Notice:
    return Notice(
        kind=NoticeKind.OWN_LINK,
        target=target,
        episode=episode,
        title="Our own network seems to be down",
        message="Most services fail at the same time, so none of them is blamed. Check the connection of this machine.",
    )


def _notice(kind: NoticeKind, about: Subject, title: str, fault: Fault, advice: str) -> Notice:
    return Notice(
        kind=kind,
        target=about.target,
        key=about.key,
        operation=about.operation,
        episode=about.episode,
        title=title,
        message=f"{fault.message} {advice}",
        advice=advice,
        code=fault.code,
    )


_OF = {NoticeKind.FATAL: fatal, NoticeKind.CAP: cap, NoticeKind.DISABLED: resting}


# -- publisher ------------------------------------------------------------------------------------------------------

_log = logger("tidegate.target")


class TargetPublisher:
    """Publishes the events and notices of one target on the bus."""

    def __init__(
        self, target: str, user: Callable[[Hashable], Hashable], clock: Clock, bus: Bus, title: str = ""
    ) -> None:
        self._target, self._title = target, title
        self._user = user
        self._clock = clock
        self._bus = bus
        # the destination of notices; the store first, if there is one
        self.notify: Callable[[Event], object] = bus.publish
        # An episode is identified by its start. The offset is fixed, so both ends agree whatever the wall clock does.
        self._to_episode = clock.now() - clock.monotonic()

    def publish(
        self,
        kind: EventKind,
        key: Hashable = None,
        operation: str | None = None,
        *,
        fault: Fault | None = None,
        fields: Mapping[str, object] | None = None,
    ) -> None:
        event = Event(
            kind=kind,
            at=self._clock.now(),
            target=self._target,
            key=key,
            operation=operation,
            user=self._user_of(key),
            fault=fault,
            fields=fields or {},
        )
        self._bus.publish(event)

    def publish_failure(self, call: Admission, fault: Fault, changes: list[FailureChange]) -> None:
        """Publishes what a recorded failure changed."""
        for change in changes:
            about = self._subject(call.key, change.operation, change.since)
            if change.rest is not None:
                fields = _disabled_fields(change.rest, change.failures)
                self.publish(EventKind.TARGET_DISABLED, call.key, fault=fault, fields=fields)
            if change.news & Notified.FATAL:
                self.publish(EventKind.TARGET_FATAL, call.key, change.operation, fault=fault)
                self._notify(fatal(about, fault))
            if change.news & Notified.CAP:
                self._notify(cap(about, fault))

    def publish_recovery(self, call: Admission, changes: list[RecoveryChange]) -> None:
        """Publishes what a success ended."""
        for change in changes:
            if change.enabled:
                self.publish(EventKind.TARGET_ENABLED, call.key, fields={"by": cooldown.AUTO})
            if change.resolved:
                # No notice: the same fault may return with the next call, and its notice is sent once a day.
                self.publish(EventKind.TARGET_RECOVERED, call.key, change.operation, fields={"held": False})
            if change.told:
                self.publish(EventKind.TARGET_RECOVERED, call.key, change.operation)
                self._notify(recovered(self._subject(call.key, change.operation, change.since)))

    def own_link(self, *, lost: bool) -> None:
        self.publish(EventKind.OWN_LINK_LOST if lost else EventKind.OWN_LINK_BACK)
        if lost:
            self._notify(own_link(self._target, self._clock.now()))

    def _subject(self, key: Hashable, operation: str | None, since: float) -> Subject:
        return Subject(self._target, key, operation, since + self._to_episode, self._title)

    def _notify(self, notice: Notice) -> None:
        self.notify(
            Event(
                kind=EventKind.NOTICE,
                at=self._clock.now(),
                target=self._target,
                key=notice.key,
                operation=notice.operation,
                user=self._user_of(notice.key),
                notice=notice,
            )
        )

    def _user_of(self, key: Hashable) -> Hashable:
        if key is None:
            return None
        try:
            user = self._user(key)
            hash(user)
        except Exception:  # the user's function; its failure must not replace the one being published
            _log.exception("user_not_found target=%s", self._target)
            return None
        return user


def _disabled_fields(rest: cooldown.CooldownState, failures: int) -> Mapping[str, object]:
    return {"reason": rest.reason, "by": rest.by, "run_length": rest.failing_count, "consecutive_errors": failures}
