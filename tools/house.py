"""Measures how the tree is laid out, and compares each figure with its target: ``make house``.

``--json`` is for programs. ``--list WORD`` also prints what was counted: ``--list forwarding``, ``--list cycles``.

Every figure is counted in ``src`` (all packages below it), except where it says tests. Definitions:

source files
    Python files, ``__init__`` files included.
source lines
    Lines of those files after ``ruff format``, on a copy without ``fmt: skip``, ``fmt: off`` and ``fmt: on``.
doubled class names
    Names of top-level classes that two or more modules define.
modules ending in -ing
    Modules and packages whose name is the gerund of an action. `TOPIC_NOUNS` lists the names that are topics.
modules with one importer
    Modules that exactly one other module of src imports, wherever the import is written. Names of modules in strings
    (lazy tables, entry points) are not imports.
forwarding functions
    Functions and methods whose body, without the docstring, is one call (returned, awaited or neither), if its
    arguments use every parameter of the function; ``self`` and ``cls`` do not count, and there must be another one.
hidden import cycles
    Groups of modules that import each other in a circle (strongly connected components). Imports in functions and under
    TYPE_CHECKING count. `DOCUMENTED_IMPORTS` are left out.
reads of rows by number
    Lines that read a column by its position: a number as index of a row, or of an item (``[0][0]``). A row is a name
    ``row`` or ``*_row``, a parameter of type ``Row``, and what a variable gets out of one of the `QUERIES`.
lines with Any, lines with fmt: skip
    Lines that contain it, comments and imports included.
walk
    Hops and distinct files of a walk in docs/explanation/architecture.md, as tools/walks.py defines it. A walk that is
    missing or wrong is short.
test lines
    Lines of the Python files in ``tests``.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from tools.walks import Function, Walk, checked_walks

# Reviewed: each of these names a topic or a thing, not an action that the module performs.
TOPIC_NOUNS = frozenset({"decoding", "listing", "masking", "monitoring", "parsing", "polling", "routing", "testing"})
# Target(store=...) loads these when it is made; guarded calls without a store never do.
DOCUMENTED_IMPORTS = {
    ("tidegate.guard.target", "tidegate.targets.reporter"),
    ("tidegate.guard.target", "tidegate.targets.remote_control"),
}
ONE_ROW = {"one", "aone", "first"}
QUERIES = {*ONE_ROW, "all", "aall", "many", "query", "query_many", "execute"}
WALKS = {  # name: (hops, files), both inclusive
    "guarded call that fails and is retried": (14, 8),
    "claim, run, settle": (18, 10),
    "feed poll": (24, 14),
    "PDF upload to download": (28, 18),
    "click on Retry to the job running": (14, 9),
}
CLASS = re.compile(r"^class\s+(\w+)", re.MULTILINE)
FORMATTER_COMMENT = re.compile(r"\s*#\s*fmt:\s*(?:skip|off|on)\b[^#\n]*")


@dataclass(frozen=True)
class Module:
    """One source file, by its dotted name."""

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    def functions(self) -> Iterator[Function]:
        return (node for node in self.nodes if isinstance(node, Function))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    name: str
    value: str
    target: str
    ok: bool
    items: tuple[str, ...] = ()


def read_modules(src: Path) -> dict[str, Module]:
    modules = {}
    for path in sorted(src.rglob("*.py")):
        parts = path.relative_to(src).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = Module(name, path, path.read_text(encoding="utf-8"))
    return modules


def formatted_lines(root: Path) -> int:
    """Lines of src as the formatter alone would write them."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(root / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        for path in copy.rglob("*.py"):
            path.write_text(FORMATTER_COMMENT.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")
        ruff = [sys.executable, "-m", "ruff", "format", "--quiet", "--no-cache"]
        subprocess.run([*ruff, "--config", str(root / "pyproject.toml"), str(copy)], check=True)
        return count_lines(copy)


def count_lines(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.py"))


def doubled_classes(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Class name -> the modules that define it, for names that more than one of them defines."""
    places: dict[str, list[str]] = defaultdict(list)
    texts = {module: set(CLASS.findall(module.text)) for module in modules}
    often = Counter(name for names in texts.values() for name in names)
    # A search in the text spares parsing the modules without a candidate.
    for module in [module for module, names in texts.items() if any(often[name] > 1 for name in names)]:
        # A name that a module defines twice, in two branches, is one place.
        for name in sorted({node.name for node in module.tree.body if isinstance(node, ast.ClassDef)}):
            places[name].append(module.name)
    return {name: where for name, where in sorted(places.items()) if len(where) > 1}


def gerunds(modules: Mapping[str, Module]) -> list[str]:
    last = {name: name.rpartition(".")[2] for name in modules}
    return [name for name, word in last.items() if word.endswith("ing") and word not in TOPIC_NOUNS]


def import_graph(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """Module -> the modules that it imports, in functions and for type checkers as well."""
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, module in modules.items():
        for node in module.nodes:
            if isinstance(node, ast.ImportFrom):
                # `from package import module` imports the module; any other name belongs to the package itself.
                full = [f"{node.module}.{alias.name}" for alias in node.names]
                graph[name] |= {target if target in modules else node.module or "" for target in full}
            elif isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names}
        graph[name] = {target for target in graph[name] if target in modules and target != name}
    return graph


def with_one_importer(graph: Mapping[str, set[str]]) -> list[str]:
    importers = Counter(name for imported in graph.values() for name in imported)
    return sorted(name for name, count in importers.items() if count == 1)


def import_cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other, without the documented imports."""
    edges = {name: {to for to in graph[name] if (name, to) not in DOCUMENTED_IMPORTS} for name in graph}
    reached = {name: _reachable(edges, name) for name in edges}
    groups = {frozenset(to for to in reached[name] if name in reached[to]) for name in edges if name in reached[name]}
    return sorted(sorted(group) for group in groups)


def _reachable(edges: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(edges[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += edges[name]
    return seen


def matching(pattern: re.Pattern[str], module: Module) -> Iterator[int]:
    return (number for number, line in enumerate(module.text.splitlines(), start=1) if pattern.search(line))


def forwarding(module: Module) -> list[int]:
    """Numbers of the lines where forwarding functions begin."""
    return [function.lineno for function in module.functions() if _is_forwarding(function)]


def _is_forwarding(function: Function) -> bool:
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call = body[0].value.value if isinstance(body[0].value, ast.Await) else body[0].value
    if not isinstance(call, ast.Call):
        return False
    own = {argument.arg for argument in _parameters(function)} - {"self", "cls"}
    passed = [*call.args, *(keyword.value for keyword in call.keywords)]
    used = {node.id for value in passed for node in ast.walk(value) if isinstance(node, ast.Name)}
    return bool(own) and own <= used


def _parameters(function: Function) -> list[ast.arg]:
    given = function.args
    starred = [argument for argument in (given.vararg, given.kwarg) if argument is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *starred]


def row_reads(module: Module) -> set[int]:
    """Numbers of the lines that read a column by its position."""
    found = set(_numbered(module.tree, set()))
    for function in module.functions():
        found.update(_numbered(function, _row_names(function)))
    return found


def _numbered(scope: ast.AST, rows: set[str]) -> Iterator[int]:
    for node in ast.walk(scope):
        if (base := _base(node)) is not None:
            named = isinstance(base, ast.Name) and (base.id in rows or base.id == "row" or base.id.endswith("_row"))
            if named or _base(base) is not None:
                yield node.lineno  # type: ignore[attr-defined]  # a Subscript


def _base(node: ast.AST) -> ast.expr | None:
    """What a number is the index of: `x` in `x[0]`."""
    match node:
        case ast.Subscript(value=base, slice=ast.Constant(value=int())):
            return base
    return None


def _row_names(function: Function) -> set[str]:
    """Variables that hold a row: declared so, returned by a query, or the items of what a query returned."""
    types = {argument.arg: argument.annotation for argument in _parameters(function)}
    rows = {name for name, type_ in types.items() if isinstance(type_, ast.Name) and type_.id == "Row"}
    lists: set[str] = set()
    nodes = list(ast.walk(function))
    for node in nodes:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                (rows if _query(value) in ONE_ROW else lists).update([name] if _query(value) else [])
            case ast.Assign(
                targets=[ast.Tuple(elts=[ast.Name(id=name)]) | ast.List(elts=[ast.Name(id=name)])], value=value
            ):
                rows.update([name] if _query(value) else [])
    for node in nodes:
        match node:
            case ast.For(target=ast.Name(id=name), iter=many) | ast.comprehension(target=ast.Name(id=name), iter=many):
                rows.update([name] if _query(many) or (isinstance(many, ast.Name) and many.id in lists) else [])
    return rows


def _query(value: ast.expr) -> str:
    """The method, if this is a call of a query with the name of a statement; awaited or not."""
    match value.value if isinstance(value, ast.Await) else value:
        case ast.Call(func=ast.Attribute(attr=method), args=[ast.Constant(value=str()), *_]) if method in QUERIES:
            return method
    return ""


def figures(root: Path, walks: Iterable[Walk]) -> Iterator[Figure]:
    modules = read_modules(root / "src")
    graph = import_graph(modules)
    doubled = doubled_classes(modules.values())
    yield listed("source files", modules, "<= 390")
    yield counted("source lines, formatted without fmt: skip", formatted_lines(root), "<= 71,000")
    yield listed("doubled class names", (f"{name}: {', '.join(where)}" for name, where in doubled.items()), "< 15")
    yield listed("modules ending in -ing", gerunds(modules), "< 10")
    yield listed("modules with one importer", with_one_importer(graph), "< 70")
    yield listed("forwarding functions", places(modules, forwarding), "< 150")
    yield listed("hidden import cycles", map(", ".join, import_cycles(graph)), "<= 0")
    yield listed("reads of rows by number", places(modules, row_reads), "< 10")
    yield listed("lines with Any", places(modules, partial(matching, re.compile(r"\bAny\b"))), "< 500")
    yield listed("lines with fmt: skip", places(modules, partial(matching, re.compile(r"fmt: *skip"))), "< 30")
    by_name = {walk.name.casefold(): walk for walk in walks}
    for name, limits in WALKS.items():
        yield walked(name, by_name.get(name.casefold()), *limits)
    yield counted("test lines", count_lines(root / "tests"), "<= 78,000")


def places(modules: Mapping[str, Module], counter: Callable[[Module], Iterable[int]]) -> Iterator[str]:
    return (f"{module.path}:{line}" for module in modules.values() for line in sorted(counter(module)))


def listed(name: str, items: Iterable[str], target: str) -> Figure:
    found = tuple(items)
    return replace(counted(name, len(found), target), items=found)


def counted(name: str, value: int, target: str) -> Figure:
    """A figure with its target: `< 15` or `<= 71,000`."""
    comparison, _, limit = target.replace(",", "").partition(" ")
    return Figure(name=name, value=f"{value:,}", target=target, ok=value < int(limit) + (comparison == "<="))


def walked(name: str, walk: Walk | None, max_hops: int, max_files: int) -> Figure:
    value = "no walk" if walk is None else f"{walk.hops} / {walk.files}"
    ok = walk is not None and 0 < walk.hops <= max_hops and walk.files <= max_files and not walk.problems
    return Figure(name=f"walk: {name}, hops / files", value=value, target=f"<= {max_hops} / {max_files}", ok=ok)


def main(argv: list[str], root: Path | None = None) -> int:
    """Prints the figures; exits 1 for a walk that is wrong, not for a figure that is short."""
    parser = argparse.ArgumentParser(prog="python -m tools.house")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--list", metavar="WORD", help="also print what was counted, of figures with WORD in their name"
    )
    options = parser.parse_args(argv)
    root = root or Path()
    walks = checked_walks(root)
    found = list(figures(root, walks))
    problems = [f"walk {walk.name}: {problem}" for walk in walks for problem in walk.problems]
    if options.json:
        print(json.dumps({"figures": [asdict(figure) for figure in found], "problems": problems}, indent=2))
    else:
        width = max(len(figure.name) for figure in found)
        print(f"{'figure':<{width}}  {'today':>8}  {'target':>10}")
        for figure in found:
            state = "ok" if figure.ok else "short"
            print(f"{figure.name:<{width}}  {figure.value:>8}  {figure.target:>10}  {state}")
            if options.list and options.list in figure.name:
                print("".join(f"    {item}\n" for item in figure.items), end="")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
