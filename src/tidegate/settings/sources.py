"""Reads values from the file, the environment variables and the flags. Validates only the names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from tidegate.settings.location import FILE_VARIABLE, LINK_VALUE, SettingsFile, SettingsProblem, meant
from tidegate.settings.schema import PREFIX, Key, Path, Section, ValueShape, section_of, variables_of
from tidegate.validation import similar

# Names with our prefix that are not keys.
OTHERS = frozenset({FILE_VARIABLE})

# Variables that Kubernetes sets in every container for a service whose name begins with "tidegate".
_LINK_NAME = re.compile(r"TIDEGATE(_\w+)?_(SERVICE_(HOST|PORT)(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A value and its origin."""

    key: Key
    value: Any
    origin: str  # "tidegate.toml", "TIDEGATE_SERVER_PORT", "--port"
    where: str  # the origin, with the key if the origin does not name it
    folder: FilePath = FilePath()  # the base of a relative path
    named: str = ""  # env:NAME or file:PATH, if the value was a reference


Found = dict[Path, Given]


def from_file(tree: Section, file: SettingsFile, problems: list[SettingsProblem]) -> Found:
    values: Found = {}
    for key, value in _walk(tree, tree, file.content, file.shown, problems):
        values[key.path] = Given(
            key=key, value=value, origin=file.shown, where=f"{file.shown}: {key.name}", folder=file.folder
        )
    return values


def _walk(
    tree: Section, section: Section, table: Mapping[str, object], file: str, problems: list[SettingsProblem]
) -> Iterator[tuple[Key, Any]]:
    for name, value in table.items():
        path = (*section.path, name)
        part = section.parts.get(name)
        if part is None and section.others is not None and isinstance(value, Mapping):
            part = section_of(section.others, path)
        where = f"{file}: {'.'.join(path)}"
        match part:
            case None:
                problems.append(
                    SettingsProblem(where, _unknown(tree, section, name, is_table=isinstance(value, Mapping)))
                )
            case Key():
                yield part, value
            case Section() if isinstance(value, Mapping):
                yield from _walk(tree, part, value, file, problems)
            case Section():
                problems.append(
                    SettingsProblem(where, f"it is a section, not a value; write [{'.'.join(path)}] above its keys")
                )


def _unknown(tree: Section, section: Section, name: str, *, is_table: bool) -> str:
    what = "section" if is_table else "key"
    near = meant(name, section.parts)
    if near:
        return f"unknown {what}{near}"
    if is_table and not section.path:
        return "unknown section, and no application of that name is installed; install it, or remove the section"
    elsewhere = {key.path[-1]: key.name for key in reversed([*tree.keys()])}
    close = similar(name, elsewhere)
    if close and not is_table:
        return f"unknown {what}; did you mean {elsewhere[close]}?"
    return f"unknown {what}; " + (f"choose one of: {', '.join(section.parts)}" if section.parts else "remove it")


def from_variables(tree: Section, environ: Mapping[str, str], problems: list[SettingsProblem]) -> Found:
    """Reads variables. The name with our prefix wins over an application's aliases. An empty value is ignored."""
    known = variables_of(tree)
    values: Found = {}
    for variable, key in known.items():
        text = environ.get(variable, "")
        if not text or key.path in values or (variable.startswith(PREFIX) and LINK_VALUE.fullmatch(text)):
            continue
        try:
            value = _read(key, text)
        except ValueError:
            problems.append(
                SettingsProblem(
                    variable, f"{'it' if key.secret else repr(text)[:60]} is not valid JSON; give {_SHAPES[key.shape]}"
                )
            )
            continue
        values[key.path] = Given(key=key, value=value, origin=variable, where=variable)
    for variable, text in sorted(environ.items()):
        if (
            variable.startswith(PREFIX)
            and variable not in known
            and variable not in OTHERS
            and not _linked(variable, text)
        ):
            near = meant(variable, known, "; unset it", prefix=PREFIX)
            problems.append(SettingsProblem(variable, f"unknown setting{near}"))
    return values


def from_flags(tree: Section, flags: Mapping[str, object]) -> Found:
    """Reads flags by key. None means not given. A flag is named like the last part of its key."""
    keys = {key.name: key for key in tree.keys()}  # noqa: SIM118 - not a mapping
    values: Found = {}
    for name, value in flags.items():
        if name not in keys:
            raise ValueError(f"flags: unknown key {name!r}{meant(name, keys)}")
        if value is not None:
            key = keys[name]
            flag = "--" + key.path[-1].replace("_", "-")
            text = _read(key, value) if isinstance(value, str) else value
            values[key.path] = Given(key=key, value=text, origin=flag, where=flag)
    return values


_SHAPES = {
    ValueShape.LIST: 'names with commas between them, or ["one", "two"]',
    ValueShape.JSON: 'a table such as {"name": "value"}',
}


def _read(key: Key, text: str) -> Any:
    if key.shape is ValueShape.JSON or (key.shape is ValueShape.LIST and text.lstrip().startswith("[")):
        return json.loads(text)
    if key.shape is ValueShape.LIST:
        return [item.strip() for item in text.split(",") if item.strip()]
    return text


def _linked(variable: str, text: str) -> bool:
    return bool(_LINK_NAME.fullmatch(variable) or (variable.endswith("_PORT") and LINK_VALUE.fullmatch(text)))
