"""Collects the events of a bus, with assertions that list what was collected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.durations import Duration, seconds
from tidegate.events import Bus, Event, EventKind, Notice, NoticeKind
from tidegate.guard.sinks import fields_of, line
from tidegate.jobs.queue import Queue
from tidegate.jobs.worker import WorkerStats

# Events in an error message: a test that simulates a day may have thousands.
_LISTED = 30


class EventLog:
    """The events of *bus*, oldest first, from now until `close()`.

        events = EventLog()
        spotify = Target("spotify", tuning=Tuning(bus=events.bus))
        ...
        events.assert_one("breaker_state_changed", to="open")
        assert [notice.kind for notice in events.notices()] == ["cap"]

    Criteria are compared with the attributes of the event (target, key, operation, user), its fault (code, status,
    reason), its notice (title, message) and its fields. `fault`, `notice` and unknown names never match.
    """

    def __init__(self, bus: Bus | None = None) -> None:
        self.bus = Bus() if bus is None else bus
        self.events: list[Event] = []
        self.bus.attach(self.events.append)

    def of(self, kind: EventKind | str, **wanted: object) -> list[Event]:
        """Returns the events of one kind that match all of *wanted*."""
        kind = EventKind(kind)
        return [event for event in self.events if event.kind is kind and _matches(event, wanted)]

    def notices(self, kind: NoticeKind | str | None = None) -> list[Notice]:
        """Returns the notices, oldest first."""
        notices = [event.notice for event in self.events if event.notice is not None]
        return notices if kind is None else [notice for notice in notices if notice.kind is NoticeKind(kind)]

    def assert_one(self, kind: EventKind | str, **wanted: object) -> Event:
        """Returns the only matching event. Raises AssertionError with a list of events if there is none or several."""
        matches = self.of(kind, **wanted)
        if len(matches) == 1:
            return matches[0]
        raise AssertionError(f"expected one {_asked(kind, wanted)}, found {len(matches)}.\n{self}")

    def assert_none(self, kind: EventKind | str, **wanted: object) -> None:
        """Raises AssertionError if an event matches."""
        matches = self.of(kind, **wanted)
        if matches:
            raise AssertionError(f"expected no {_asked(kind, wanted)}, found {len(matches)}.\n{self}")

    def clear(self) -> None:
        """Discards the collected events and keeps collecting."""
        self.events.clear()

    def close(self) -> None:
        self.bus.detach(self.events.append)

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(list(self.events))

    def __str__(self) -> str:
        if not self.events:
            return "There was no event at all."
        first = self.events[0].at
        lines = [f"  +{event.at - first:g}s {line(str(event.kind), _shown(event))}" for event in self.events[:_LISTED]]
        if len(self.events) > _LISTED:
            lines.append(f"  and {len(self.events) - _LISTED} more")
        return "\n".join(["There were:", *lines])


def _asked(kind: EventKind | str, wanted: Mapping[str, object]) -> str:
    return line(str(EventKind(kind)), dict(wanted))


def _shown(event: Event) -> dict[str, Any]:
    return {name: value for name, value in fields_of(event).items() if name != "error"}


def _matches(event: Event, wanted: Mapping[str, object]) -> bool:
    return all(_value(event, name) == want for name, want in wanted.items())


def _value(event: Event, name: str) -> object:
    if name in event.fields:
        return event.fields[name]
    for source in (event, event.fault, event.notice):
        value = getattr(source, name, None)
        if value is not None:
            return value
    return None


# -- jobs in virtual time ----------------------------------------------------------------------------------------------


async def work_for(queue: Queue, duration: Duration, concurrency: int = 20, **numbers: Any) -> WorkerStats:
    """Runs a worker for *duration* of the queue's time, then stops it gracefully. Returns its statistics.

    queue = Queue("sqlite:///test.db", clock=clock, inline=True)
    clock.run(work_for(queue, "24h"))
    """
    wanted = seconds(duration, field="duration")
    stop = asyncio.Event()
    worker = asyncio.create_task(queue.arun_worker(concurrency, stop=stop, **numbers))
    await asyncio.wait({worker}, timeout=wanted)  # ends early if the worker fails
    stop.set()
    return await worker
