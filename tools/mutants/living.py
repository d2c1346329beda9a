"""The functions that live in this process, and how one of them becomes a mutant."""

from __future__ import annotations

import gc
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

from tools.mutants.making import Mutant

Functions = dict[tuple[str, int, str], list[FunctionType]]


def living(files: set[str], root: Path) -> Functions:
    """Every function of the files, by file, first line and name."""
    paths = {str(root / file): file for file in files}
    gc.unfreeze()
    found: Functions = defaultdict(list)
    for each in gc.get_objects():
        if type(each) is FunctionType and (file := paths.get(each.__code__.co_filename)):
            found[file, each.__code__.co_firstlineno, each.__name__].append(each)
    return found


def codes(code: CodeType) -> Iterator[CodeType]:
    """Those inside, at every depth."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from codes(each)


def become(functions: Functions, mutant: Mutant) -> None:
    """Gives the living function the code and the defaults of the mutant."""
    text = f"class {mutant.owner}:\n{textwrap.indent(mutant.text, '    ')}" if mutant.owner else mutant.text
    ours = functions[mutant.file, mutant.first, mutant.function]
    space = dict(ours[0].__globals__)
    old = ours[0].__code__
    code = compile(f"from __future__ import annotations\n{text}", old.co_filename, "exec", dont_inherit=True)
    exec(code, space)  # noqa: S102
    changed = vars(space[mutant.owner])[mutant.function] if mutant.owner else space[mutant.function]
    changed = getattr(changed, "__func__", changed)  # `__new__` and `__init_subclass__` are wrapped by Python itself
    for function in ours:
        function.__code__ = changed.__code__
        function.__defaults__ = changed.__defaults__
        function.__kwdefaults__ = changed.__kwdefaults__
    # What it made when its module was imported, such as the rows of a table, lives on and would never be made again.
    for before, after in zip(codes(old), codes(changed.__code__), strict=False):
        if (before.co_name, before.co_freevars) == (after.co_name, after.co_freevars):
            for function in functions.get((mutant.file, before.co_firstlineno, before.co_name), []):
                if function.__code__ is before:
                    function.__code__ = after
