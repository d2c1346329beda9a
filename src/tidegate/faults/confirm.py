"""The policy of verdicts that must be confirmed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidegate.durations import Duration, seconds
from tidegate.validation import parameters, whole


@dataclass(frozen=True, slots=True)
class Confirm:
    """A verdict that needs confirmation, because the service is known to report it for its own faults.

    Sightings of *code* are counted per key, or per operation of a key if the code reaches no further. A sighting counts
    if it comes at least *apart* after the last one that counted. With fewer than *times* sightings the fault is treated
    as *until_then*. From then on it is confirmed: as *becomes* if given, as a good response with *good*, else
    unchanged. A success of the same key (and operation) resets the count. A response that counts as a success only
    because of *good* does not reset it, so a confirmed verdict stays until the service responds differently.

    A *probe* (a call without side effects that gets the key) decides immediately instead: if it fails too, the code is
    confirmed. With *unless_worked*, a target that ever succeeded always keeps *until_then*. With *only_worked*, only a
    key (and operation) that succeeded before needs confirmation. With *fewer_than*, that number of keys with the same
    code within *within* means that the service is at fault, and the code is not confirmed for any of them.
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
        if self.probe is not None:
            if not callable(self.probe):
                raise TypeError(f"Confirm.probe must be a function of the key or None, got {self.probe!r:.60}")
            parameters(self.probe, "key", field="Confirm.probe")
        if self.fewer_than is not None:
            whole(self.fewer_than, field="Confirm.fewer_than", minimum=2)
        if self.good and self.becomes is not None:
            raise ValueError(f"Confirm.becomes: {self.becomes!r} is not allowed with good; give one of them")
        if self.unless_worked and self.only_worked:
            raise ValueError("Confirm.only_worked: it is not allowed with unless_worked; give one of them")
        object.__setattr__(self, "apart", seconds(self.apart, field="Confirm.apart"))
        object.__setattr__(self, "within", seconds(self.within, field="Confirm.within"))
