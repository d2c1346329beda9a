"""Loads the settings: flags before variables before the file before defaults. Reports all mistakes at once."""

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
    """The validated, frozen settings, and the origin of each value."""

    values: Settings
    apps: tuple[str, ...]  # the applications that run
    file: FilePath | None  # the file that was read
    _of_apps: Mapping[str, Any] = field(repr=False)
    _tree: Section = field(repr=False)
    _given: Found = field(repr=False)

    def app(self, name: str) -> Any:
        """Returns the settings of an application, or None if it has none. Raises NotFound if it does not run."""
        if name not in self._of_apps:
            raise NotFound(f"the application {name!r} is not to run; apps has: {', '.join(self.apps) or 'none'}")
        return self._of_apps[name]

    def effective(self) -> list[Effective]:
        """Returns every effective value with its origin. Secrets are masked."""
        return effective(self._tree, self.values, self._of_apps, self._given)

    def secret_files(self) -> dict[FilePath, str]:
        """Returns the files that contain secrets, with a description of each."""
        return secret_files(self._given, self.file)

    def addresses(self) -> dict[str, str]:
        """Returns the service URLs in the settings of the applications that run, by key."""
        return addresses(self._tree, self.values, self._of_apps)


def load(
    *,
    file: str | FilePath | None = None,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    apps: Iterable[App[Any]] = (),
    broken: Mapping[str, str] | None = None,
) -> Loaded:
    """Loads the settings of the server and of *apps*.

    *file* replaces `tidegate.toml`. *flags* are values by key, such as {"server.port": 80}. *environ* replaces the
    process environment. *broken*: installed applications that cannot be loaded, with the reason. They matter only if
    they should run. Raises SettingsError with every mistake.
    """
    environ = os.environ if environ is None else environ
    installed = {app.name: app for app in apps}
    problems: list[SettingsProblem] = []
    try:
        settings_file = find(file, environ)
    except SettingsError as error:
        problems += error.problems
        settings_file = SettingsFile(None, {})
    tree = tree_of(Settings, installed.values())
    settings_file, environ = _without_broken({**lacking(), **(broken or {})}, settings_file, environ)
    given = {
        **from_file(tree, settings_file, problems),
        **from_variables(tree, environ, problems),
        **from_flags(tree, flags or {}),
    }
    given, secrets = _with_references(given, environ, problems)

    check = _Check(tree, given, secrets, problems, settings_file)
    values = check.model(Settings, ())
    before = len(problems)
    names = _names_to_run(values, given, installed, broken or {}, problems)
    # If a name is wrong, it is unknown which applications run. Values for installed ones are checked anyway.
    more = [] if len(problems) == before else [name for name in installed if check.anything_at((name,))]
    of_apps = {
        name: None if (model := installed[name].settings) is None else check.model(model, (name,))
        for name in dict.fromkeys([*names, *more])
    }
    if problems or values is None:
        raise SettingsError(problems)
    return Loaded(values, tuple(names), settings_file.path, of_apps, tree, given)


def _without_broken(
    broken: Mapping[str, str], file: SettingsFile, environ: Mapping[str, str]
) -> tuple[SettingsFile, Mapping[str, str]]:
    """Removes the values of applications that cannot be loaded: their keys are unknown."""
    theirs = tuple(f"{PREFIX}{name.upper()}_" for name in broken)
    content = {name: table for name, table in file.content.items() if name not in broken}
    return SettingsFile(file.path, content), {k: v for k, v in environ.items() if not k.startswith(theirs)}


def _with_references(
    given: Found, environ: Mapping[str, str], problems: list[SettingsProblem]
) -> tuple[Found, list[str]]:
    """Resolves references. Returns the values, and the secrets that must not be shown."""
    resolved: Found = {}
    secrets: list[str] = []
    for path, source in given.items():
        if source.key.reference:
            try:
                source = _dereferenced(source, environ)  # noqa: PLW2901 - the same value, resolved
            except ValueError as error:
                problems.append(SettingsProblem(source.where, str(error)))
                continue
        if source.key.secret:
            secrets += [str(value) for value in _values(source.value)]
        resolved[path] = source
    return resolved, secrets


def _dereferenced(given: Given, environ: Mapping[str, str]) -> Given:
    value = _resolved(given.value, environ, given.folder)
    named = [item for item in _values(given.value) if is_reference(item)]
    return Given(
        key=given.key,
        value=value,
        origin=given.origin,
        where=given.where,
        folder=given.folder,
        named=", ".join(map(str, named)),
    )


def _resolved(value: Any, environ: Mapping[str, str], folder: FilePath) -> Any:
    """Resolves references, also in lists and tables."""
    match value:
        case str():
            return resolve_reference(value, environ, folder)
        case list() | tuple():
            return [_resolved(item, environ, folder) for item in value]
        case Mapping():
            return {name: _resolved(item, environ, folder) for name, item in value.items()}
    return value


def _values(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    return [inner for item in value for inner in _values(item)] if isinstance(value, (list, tuple)) else [value]


def _names_to_run(
    values: Settings | None,
    given: Found,
    installed: Mapping[str, App[Any]],
    broken: Mapping[str, str],
    problems: list[SettingsProblem],
) -> list[str]:
    """Returns the names of the applications to run, in the given order."""
    source = given.get(("apps",))
    if values is not None:
        wanted: Sequence[Any] = values.apps
    else:  # another value is wrong; the names may still be right
        wanted = [name for name in _values(source.value) if isinstance(name, str)] if source else [ALL]
    where = source.where if source else "apps"
    everything = [*installed, *broken]
    names = dict.fromkeys(choice for name in wanted for choice in (everything if name == ALL else [name]))
    for name in names:
        if name in broken:
            problems.append(SettingsProblem(where, f"the application {name!r} cannot be used: {broken[name]}"))
        elif name not in installed and (install := lacking().get(name)):
            problems.append(SettingsProblem(where, f"the application {name!r} needs more: pip install '{install}'"))
        elif name not in installed:
            hint = f"; there are: {', '.join(everything)}" if everything else "; none is installed"
            problems.append(SettingsProblem(where, f"there is no application {name!r}{meant(name, everything, hint)}"))
    return [name for name in names if name in installed]


@dataclass(frozen=True, slots=True)
class _Check:
    """Validates with the models, and reports the origin of each rejected value."""

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
            for detail in error.errors(include_url=False):
                self.problems.append(self._problem(detail, (*at, *map(str, detail["loc"]))))
            return None

    def _nested(self, section: Section, names: set[str]) -> dict[str, Any]:
        """Returns the values of a section as the model expects them. An empty section is included."""
        table: dict[str, Any] = {
            name: self._nested(part, set(part.parts))
            for name, part in section.parts.items()
            if isinstance(part, Section) and name in names and (not part.optional or self.anything_at(part.path))
        }
        table.update({name: {} for name in self._user_named_tables(section)})
        depth = len(section.path)
        for path, source in self.given.items():
            if path[:depth] != section.path or len(path) == depth:
                continue
            name = path[depth]
            if len(path) == depth + 1 and name in names:
                table[name] = source.value
            elif len(path) > depth + 1 and name not in section.parts:  # a table that the user named
                inner = table
                for step in path[depth:-1]:
                    inner = inner.setdefault(step, {})
                inner[path[-1]] = source.value
        return table

    def _user_named_tables(self, section: Section) -> list[str]:
        """Returns the names of the user-named tables in a section, including empty ones."""
        table: Any = self.file.content if section.others is not None else {}
        for name in section.path:
            table = table.get(name) if isinstance(table, Mapping) else None
        items = table.items() if isinstance(table, Mapping) else ()
        return [name for name, value in items if isinstance(value, Mapping) and name not in section.parts]

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
