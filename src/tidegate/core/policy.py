"""Frozen numbers that answer a question; no state, no clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core.checks import whole
from tidegate.core.duration import Duration, seconds


class Cooldown:
    """After how many failures of one code in a row a key is disabled, and for how long.

        Cooldown({"not_found": (3, "48h"), "gone": (1, "72h")})

    *same* names codes that are counted as another one: with {"timeout": "network"} both make one run.
    """

    __slots__ = ("rests", "same")

    def __init__(self, rests: Mapping[str, tuple[int, Duration]], *, same: Mapping[str, str] | None = None) -> None:
        if not rests:
            raise ValueError("Cooldown: give at least one code")
        self.rests: Mapping[str, tuple[int, float]] = {code: _rest(code, row) for code, row in rests.items()}
        self.same: Mapping[str, str] = dict(same or {})
        for code, counted in self.same.items():
            if code in self.rests or counted not in self.rests:
                raise ValueError(
                    f"Cooldown.same: {code!r} as {counted!r} is not allowed; give it as a code with a rest"
                )

    def counted(self, code: str) -> str:
        """The code under which a failure is counted."""
        return self.same.get(code, code)

    def governs(self, code: str) -> bool:
        """Whether failures of this code end in a rest."""
        return self.counted(code) in self.rests

    @classmethod
    def feeds(cls) -> Cooldown:
        """The numbers of the feed poller, which knows one type for every 5xx and one for every kind of lost network."""
        return cls({
            "forbidden": (5, "24h"), "not_found": (3, "48h"), "gone": (1, "72h"),
            "upstream_failure": (10, "6h"), "network": (10, "12h"), "parse_error": (5, "24h"),
        }, same={
            "overloaded": "upstream_failure", "not_supported": "upstream_failure",
            "timeout": "network", "cut_short": "network", "bad_answer": "parse_error",
        })  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cooldown) and (self.rests, self.same) == (other.rests, other.same)

    def __hash__(self) -> int:
        return hash((tuple(sorted(self.rests.items())), tuple(sorted(self.same.items()))))

    def __repr__(self) -> str:
        return f"Cooldown({dict(self.rests)!r}, same={dict(self.same)!r})"


def _rest(code: str, row: object) -> tuple[int, float]:
    if not isinstance(row, tuple) or len(row) != 2:
        raise ValueError(
            f"Cooldown[{code!r}]: {row!r} is not allowed; give (failures in a row, rest), as in (3, '48h')"
        )
    field = f"Cooldown[{code!r}]"
    return whole(row[0], field=field), seconds(row[1], field=field, minimum=0.001)


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
