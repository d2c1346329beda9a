"""Generates a `tidegate.toml` with every key, its description and its default, commented out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from tidegate.durations import Seconds
from tidegate.settings.models import Settings
from tidegate.settings.schema import UNSET, Key, Section, section_of, tree_of

if TYPE_CHECKING:
    from tidegate.apps import App

_HEAD = """\
# The settings of Tidegate. Take the # away before a line to change it; `tidegate config` shows what counts.
# A variable such as TIDEGATE_SERVER_PORT goes before this file, and a flag before both.
# Durations are written as 30s, 5m, 12h or 7d. A secret is best kept elsewhere: env:NAME or file:PATH.
"""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH = 110


def sample(apps: Iterable[App[Any]] = ()) -> str:
    """Returns the text of a settings file. Uncommented, it states the defaults."""
    tree = tree_of(Settings, apps)
    lines = [_HEAD]
    for section in tree.sections():
        if section.path:
            lines += [*_remark(section.about), f"[{'.'.join(map(_bare, section.path))}]"]
        for part in section.parts.values():
            if isinstance(part, Key):
                lines += _lines(part)
        lines += [] if lines[-1] == "" else [""]
        lines += _example(section)
    return "\n".join(lines).rstrip() + "\n"


def _lines(key: Key) -> list[str]:
    name = _bare(key.path[-1])
    if key.default is UNSET:
        return [*_remark(f"{key.about} It must be given.".strip()), f"# {name} = ..."]
    value = "" if key.secret or key.default is None else toml(key.default)
    if not value:
        return [*_remark(key.about), f"# {name} = {chr(34) + 'env:NAME' + chr(34) if key.secret else '...'}"]
    return [*_remark(key.about), f"#{name} = {value}"]


def _example(section: Section) -> list[str]:
    """Returns an example of a section that the user names."""
    if section.others is None:
        return []
    head = ".".join(map(_bare, section.path))
    if not section.parts:  # there are no shared keys, so each table has all of them
        keys = section_of(section.others, (*section.path, "NAME")).parts
        lines = [line for key in keys.values() if isinstance(key, Key) for line in _lines(key)]
        return [f"# [{head}.NAME]", *(re.sub("^#(?! )", "# ", line) for line in lines), ""]
    name = next(iter(section.parts.values()))
    value = toml(name.default) if isinstance(name, Key) else "..."
    return [f"# [{head}.NAME]", f"# {name.path[-1]} = {value}", ""]


def _remark(text: str) -> list[str]:
    return [f"# {line}" for line in wrap(text, _WIDTH)]


def _bare(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def toml(value: Any) -> str:
    """Formats *value* as TOML."""
    if isinstance(value, Enum):
        return toml(value.value)
    if isinstance(value, Seconds):
        return toml(str(value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return f"[{', '.join(map(toml, sorted(value) if isinstance(value, (set, frozenset)) else value))}]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_bare(str(name))} = {toml(item)}" for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
