"""Frozen numbers that answer a question; no state, no clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidegate.durations import Duration, seconds
from tidegate.validation import whole


@dataclass(frozen=True, slots=True)
class Confirm:
    """A verdict that is not believed at once, because the service is known to say it for faults of its own.

    Sightings of *code* are counted for each key; for each operation of a key when the code reaches no further. One
    counts when it comes at least *apart* after the last that counted. Before there are *times* of them the fault is
    treated as *until_then*; from the one that makes *times* on it is believed: as *becomes* if that is given, as a good
    answer with *good*, else as it is. A success of the same key (and operation) ends the count; an answer that only
    *good* made good does not, so what was believed once stays believed until the service says something else.

    A *probe* (a call without side effects, handed the key) decides at once instead: if it fails too the code is
    believed, if it succeeds it is not. With *unless_worked*, a target that has ever answered well keeps *until_then*
    for good. With *only_worked*, only a key (and operation) that has answered well before is doubted; any other is
    believed at the first sighting. With *fewer_than*, so many keys saying the same within *within* mean that the
    service is at fault: as long as that is so, nobody is believed.
    """

    code: str
    times: int = 2
    apart: Duration = "30s"
    probe: Callable[[Any], Any] | None = None
    becomes: str | None = None
    good: bool = False
    until_then: str = "upstream_failure"
    unless_worked: bool = False
    only_worked: bool = False
    fewer_than: int | None = None
    within: Duration = "5m"

    def __post_init__(self) -> None:
        whole(self.times, field="Confirm.times")
        if self.probe is not None and not callable(self.probe):
            raise TypeError(f"Confirm.probe: {self.probe!r:.60} cannot be called; give a function of the key, or None")
        if self.fewer_than is not None:
            whole(self.fewer_than, field="Confirm.fewer_than", minimum=2)
        if self.good and self.becomes is not None:
            raise ValueError(f"Confirm.becomes: {self.becomes!r} is not allowed with good; give one of them")
        if self.unless_worked and self.only_worked:
            raise ValueError("Confirm.only_worked: it is not allowed with unless_worked; give one of them")
        object.__setattr__(self, "apart", seconds(self.apart, field="Confirm.apart"))
        object.__setattr__(self, "within", seconds(self.within, field="Confirm.within"))
