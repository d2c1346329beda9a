"""Lists of feeds go in piece by piece, so that the way can be shown, and an end in the middle loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tidegate_apps.feeds.source import Source, SourceRequest
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
    requests: Sequence[SourceRequest],
    refused: int,
    by: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Imported:
    """Adds those that are not there; *progress* hears how many were looked at, of how many."""
    added = 0
    progress(0, len(requests))
    for start in range(0, len(requests), _PIECE):
        piece = requests[start : start + _PIECE]
        added += sum(made is not None for made in sources.add_many(piece, by, place=start, of=len(requests)))
        progress(start + len(piece), len(requests))
    return Imported(added, len(requests) - added, refused)


def every(sources: Sources) -> Iterator[Source]:
    """All sources, page by page."""
    after = 0
    while rows := sources.list_sources(after, _PIECE):
        yield from rows
        after = rows[-1].id
