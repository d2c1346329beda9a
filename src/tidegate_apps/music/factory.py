"""Which providers there are: those of the entry points, ours among them. A seventh is one file and one entry point."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from tidegate_apps.music.contract import Provider, ProviderConnection, ProviderContext
from tidegate_apps.music.kind import ProviderKind

GROUP = "tidegate_apps.music.providers"
_log = logging.getLogger("tidegate.music")


@cache
def kinds() -> Mapping[str, ProviderKind]:
    """By name, those that are synced most often first. One that cannot be loaded is left out, and the log says why."""
    return load_kinds(entry_points(group=GROUP))


def load_kinds(points: Iterable[EntryPoint]) -> Mapping[str, ProviderKind]:
    """The kinds that *points* name; of two with one name, that of Tidegate itself, else the first."""
    found: dict[str, ProviderKind] = {}
    for point in sorted(points, key=lambda each: (not each.value.startswith("tidegate_apps."), each.value)):
        kind = _kind(point)
        if kind is None:
            continue
        if kind.name in found:
            _log.error("the provider %r of %s is left out: its name is taken", kind.name, point.value)
            continue
        found[kind.name] = kind
    return dict(sorted(found.items(), key=lambda each: (each[1].every, each[1].title)))


def make_provider(kind: ProviderKind, connection: ProviderConnection, context: ProviderContext) -> Provider | None:
    """The provider of *connection*; None when something that it needs has not been entered."""
    return None if kind.missing(connection.values) else kind.make(connection, context)


def _kind(point: EntryPoint) -> ProviderKind | None:
    try:
        kind = point.load()
    except Exception:  # somebody else's module: it must not stop the others
        _log.exception("the provider %s cannot be loaded", point.value)
        return None
    if not isinstance(kind, ProviderKind):
        _log.error("the provider %s is no Kind; give the name of one", point.value)
        return None
    return kind
