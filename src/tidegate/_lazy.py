"""Public names that a module loads when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    namespace: dict[str, object], names_of: Mapping[str, tuple[str, ...]], submodules: tuple[str, ...] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of the module with *namespace*; *names_of* lists names by module."""
    package = namespace["__name__"]
    module_of = {name: module for module, names in names_of.items() for name in names}

    def load(name: str) -> object:
        if name in submodules:
            value: object = import_module(f"{package}.{name}")
        elif name in module_of:
            value = getattr(import_module(module_of[name]), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        namespace[name] = value
        return value

    def listed() -> list[str]:
        return sorted({*namespace, *module_of, *submodules})

    return load, listed
