"""Reads the walks of docs/explanation/architecture.md and checks them against the source.

A walk follows one operation through the functions that it calls. It is a table below a heading ``Walk: <name>``, with
one row per function:

    | step | called by | file | function | what it does |
    | ---: | ---: | --- | --- | --- |
    | 1 | | `guard/target.py` | `Target.call` | ... |
    | 2 | 1 | `guard/pipeline.py` | `CallPipeline.run` | ... |
    | 3 | 2* | `guard/sinks.py` | `LogSink.__call__` | ... |

*file* is relative to src or to src/tidegate. *function* is a function, `Class.method` or `outer.inner`. *called by* is
the step whose function mentions this one. An asterisk says that a callback, a signal or a row of the database lies
between, so that the source of the caller does not show it. Only the first step has no caller. A *hop* is a row after
the first.

The table below the heading ``Where is ...?`` names one place per row: what, file, and a function or a value of that
module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = "docs/explanation/architecture.md"
HEADING = re.compile(r"^#+ Walk: (?P<name>.+?) *$")
PLACES = re.compile(r"^#+ Where is \.\.\.\? *$")
COLUMNS = 4  # of those that are read; what it does is for people
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    number: int
    caller: str
    file: str
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The steps of one operation, and what is wrong with them."""

    name: str
    steps: tuple[Step, ...]
    problems: tuple[str, ...]

    @property
    def hops(self) -> int:
        return max(0, len(self.steps) - 1)

    @property
    def files(self) -> int:
        return len({step.file for step in self.steps})


def checked_walks(root: Path) -> list[Walk]:
    """The walks of the page, in order; none while there is no page."""
    page = root / PAGE
    walks = read_walks(page.read_text(encoding="utf-8")) if page.exists() else {}
    return [
        Walk(name=name, steps=tuple(steps), problems=tuple(problems_of(steps, root / "src")))
        for name, steps in walks.items()
    ]


def read_walks(text: str) -> dict[str, list[Step]]:
    walks: dict[str, list[Step]] = {}
    steps: list[Step] = []
    for line in text.splitlines():
        cells = [cell.strip(" `") for cell in line.split("|")[1:]]
        if heading := HEADING.match(line):
            steps = walks[heading["name"]] = []
        elif line.startswith("#"):
            steps = []
        elif len(cells) >= COLUMNS and cells[0].isdigit():
            steps.append(Step(number=int(cells[0]), caller=cells[1], file=cells[2], function=cells[3]))
    return walks


def read_places(text: str) -> list[tuple[str, str]]:
    """File and name of each row of the table of places."""
    places: list[tuple[str, str]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("#"):
            inside = PLACES.match(line) is not None
        elif inside and line.startswith("|"):
            _, file, name = (cell.strip() for cell in line.strip().strip("|").split("|"))
            if file.startswith("`"):
                places.append((file.strip("`"), name.strip("`")))
    return places


def problems_of_places(places: list[tuple[str, str]], src: Path) -> Iterator[str]:
    for file, name in places:
        path = find_file(src, file)
        if path is None:
            yield f"{file}: the file does not exist"
            continue
        module = ast.parse(path.read_text("utf-8"))
        if find_function(module, name) is None and name not in _values(module):
            yield f"{file} {name}: the file has no such function or value"


def _values(module: ast.Module) -> set[str]:
    """Names that a module assigns at its top level."""
    targets = [target for node in module.body if isinstance(node, ast.Assign) for target in node.targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def find_file(src: Path, file: str) -> Path | None:
    return next((path for path in (src / file, src / "tidegate" / file) if path.is_file()), None)


def problems_of(steps: list[Step], src: Path) -> Iterator[str]:
    """What is wrong with a walk: a file or function that does not exist, or a call that its caller does not make."""
    functions: dict[str, Function] = {}
    for position, step in enumerate(steps, start=1):
        where = f"step {step.number}, {step.file} {step.function}"
        if step.number != position:
            yield f"{where}: must be number {position}"
        path = find_file(src, step.file)
        function = None if path is None else find_function(ast.parse(path.read_text("utf-8")), step.function)
        if path is None:
            yield f"{where}: the file does not exist"
        elif function is None:
            yield f"{where}: the file has no such function"
        else:
            functions[str(position)] = function
        yield from (f"{where}: {problem}" for problem in _problems_of_caller(step, position, functions))


def _problems_of_caller(step: Step, position: int, functions: dict[str, Function]) -> Iterator[str]:
    caller = step.caller.removesuffix("*")
    if position == 1:
        if step.caller:
            yield "the first step has no caller"
    elif not caller.isdecimal() or not 0 < int(caller) < position:
        yield "'called by' must be the number of an earlier step"
    elif caller == step.caller and caller in functions and not mentions(functions[caller], step.function):
        yield f"step {caller} does not call it"


def find_function(scope: ast.AST, qualified: str) -> Function | None:
    """The function of this name; the last one where overloads come before it."""
    first, _, rest = qualified.partition(".")
    named = [node for node in _definitions(scope) if node.name == first]
    if rest:
        return next((found for node in reversed(named) if (found := find_function(node, rest))), None)
    return next((node for node in reversed(named) if isinstance(node, Function)), None)


def _definitions(scope: ast.AST) -> Iterator[Function | ast.ClassDef]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, Function | ast.ClassDef):
            yield node
        else:
            yield from _definitions(node)


def mentions(function: Function, callee: str) -> bool:
    """Whether a function names another one; what makes an object names the class instead of `__init__`."""
    *owner, last = callee.split(".")
    name = owner[-1] if owner and last in {"__init__", "__new__", "__post_init__"} else last
    nodes = list(ast.walk(function))
    return name in {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }
