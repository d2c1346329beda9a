"""Puts the settings together: flags before variables before the file before defaults; every mistake at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from tidegate.apps import lacking
from tidegate.errors import NotFound
from tidegate.settings.effective import Effective, addresses, describe_error, effective, secret_files
from tidegate.settings.location import (
    SettingsError,
    SettingsFile,
    SettingsProblem,
    find,
    is_reference,
    meant,
    resolve_reference,
)
from tidegate.settings.models import ALL, Settings
from tidegate.settings.schema import PREFIX, Path, Section, tree_of
from tidegate.settings.sources import Found, Given, from_file, from_flags, from_variables

if TYPE_CHECKING:
    from tidegate.apps import App

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, checked and frozen, and where each of them comes from."""

    values: Settings
    apps: tuple[str, ...]  # the applications that are to run
    file: FilePath | None  # the file that was read
    _of_apps: Mapping[str, Any] = field(repr=False)
    _tree: Section = field(repr=False)
    _given: Found = field(repr=False)

    def app(self, name: str) -> Any:
        """The settings of an application, None when it has none; NotFound when it is not to run."""
        if name not in self._of_apps:
            raise NotFound(f"the application {name!r} is not to run; apps has: {', '.join(self.apps) or 'none'}")
        return self._of_apps[name]

    def effective(self) -> list[Effective]:
        """Every value that counts, with its origin; secrets are masked."""
        return effective(self._tree, self.values, self._of_apps, self._given)

    def secret_files(self) -> dict[FilePath, str]:
        """The files that hold secrets, and what each of them is."""
        return secret_files(self._given, self.file)

    def addresses(self) -> dict[str, str]:
        """The addresses of services among the values of the applications that run, by key."""
        return addresses(self._tree, self.values, self._of_apps)


def load(
    *,
    file: str | FilePath | None = None,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    apps: Iterable[App[Any]] = (),
    broken: Mapping[str, str] | None = None,
) -> Loaded:
    """The settings of *apps* and of the server.

    *file* instead of `tidegate.toml`; *flags* by key, such as {"server.port": 80}; *environ* instead of the process's.
    *broken*: applications that are installed and cannot be used, and why; it matters when they are to run.
    SettingsError has every mistake that was found.
    """
    environ = os.environ if environ is None else environ
    installed = {app.name: app for app in apps}
    problems: list[SettingsProblem] = []
    try:
        there = find(file, environ)
    except SettingsError as error:
        problems += error.problems
        there = SettingsFile(None, {})
    tree = tree_of(Settings, installed.values())
    there, environ = _without({**lacking(), **(broken or {})}, there, environ)
    given = {
        **from_file(tree, there, problems),
        **from_variables(tree, environ, problems),
        **from_flags(tree, flags or {}),
    }
    given, secrets = _with_references(given, environ, problems)

    check = _Check(tree, given, secrets, problems, there)
    values = check.model(Settings, ())
    before = len(problems)
    names = _to_run(values, given, installed, broken or {}, problems)
    # With a wrong name nobody knows who is to run; what was given for somebody is looked at all the same.
    more = [] if len(problems) == before else [name for name in installed if check.anything_at((name,))]
    of_apps = {
        name: None if (model := installed[name].settings) is None else check.model(model, (name,))
        for name in dict.fromkeys([*names, *more])
    }
    if problems or values is None:
        raise SettingsError(problems)
    return Loaded(values, tuple(names), there.path, of_apps, tree, given)


def _without(
    broken: Mapping[str, str], file: SettingsFile, environ: Mapping[str, str]
) -> tuple[SettingsFile, Mapping[str, str]]:
    """What was given, but for applications that cannot be used: nobody knows their keys."""
    theirs = tuple(f"{PREFIX}{name.upper()}_" for name in broken)
    content = {name: table for name, table in file.content.items() if name not in broken}
    return SettingsFile(file.path, content), {k: v for k, v in environ.items() if not k.startswith(theirs)}


def _with_references(
    given: Found, environ: Mapping[str, str], problems: list[SettingsProblem]
) -> tuple[Found, list[str]]:
    """What was given, with what it refers to in its place, and the texts that must not be shown."""
    found: Found = {}
    secrets: list[str] = []
    for path, each in given.items():
        if each.key.reference:
            try:
                each = _looked_up(each, environ)  # noqa: PLW2901 - the same, looked up
            except ValueError as error:
                problems.append(SettingsProblem(each.where, str(error)))
                continue
        if each.key.secret:
            secrets += [str(value) for value in _values(each.value)]
        found[path] = each
    return found, secrets


def _looked_up(given: Given, environ: Mapping[str, str]) -> Given:
    value = _resolved(given.value, environ, given.folder)
    named = [each for each in _values(given.value) if is_reference(each)]
    return Given(
        key=given.key,
        value=value,
        origin=given.origin,
        where=given.where,
        folder=given.folder,
        named=", ".join(map(str, named)),
    )


def _resolved(value: Any, environ: Mapping[str, str], folder: FilePath) -> Any:
    """With what it refers to in its place, also inside of lists and tables."""
    match value:
        case str():
            return resolve_reference(value, environ, folder)
        case list() | tuple():
            return [_resolved(each, environ, folder) for each in value]
        case Mapping():
            return {name: _resolved(each, environ, folder) for name, each in value.items()}
    return value


def _values(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    return [inner for each in value for inner in _values(each)] if isinstance(value, (list, tuple)) else [value]


def _to_run(
    values: Settings | None,
    given: Found,
    installed: Mapping[str, App[Any]],
    broken: Mapping[str, str],
    problems: list[SettingsProblem],
) -> list[str]:
    """The names of the applications that are to run, in the order in which they were given."""
    said = given.get(("apps",))
    if values is not None:
        wanted: Sequence[Any] = values.apps
    else:  # something else is wrong; the names may still be right
        wanted = [name for name in _values(said.value) if isinstance(name, str)] if said else [ALL]
    where = said.where if said else "apps"
    everything = [*installed, *broken]
    names = dict.fromkeys(each for name in wanted for each in (everything if name == ALL else [name]))
    for name in names:
        if name in broken:
            problems.append(SettingsProblem(where, f"the application {name!r} cannot be used: {broken[name]}"))
        elif name not in installed and (install := lacking().get(name)):
            problems.append(SettingsProblem(where, f"the application {name!r} needs more: pip install '{install}'"))
        elif name not in installed:
            there = f"; there are: {', '.join(everything)}" if everything else "; none is installed"
            problems.append(SettingsProblem(where, f"there is no application {name!r}{meant(name, everything, there)}"))
    return [name for name in names if name in installed]


@dataclass(frozen=True, slots=True)
class _Check:
    """Asks the models, and tells where each value came from that they refuse."""

    tree: Section
    given: Found
    secrets: list[str]
    problems: list[SettingsProblem]
    file: SettingsFile

    def model(self, model: type[M], at: Path) -> M | None:
        section = self.tree
        for name in at:
            section = section.parts[name]  # type: ignore[assignment]  # an application has a section
        try:
            return model.model_validate(self._nested(section, set(model.model_fields)))
        except ValidationError as error:
            for each in error.errors(include_url=False):
                self.problems.append(self._problem(each, (*at, *map(str, each["loc"]))))
            return None

    def _nested(self, section: Section, names: set[str]) -> dict[str, Any]:
        """What was given of a section, as the model wants it. A section is there even if nothing of it was given."""
        found: dict[str, Any] = {
            name: self._nested(part, set(part.parts))
            for name, part in section.parts.items()
            if isinstance(part, Section) and name in names and (not part.optional or self.anything_at(part.path))
        }
        found.update({name: {} for name in self._chosen(section)})
        depth = len(section.path)
        for path, each in self.given.items():
            if path[:depth] != section.path or len(path) == depth:
                continue
            name = path[depth]
            if len(path) == depth + 1 and name in names:
                found[name] = each.value
            elif len(path) > depth + 1 and name not in section.parts:  # a table with a name of the user's choice
                inner = found
                for step in path[depth:-1]:
                    inner = inner.setdefault(step, {})
                inner[path[-1]] = each.value
        return found

    def _chosen(self, section: Section) -> list[str]:
        """The names that the user chose for tables in a section, also for tables that are empty."""
        table: Any = self.file.content if section.others is not None else {}
        for name in section.path:
            table = table.get(name) if isinstance(table, Mapping) else None
        there = table.items() if isinstance(table, Mapping) else ()
        return [name for name, value in there if isinstance(value, Mapping) and name not in section.parts]

    def anything_at(self, path: Path) -> bool:
        return any(given[: len(path)] == path for given in self.given)

    def _problem(self, error: Any, path: Path) -> SettingsProblem:
        if error["type"] == "missing":
            name = ".".join(path)
            variable = next((key.variables[0] for key in self.tree.keys() if key.path == path), None)  # noqa: SIM118
            return SettingsProblem(
                f"{self.file.shown}: {name}",
                "it is missing; give it there" + (f", or as {variable}" if variable else ""),
            )
        for end in range(len(path), 0, -1):
            if path[:end] in self.given:
                return SettingsProblem(self.given[path[:end]].where, describe_error(error, self.secrets))
        return SettingsProblem(f"{self.file.shown}: {'.'.join(path)}", describe_error(error, self.secrets))
