"""The mutants of a file: each is one of its functions with one thing changed, by the operators of mutmut.

Changed is everything inside functions and methods, properties included. Not changed are tables at the level of the
module or class, type annotations, decorators, the type of a `cast`, and a False to None, which is as good.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import MutationVisitor, OuterFunctionProvider, deep_replace
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One function with one thing changed."""

    file: str
    owner: str | None  # the class of a method
    function: str
    first: int  # the line at which the function starts, decorators included
    line: int  # the line of the innermost statement that is changed: who does not come there cannot see a change
    old: str  # the lines that differ, as they are and as they become
    new: str
    text: str  # the whole function as it becomes, without decorators, not indented

    @property
    def where(self) -> str:
        return f"{self.file} {self.owner}.{self.function}" if self.owner else f"{self.file} {self.function}"

    @property
    def name(self) -> str:
        return f"{self.where}: {self.old} -> {self.new}"

    @property
    def id(self) -> str:
        """The same as long as the function is the same."""
        return hashlib.sha256(f"{self.file} {self.owner} {self.text}".encode()).hexdigest()[:16]


class _Changes(MutationVisitor):
    """As mutmut's own, which leaves out what it cannot wrap: properties and other decorated functions."""

    def __init__(self) -> None:
        nothing: set[int] = set()
        ignored = IgnoredCode(no_mutate_lines=nothing, ignore_node_lines=nothing, ignore_pattern_lines=nothing)
        super().__init__(mutation_operators, ignored)
        self.found: list[tuple[cst.FunctionDef, int, cst.CSTNode, cst.CSTNode]] = []
        self._casts: set[int] = set()

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if id(node) in self._casts:
            return True
        if isinstance(node, cst.FunctionDef) and node.decorators:
            return any(_name(each.decorator) == "overload" for each in node.decorators)
        return super()._skip_node_and_children(node)

    def _create_mutations(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Call) and _name(node.func) == "cast":
            self._casts.add(id(node.args[0]))
            return
        if isinstance(node, cst.Assign) and _name(node.value) == "False":
            return  # it becomes True; None is as good as False
        before = len(self.mutations)
        super()._create_mutations(node)
        position = self.get_metadata(PositionProvider, node, None)
        for each in self.mutations[before:]:
            owner = self.get_metadata(OuterFunctionProvider, node, None)
            if isinstance(owner, cst.FunctionDef) and position is not None:
                self.found.append((owner, position.start.line, node, each.mutated_node))


def _name(node: cst.CSTNode) -> str:
    return node.value if isinstance(node, cst.Name) else ""


def mutants_of(root: Path, file: str) -> list[Mutant]:
    """Every mutant of the file, in the order of its lines; no two have the same text."""
    source = (root / file).read_text(encoding="utf-8")
    wrapper = MetadataWrapper(cst.parse_module(source))
    changes = _Changes()
    wrapper.visit(changes)
    owners = {
        id(method): each.name.value
        for each in wrapper.module.body
        if isinstance(each, cst.ClassDef)
        for method in each.body.body
    }
    positions = wrapper.resolve(PositionProvider)
    statements = Statements(source)
    seen: dict[str, Mutant] = {}
    bare_ones = {id(each): each.with_changes(decorators=[], leading_lines=[]) for each, *_ in changes.found}
    texts = {id_: wrapper.module.code_for_node(each) for id_, each in bare_ones.items()}
    for function, line, node, changed in changes.found:
        bare, old = bare_ones[id(function)], texts[id(function)]
        new = wrapper.module.code_for_node(cst.ensure_type(deep_replace(bare, node, changed), cst.FunctionDef))
        removed, added = _difference(old, new)
        start = statements.first[positions[function].start.line]
        mutant = Mutant(
            file=file, owner=owners.get(id(function)), function=function.name.value, first=start,
            line=statements.at(line), old=removed, new=added, text=new,
        )  # fmt: skip
        if new != old and _compiles(new):
            seen.setdefault(mutant.id, mutant)
    return sorted(seen.values(), key=lambda each: each.line)


def _difference(old: str, new: str) -> tuple[str, str]:
    """The lines between those with which both begin and those with which both end."""
    before, after = old.splitlines(), new.splitlines()
    while before and after and before[0] == after[0]:
        del before[0], after[0]
    while before and after and before[-1] == after[-1]:
        del before[-1], after[-1]
    return _joined(before), _joined(after)


def _joined(lines: list[str]) -> str:
    return " / ".join(each.strip() for each in lines)


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


class Statements:
    """The statements of the functions of a file by their first lines."""

    def __init__(self, source: str) -> None:
        self.tree = ast.parse(source)
        spans = {
            each.lineno: each.end_lineno or each.lineno
            for function in self.functions()
            for block in blocks(function)
            for each in block
        }
        self._spans = sorted(spans.items())
        # Where a function starts, decorators included, by the line of its `def`.
        self.first = {each.lineno: min(each.lineno, *_lines(each.decorator_list)) for each in self.functions()}

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Those at the level of the module and of its classes."""
        for each in self.tree.body:
            for inner in each.body if isinstance(each, ast.ClassDef) else [each]:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield inner

    def at(self, line: int) -> int:
        """The first line of the innermost statement around *line*; of the first one after it, where there is none."""
        around = [start for start, end in self._spans if start <= line <= end]
        return around[-1] if around else next(start for start, _ in self._spans if start > line)


def _lines(decorators: list[ast.expr]) -> list[int]:
    return [each.lineno for each in decorators] or [sys.maxsize]


def blocks(function: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements inside a function, at every depth."""
    for each in ast.walk(function):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(each, field, None)
            if isinstance(block, list) and block:
                yield block
