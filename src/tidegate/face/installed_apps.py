"""The applications that are installed, found by their entry points."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import Any

from tidegate.errors import NotFound
from tidegate.face.app import App

GROUP = "tidegate.apps"
_PACKAGE = re.compile(r"[A-Za-z0-9._-]+")


def known() -> dict[str, EntryPoint]:
    """The applications that can be used, by name; none is imported."""
    return {name: each for name, each in _all().items() if not _wants(each)}


def lacking() -> dict[str, str]:
    """The applications that need more than is installed, by name, and what to install."""
    return {name: install for name, each in _all().items() if (install := _wants(each))}


def _all() -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda each: each.name)}


def _wants(each: EntryPoint) -> str:
    """The extras that an entry point names (`feeds = "module:app [feeds]"`), for pip; empty when all is there."""
    extras = "|".join(map(re.escape, each.extras))
    if each.dist is None or not extras:
        return ""
    wanted = [line for line in each.dist.requires or () if re.search(rf"""extra == ['"]({extras})['"]""", line)]
    names = [found[0] for line in wanted if (found := _PACKAGE.match(line))]
    return "" if all(map(_there, names)) else f"{each.dist.name}[{','.join(each.extras)}]"


def _there(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def load(name: str) -> App[Any]:
    """One application; NotFound when there is none of that name, ValueError when it is none."""
    found = known()
    if name not in found and (install := lacking().get(name)):
        raise NotFound(f"the application {name!r} needs more than is installed: pip install '{install}'")
    if name not in found:
        raise NotFound(f"there is no application {name!r}; there are: {', '.join(found) or 'none'}")
    app = found[name].load()
    if not isinstance(app, App) or app.name != name:
        raise ValueError(f"the entry point {name!r} must name an App with that name, not {app!r}")
    return app
