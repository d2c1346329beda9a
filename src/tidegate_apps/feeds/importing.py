"""Lists of feeds go in piece by piece, so that the way can be shown, and an end in the middle loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tidegate_apps.feeds.source import Source, Wanted
from tidegate_apps.feeds.sources import Sources

_PIECE = 500


@dataclass(frozen=True, slots=True)
class Imported:
    """What came of a list."""

    added: int
    there: int  # were there already
    refused: int  # have no address that could be one


def add_all(
    sources: Sources,
    wanted: Sequence[Wanted],
    refused: int,
    by: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Imported:
    """Adds those that are not there; *progress* hears how many were looked at, of how many."""
    added = 0
    progress(0, len(wanted))
    for start in range(0, len(wanted), _PIECE):
        piece = wanted[start : start + _PIECE]
        added += sum(made is not None for made in sources.add_many(piece, by, place=start, of=len(wanted)))
        progress(start + len(piece), len(wanted))
    return Imported(added, len(wanted) - added, refused)


def every(sources: Sources) -> Iterator[Source]:
    """All sources, page by page."""
    after = 0
    while rows := sources.listed(after, _PIECE):
        yield from rows
        after = rows[-1].id
