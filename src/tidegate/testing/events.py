"""Collects the events of a bus, and says clearly what there was when a test expected something else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.durations import Duration, seconds
from tidegate.events import Bus, Event, EventKind, Notice, NoticeKind
from tidegate.guard.sinks import fields_of, line
from tidegate.jobs.queue import Queue
from tidegate.jobs.worker import WorkerStats

# Most events that a message lists: a test that ran for a day may have thousands.
_LISTED = 30


class EventLog:
    """The events of *bus*, oldest first, from now until `close()`.

        events = EventLog()
        spotify = Target("spotify", tuning=Tuning(bus=events.bus))
        ...
        events.assert_one("breaker_state_changed", to="open")
        assert [notice.kind for notice in events.notices()] == ["cap"]

    What is asked for is matched against the attributes of the event (target, key, operation, user), its fault (code,
    status, reason), its notice (title, message) and its fields. `fault`, `notice` and a name that an event does not
    have never match.
    """

    def __init__(self, bus: Bus | None = None) -> None:
        self.bus = Bus() if bus is None else bus
        self.events: list[Event] = []
        self.bus.attach(self.events.append)

    def of(self, kind: EventKind | str, **wanted: object) -> list[Event]:
        """The events of one kind that match all of *wanted*."""
        kind = EventKind(kind)
        return [event for event in self.events if event.kind is kind and _matches(event, wanted)]

    def notices(self, kind: NoticeKind | str | None = None) -> list[Notice]:
        """What people were told, oldest first."""
        found = [event.notice for event in self.events if event.notice is not None]
        return found if kind is None else [notice for notice in found if notice.kind is NoticeKind(kind)]

    def assert_one(self, kind: EventKind | str, **wanted: object) -> Event:
        """The one event that matches; AssertionError lists what there was when there is none or more than one."""
        found = self.of(kind, **wanted)
        if len(found) == 1:
            return found[0]
        raise AssertionError(f"expected one {_asked(kind, wanted)}, found {len(found)}.\n{self}")

    def assert_none(self, kind: EventKind | str, **wanted: object) -> None:
        """AssertionError when an event matches."""
        found = self.of(kind, **wanted)
        if found:
            raise AssertionError(f"expected no {_asked(kind, wanted)}, found {len(found)}.\n{self}")

    def clear(self) -> None:
        """Forgets what was collected; what follows is collected on."""
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
        found = getattr(source, name, None)
        if found is not None:
            return found
    return None


# Durable jobs on virtual time: a worker that works for a day, in seconds.


async def work_for(queue: Queue, duration: Duration, concurrency: int = 20, **numbers: Any) -> WorkerStats:
    """Runs a worker for *duration* of the queue's own time, then stops it gently; returns what it did.

    queue = Queue("sqlite:///test.db", clock=clock, inline=True)
    clock.run(work_for(queue, "24h"))
    """
    wanted = seconds(duration, field="duration")
    stop = asyncio.Event()
    worker = asyncio.create_task(queue.arun_worker(concurrency, stop=stop, **numbers))
    await asyncio.wait({worker}, timeout=wanted)  # a worker that breaks must not be waited for all day
    stop.set()
    return await worker
