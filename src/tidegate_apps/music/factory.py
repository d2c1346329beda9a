"""Which providers there are: those of the entry points, ours among them. A seventh is one file and one entry point."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from tidegate_apps.music.contract import Connection, Provider, Surroundings
from tidegate_apps.music.kind import Kind

GROUP = "tidegate_apps.music.providers"
_log = logging.getLogger("tidegate.music")


@cache
def kinds() -> Mapping[str, Kind]:
    """By name, those that are synced most often first. One that cannot be loaded is left out, and the log says why."""
    return loaded(entry_points(group=GROUP))


def loaded(points: Iterable[EntryPoint]) -> Mapping[str, Kind]:
    """The kinds that *points* name; of two with one name, that of Tidegate itself, else the first."""
    found: dict[str, Kind] = {}
    for point in sorted(points, key=lambda each: (not each.value.startswith("tidegate_apps."), each.value)):
        kind = _kind(point)
        if kind is None:
            continue
        if kind.name in found:
            _log.error("the provider %r of %s is left out: its name is taken", kind.name, point.value)
            continue
        found[kind.name] = kind
    return dict(sorted(found.items(), key=lambda each: (each[1].every, each[1].title)))


def made(kind: Kind, connection: Connection, surroundings: Surroundings) -> Provider | None:
    """The provider of *connection*; None when something that it needs has not been entered."""
    return None if kind.missing(connection.values) else kind.make(connection, surroundings)


def _kind(point: EntryPoint) -> Kind | None:
    try:
        kind = point.load()
    except Exception:  # somebody else's module: it must not stop the others
        _log.exception("the provider %s cannot be loaded", point.value)
        return None
    if not isinstance(kind, Kind):
        _log.error("the provider %s is no Kind; give the name of one", point.value)
        return None
    return kind
