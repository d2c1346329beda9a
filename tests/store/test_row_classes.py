"""Row classes: their fields are the columns of the statements that they are read from, in order."""

from __future__ import annotations

import ast
import contextlib
import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path

import apsw
import apsw.ext
import psycopg
import pytest

import tidegate
from tests.databases import BOTH, Database
from tidegate.db import Db
from tidegate.store.migrate import core_migrations, migrate
from tidegate.store.open import core_statements
from tidegate.store.sql import Statement, statements

SRC = Path(tidegate.__file__).parents[1]
APPS = sorted(path.parent.name for path in SRC.glob("tidegate_apps/*/statements.sql"))
READS = {"query_as", "query_many_as", "first", "many_as", "aquery_as", "afirst"}


OWN = {SRC / "tidegate/db.py", SRC / "tidegate/store/base.py"}  # they define these methods


@dataclass(frozen=True, slots=True)
class Read:
    """A place that reads rows as values of a class. *names* matches the statements."""

    place: str
    row: type
    names: re.Pattern[str]


def fields_of(row: type) -> list[str]:
    """The fields of a row class."""
    return [each.name for each in fields(row)] if is_dataclass(row) else list(getattr(row, "_fields", ()))


@cache
def reads() -> list[Read]:
    return [each for path in sorted({*SRC.rglob("*.py")} - OWN) for each in reads_in(path)]


def reads_in(path: Path) -> Iterator[Read]:
    text = path.read_text(encoding="utf-8")
    if not any(f".{method}(" in text for method in READS):
        return
    parts = path.relative_to(SRC).with_suffix("").parts
    prefix = f"{parts[1]}." if parts[0] == "tidegate_apps" else ""
    tree = ast.parse(text)
    for scope in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))]:
        for node in own_nodes(scope):
            match node:
                case ast.Call(func=ast.Attribute(attr=method), args=[row, name, *_]) if (
                    method in READS and named_as_class(row)
                ):
                    place = f"{path.relative_to(SRC)}:{node.lineno}"
                    found = "|".join(re.escape(prefix) + each for each in patterns(name, scope, tree, place))
                    yield Read(place, row_class(row, ".".join(parts), place), re.compile(found))


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of the functions in it."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from own_nodes(child)


def named_as_class(node: ast.expr) -> bool:
    """Tells `tx.first(JobRow, ...)` from a method of the same name."""
    return re.fullmatch(r"(\w+\.)*_?[A-Z]\w+", ast.unparse(node)) is not None


def row_class(node: ast.expr, module: str, place: str) -> type:
    found: object = importlib.import_module(module.removesuffix(".__init__"))
    for name in ast.unparse(node).split("."):
        found = getattr(found, name, None)
    assert isinstance(found, type), f"{place}: name the row class, not {ast.unparse(node)}"
    assert fields_of(found), f"{place}: {found} is neither a NamedTuple nor a dataclass"
    return found


def patterns(node: ast.expr, scope: ast.AST, tree: ast.Module, place: str) -> Iterator[str]:
    """The names of the statements that an expression can be, as patterns."""
    match node:
        case ast.Constant(value=str(name)):
            yield re.escape(name)
        case ast.JoinedStr(values=values):
            yield "".join(re.escape(str(each.value)) if isinstance(each, ast.Constant) else r"\w+" for each in values)
        case ast.IfExp(body=body, orelse=other):
            yield from patterns(body, scope, tree, place)
            yield from patterns(other, scope, tree, place)
        case ast.Name(id=variable):
            given = [*assigned(variable, scope)] or [*assigned(variable, tree)]
            assert given, f"{place}: write the name of the statement where it runs, not {variable}"
            for value in given:
                yield from patterns(value, scope, tree, place)
        case ast.Attribute(value=ast.Name(id="self")):
            yield from first_arguments(scope, tree)
        case _:
            raise AssertionError(f"{place}: write the name of the statement, not {ast.unparse(node)}")


def first_arguments(method: ast.AST, tree: ast.Module) -> Iterator[str]:
    """The texts that the class of a method is made with."""
    owners = {node.name for node in tree.body if isinstance(node, ast.ClassDef) and method in node.body}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(text)), *_]) if name in owners:
                yield re.escape(text)


def assigned(variable: str, scope: ast.AST) -> Iterator[ast.expr]:
    for node in own_nodes(scope):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == variable:
                yield value


@contextlib.contextmanager
def column_names(db: Database) -> Iterator[Callable[[Statement], list[str]]]:
    """Yields a function that returns the columns of a statement. It is prepared but not run."""
    if db.sqlite:
        with contextlib.closing(apsw.Connection(str(db.path))) as connection:
            yield lambda each: [name for name, _ in apsw.ext.query_info(connection, each.sql).description]
        return
    with psycopg.connect(db.url) as server:

        def described(statement: Statement) -> list[str]:
            for result in (server.pgconn.prepare(b"", statement.sql.encode()), server.pgconn.describe_prepared(b"")):
                assert not result.error_message, f"{statement.name}: {result.error_message.decode()}"
            return [(result.fname(i) or b"").decode() for i in range(result.nfields)]

        yield described


@pytest.fixture
def known(db: Database) -> dict[str, Statement]:
    """The statements of Tidegate and its applications, on a database that has their tables."""
    with contextlib.closing(db.open(lambda: 0.0)) as store:
        migrate(store, core_migrations())
        found = [*core_statements(store.dialect)]
        for app in APPS:
            Db(store, app, f"tidegate_apps.{app}")
            text = (SRC / "tidegate_apps" / app / "statements.sql").read_text(encoding="utf-8")
            found += statements(text, store.dialect, f"{app}.")
    return {each.name: each for each in found}


@pytest.mark.parametrize("db", BOTH, indirect=True)
def test_the_fields_of_a_row_class_are_the_columns_of_its_statements(db: Database, known: dict[str, Statement]) -> None:
    pairs = [(read, each) for read in reads() for name, each in known.items() if read.names.fullmatch(name)]
    assert {read.place for read in reads()} == {read.place for read, _ in pairs}, "these statements do not exist"

    with column_names(db) as columns_of:
        wrong = {
            f"{read.place}: {statement.name} returns {columns}, not {fields_of(read.row)}"
            for read, statement in pairs
            if (columns := columns_of(statement)) != fields_of(read.row)
        }

    assert not wrong, "\n" + "\n".join(sorted(wrong))
