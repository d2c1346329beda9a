"""Whether a series of samples grows: a line through the lowest points of its second half.

A program takes memory at its start and gives it back in bursts; what is never given back shows in the lowest points.
A step is no leak: what leaks, grows in both parts of the second half.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

HOUR = 3600.0
_BLOCKS = 6  # lowest points of each part
_SURE = 4.0  # standard errors that a slope must be above the limit


class Kind(StrEnum):
    """How much of a slope is too much."""

    SHARE = "share"  # a share of its own level, an hour
    EXACT = "exact"  # none: whole things, of which the lowest number must not rise
    POOL = "pool"  # goes up and down by chance: as below, and a line through its lowest points must not rise at all
    BOUNDED = "bounded"  # goes up and down: its highest point must not rise by more than a quarter
    KEPT = "kept"  # grows on purpose, for days; only shown


@dataclass(frozen=True, slots=True)
class Line:
    """A line by least squares: what it is in the middle, how fast it grows, and how unsure that is, each a second."""

    level: float
    slope: float
    error: float

    @classmethod
    def through(cls, points: Sequence[tuple[float, float]]) -> Line:
        n = len(points)
        at, level = sum(t for t, _ in points) / n, sum(value for _, value in points) / n
        spread = sum((t - at) ** 2 for t, _ in points)
        if n < 3 or not spread:
            return cls(level, 0.0, math.inf)
        slope = sum((t - at) * (value - level) for t, value in points) / spread
        missed = sum((value - level - slope * (t - at)) ** 2 for t, value in points)
        return cls(level, slope, math.sqrt(missed / (n - 2) / spread))

    def rises(self, limit: float) -> bool:
        """Whether it surely grows by more than *limit* a second."""
        return self.slope - _SURE * self.error > limit


@dataclass(frozen=True, slots=True)
class Judged:
    level: float
    per_hour: float  # growth
    grows: bool


def judged(points: Sequence[tuple[float, float]], kind: Kind, share: float = 0.01) -> Judged:
    """What the second half of a series of (seconds, value) says; *share*: of its level, that it may grow in an hour."""
    if len(points) < 12:
        raise ValueError(f"points: {len(points)} are too few to judge; give 12 or more")
    half = points[len(points) // 2 :]
    parts = half[: len(half) // 2], half[len(half) // 2 :]
    line = Line.through(lowest(half, 2 * _BLOCKS))
    return Judged(line.level, line.slope * HOUR, _grows(points, parts, line, kind, share))


def _grows(
    points: Sequence[tuple[float, float]],
    parts: tuple[Sequence[tuple[float, float]], Sequence[tuple[float, float]]],
    line: Line,
    kind: Kind,
    share: float,
) -> bool:
    match kind:
        case Kind.KEPT:
            return False
        case Kind.EXACT:
            before, after = ([value for _, value in part] for part in parts)
            return min(after) > min(before)
        case Kind.BOUNDED:
            return _leaves_its_bounds(points, parts[1])
        case Kind.POOL:
            return _leaves_its_bounds(points, parts[1]) or _rises(line, parts, 0.0)
        case Kind.SHARE:
            return _rises(line, parts, max(line.level, 0.0) * share / HOUR)


def _leaves_its_bounds(points: Sequence[tuple[float, float]], last: Sequence[tuple[float, float]]) -> bool:
    early = points[len(points) // 10 : len(points) // 2]  # what it takes to start is no bound
    return max(value for _, value in last) > 1.25 * max(value for _, value in early)


def _rises(line: Line, parts: Sequence[Sequence[tuple[float, float]]], limit: float) -> bool:
    each = [Line.through(lowest(part, _BLOCKS)) for part in parts]
    return line.rises(limit) and all(part.slope > limit for part in each)


def lowest(points: Sequence[tuple[float, float]], blocks: int) -> list[tuple[float, float]]:
    """The lowest point of each of so many parts; all points when there are fewer."""
    n = min(blocks, len(points))
    edges = [round(number * len(points) / n) for number in range(n + 1)]
    cut = [points[a:b] for a, b in pairwise(edges)]
    return [min(part, key=lambda point: point[1]) for part in cut]
