"""The tree of all settings keys, built from the models."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from inspect import isclass
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Secret, SecretBytes, SecretStr
from pydantic.fields import FieldInfo

if TYPE_CHECKING:
    from tidegate.apps import App

PREFIX = "TIDEGATE_"
Path = tuple[str, ...]


class _Unset:
    def __repr__(self) -> str:
        return "must be given"


UNSET: Final = _Unset()  # the default of a key that has none


class ValueShape(StrEnum):
    """How a value is written as text."""

    PLAIN = "plain"
    LIST = "list"  # separated by commas, or JSON
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One settings key."""

    path: Path
    about: str
    default: Any
    shape: ValueShape
    secret: bool
    reference: bool  # may be given as env:NAME or file:PATH
    variables: tuple[str, ...]  # ours first, then aliases of the application

    @property
    def name(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table of the file. *others* is the model of user-named tables in it."""

    path: Path
    about: str = ""
    parts: dict[str, Key | Section] = field(default_factory=dict)
    others: type[BaseModel] | None = None
    optional: bool = False

    def keys(self) -> Iterator[Key]:
        for part in self.parts.values():
            if isinstance(part, Key):
                yield part
            else:
                yield from part.keys()

    def sections(self) -> Iterator[Section]:
        """Yields this section and all nested ones."""
        yield self
        for part in self.parts.values():
            if isinstance(part, Section):
                yield from part.sections()


def tree_of(core: type[BaseModel], apps: Iterable[App[Any]] = ()) -> Section:
    """Builds the tree of the core and a section per application. Raises ValueError for a conflict."""
    tree = section_of(core, ())
    for app in apps:
        if app.name in tree.parts:
            raise ValueError(f"the settings already have a key {app.name!r}; give the application another name")
        tree.parts[app.name] = _section_of_app(app)
    variables_of(tree)
    return tree


def _section_of_app(app: App[Any]) -> Section:
    about = app.about or f"The application {app.shown}."
    if app.settings is None:
        return Section(path=(app.name,), about=about)
    if not (isclass(app.settings) and issubclass(app.settings, BaseModel)):
        raise ValueError(f"{app.name}: its settings are not a pydantic model; give a subclass of BaseModel")
    if hasattr(app.settings, "settings_customise_sources"):
        raise ValueError(f"{app.name}: its settings read the environment by themselves; give a class of BaseModel")
    return section_of(app.settings, (app.name,), about=about)


def section_of(model: type[BaseModel], path: Path, *, about: str = "", optional: bool = False) -> Section:
    about = about or (model.__doc__ or "").strip().partition("\n")[0]
    others = _others(model)
    section = Section(path=path, about=about, others=others, optional=optional)
    for name, info in model.model_fields.items():
        inner, may_lack = _model_in(info.annotation)
        if inner is not None:
            section.parts[name] = section_of(inner, (*path, name), about=info.description or "", optional=may_lack)
        else:
            section.parts[name] = _key(info, (*path, name))
    return section


def _key(info: FieldInfo, path: Path) -> Key:
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, Mapping) else {}
    more = extra.get("env", [])
    own = PREFIX + "_".join(path).upper().replace("-", "_")
    secret = any(isclass(kind) and issubclass(kind, (Secret, SecretStr, SecretBytes)) for kind in _kinds(info))
    if info.is_required() or info.default_factory_takes_validated_data:
        default: Any = UNSET
    else:
        default = info.get_default(call_default_factory=True)
    return Key(
        path=path,
        about=(info.description or "").strip(),
        default=default,
        shape=_shape(info.annotation),
        secret=secret,
        reference=secret or bool(extra.get("reference")),
        variables=(own, *map(str, more if isinstance(more, (list, tuple)) else [more])),
    )


def variables_of(tree: Section) -> dict[str, Key]:
    """Returns every environment variable. Raises ValueError if one would set two keys."""
    variables: dict[str, Key] = {}
    for key in tree.keys():  # noqa: SIM118 - a section is not a mapping
        for variable in key.variables:
            if variable in variables:
                raise ValueError(
                    f"the variable {variable} would mean both {variables[variable].name} and {key.name}; rename one"
                )
            variables[variable] = key
    return variables


def _others(model: type[BaseModel]) -> type[BaseModel] | None:
    """Returns the model of user-named tables."""
    if model.model_config.get("extra") != "allow":
        return None
    try:
        args = get_args(get_type_hints(model).get("__pydantic_extra__"))
    except NameError:  # a model that is defined inside a function
        return None
    return next((kind for kind in args if isclass(kind) and issubclass(kind, BaseModel)), None)


def _model_in(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """Returns the model of a field, and whether the field is optional."""
    if isclass(annotation) and issubclass(annotation, BaseModel):
        return annotation, False
    if get_origin(annotation) in (Union, types.UnionType):
        args = get_args(annotation)
        rest = [kind for kind in args if kind is not type(None)]
        if len(rest) == 1 and len(args) == 2:
            return _model_in(rest[0])[0], True
    return None, False


def _shape(annotation: Any) -> ValueShape:
    if get_origin(annotation) in (Union, types.UnionType):
        shapes = {_shape(kind) for kind in get_args(annotation) if kind is not type(None)}
        return shapes.pop() if len(shapes) == 1 else ValueShape.PLAIN
    kind = get_origin(annotation) or annotation
    if not isclass(kind) or issubclass(kind, (str, bytes)):
        return ValueShape.PLAIN
    if issubclass(kind, (Mapping, BaseModel)):
        return ValueShape.JSON
    return ValueShape.LIST if issubclass(kind, (list, tuple, AbstractSet)) else ValueShape.PLAIN


def _kinds(info: FieldInfo) -> Iterator[Any]:
    """Yields every type in an annotation."""
    waiting = [info.annotation]
    while waiting:
        kind = waiting.pop()
        yield get_origin(kind) or kind
        waiting += [arg for arg in get_args(kind) if not isinstance(arg, str)]


class SettingsSection(BaseModel):
    """The base of all settings models: frozen, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")
