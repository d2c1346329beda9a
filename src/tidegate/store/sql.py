"""Named SQL statements for both databases: dialects, parameters and arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

# One SQL text serves both databases: named statements, named parameters and a few fragments.
#
# `-- name: list_<state> of ready, waiting` makes one statement per word, with the word in place of `<state>`. A
# partial index is only used for a state that is a literal.
#
# `-- only sqlite` before a statement of a migration omits it on PostgreSQL, and the reverse.
#
# Fragments cover the differences. `{rows id bigint, fence bigint}` is a table of parameters named `given`. PostgreSQL
# gets arrays and runs the statement once. SQLite runs it once per row, because a statement is cheap there. On SQLite
# an update `from {rows ...}` gets plain parameters instead of the table, which avoids a copy of every changed page.
# An insert whose columns are all `given.x` becomes an insert of values.


class Dialect(StrEnum):
    SQLITE = "sqlite"
    POSTGRES = "postgres"


@dataclass(frozen=True, slots=True)
class Statement:
    """One named statement, compiled for its database."""

    name: str
    sql: str
    columns: tuple[str, ...] = ()  # of its {rows}; empty when it has none
    returns: bool = True  # whether it returns rows
    numbered: tuple[str, ...] = ()  # parameter names from $1 on, where parameters are numbered
    one: Statement | None = None  # the variant for a single row of parameters, where that is faster


_NEXT_JOB = (
    "max(coalesce((select max(id) from tg_job), 0),"
    " coalesce((select cast(value as integer) from tg_store where name = 'forgotten'), 0)) + 1"
)
FRAGMENTS: Mapping[str, tuple[str, str]] = {
    # name: SQLite, PostgreSQL
    "serial": ("integer primary key autoincrement", "bigint generated always as identity primary key"),
    # Without autoincrement SQLite writes one page less per row. For ids that may be reused or come from elsewhere.
    "row_number": ("integer primary key", "bigint generated always as identity primary key"),
    # The id of a new job, where the database does not generate it: the column and its value.
    "job": ("id, ", ""),
    "job_number": (f"{_NEXT_JOB}, ", ""),
    "skip_locked": ("", "for update skip locked"),
    "for_update": ("", "for update"),
    "not_removed": ("", "for key share"),
    # PostgreSQL evaluates a subquery once per statement, so it can use an index. It calls a bare clock for each row.
    "now": (
        ":now",
        "(select coalesce(:now::double precision, extract(epoch from clock_timestamp())::double precision))",
    ),
    "hot": ("", "with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0)"),
    "clustered": ("without rowid", ""),
}
_FRAGMENT = re.compile(r"\{([a-z_]+)((?: [^{}]*)?)\}")
_UPDATE_FROM = re.compile(r"(update .*)\bfrom \{rows ([^{}]*)\}(\s+where .*)", re.DOTALL)
_INSERT_FROM = re.compile(
    r"(insert into [^()]*\([^()]*\)\s+)select (.*)\sfrom \{rows ([^{}]*)\}\s+where true"
    r"((?:\s+(?:on conflict|returning)\b.*)?)",
    re.DOTALL,
)
_GIVEN = re.compile(r"\bgiven\.([a-z_][a-z0-9_]*)")
_PARAMETER = re.compile(r"'(?:[^']|'')*'|(?<![:\w]):([a-z_][a-z0-9_]*)")  # or a string literal, which has none
_TEXT = re.compile(r"'(?:[^']|'')*'")
_CHANGES = re.compile(r"\b(insert|update|delete)\b", re.IGNORECASE)
_RETURNS = re.compile(r"\breturning\b", re.IGNORECASE)
_ONLY = re.compile(r"-- only (sqlite|postgres)")
_NAME = re.compile(r"^-- name: *([a-z][a-z0-9_.]*) *$")
_NAMES = re.compile(r"^-- name: *([a-z][a-z0-9_.]*<([a-z]+)>[a-z0-9_.]*) of ([a-z_]+(?:, [a-z_]+)*) *$")


@lru_cache(256)
def statements(text: str, dialect: Dialect, prefix: str = "") -> tuple[Statement, ...]:
    """Parses the statements of a file. Raises ValueError for a duplicate or missing name, or an unknown fragment."""
    seen, parsed = set[str](), list[Statement]()
    for name, body in _blocks(text):
        if name in seen:
            raise ValueError(f"statement {name!r} is defined twice; rename one")
        seen.add(name)
        parsed.append(compiled(prefix + name, body, dialect))
    return tuple(parsed)


def bodies(text: str) -> dict[str, str]:
    """Returns the source text of the statements of a file, by name."""
    return dict(_blocks(text))


@lru_cache(4096)  # an application is installed once per queue
def compiled(name: str, body: str, dialect: Dialect) -> Statement:
    bare = _TEXT.sub("''", body)
    returns = not _CHANGES.search(bare) or bool(_RETURNS.search(bare))
    if dialect is Dialect.SQLITE and (plain := _of_one_row(body)):
        sql, _ = _expanded(name, _GIVEN.sub(r":\1", plain[0]), dialect)
        return Statement(name, sql, _rows(plain[1], dialect, one=True)[1], returns)
    sql, columns = _expanded(name, body, dialect)
    if dialect is Dialect.SQLITE:
        return Statement(name, sql, columns, returns)
    text, names = _numbered(sql)
    if not columns:
        return Statement(name, text, (), returns, names)
    one, ones = _numbered(_expanded(name, body, dialect, one=True)[0])
    return Statement(name, text, columns, returns, names, Statement(name, one, (), returns, ones))


def _of_one_row(body: str) -> tuple[str, str] | None:
    """Returns a statement without its table of parameters, and that table's columns. None if it needs the table."""
    if update := _UPDATE_FROM.fullmatch(body):
        return update[1] + update[3], update[2]
    insert = _INSERT_FROM.fullmatch(body)
    if insert is None:
        return None
    columns = "|".join(_rows(insert[3], Dialect.SQLITE, one=True)[1])
    if re.search(rf"(?<![.:\w])(?:{columns})\b", _TEXT.sub("''", insert[2])):
        return None  # a column that is not given.x
    return f"{insert[1]}values ({insert[2]}){insert[4]}", insert[3]


def _expanded(name: str, body: str, dialect: Dialect, *, one: bool = False) -> tuple[str, tuple[str, ...]]:
    """Expands the fragments. Returns the text and the columns of its {rows}."""
    columns: tuple[str, ...] = ()

    def expand(match: re.Match[str]) -> str:
        nonlocal columns
        if match[1] == "rows":
            sql, columns = _rows(match[2], dialect, one=one)
            return sql
        if match[1] not in FRAGMENTS or match[2].strip():
            raise ValueError(f"statement {name!r}: unknown fragment {match[0]!r}; define it first")
        return FRAGMENTS[match[1]][dialect is Dialect.POSTGRES]

    return _FRAGMENT.sub(expand, body).strip(), columns


def _numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """Numbers the parameters for PostgreSQL. Returns the text and their names in order."""
    names: dict[str, int] = {}
    text = _PARAMETER.sub(lambda match: f"${names.setdefault(match[1], len(names) + 1)}" if match[1] else match[0], sql)
    return text, tuple(names)


def script(text: str, dialect: Dialect) -> list[str]:
    """Returns the statements of a migration, in order. Each ends with a semicolon at the end of a line."""
    lines = [line for line in text.splitlines() if _ONLY.fullmatch(line) or not line.lstrip().startswith("--")]
    parts = [part.strip() for part in re.split(r";[ \t]*(?:\n|$)", "\n".join(lines))]
    compiled_sql = []
    for part in filter(None, parts):
        first, _, rest = part.partition("\n")
        only = _ONLY.fullmatch(first)
        if only is None or only[1] == dialect:
            compiled_sql.append(compiled("migration", rest if only else part, dialect).sql)
    return compiled_sql


def _rows(spec: str, dialect: Dialect, *, one: bool) -> tuple[str, tuple[str, ...]]:
    pairs = [part.split() for part in spec.split(",")]
    if not pairs or any(len(pair) < 2 for pair in pairs):
        raise ValueError(f"{{rows{spec}}} is incomplete; give a name and a type for each column")
    names = tuple(pair[0] for pair in pairs)
    if dialect is Dialect.SQLITE:
        return f"(select {', '.join(f':{name} as {name}' for name in names)}) as given", names
    types = [(pair[0], " ".join(pair[1:])) for pair in pairs]
    if one:
        return f"(select {', '.join(f':{name}::{kind} as {name}' for name, kind in types)}) as given", names
    arrays = ", ".join(f":{name}::{kind}[]" for name, kind in types)
    return f"unnest({arrays}) as given({', '.join(names)})", names


@lru_cache(256)
def _blocks(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(_split(text))


def _split(text: str) -> Iterator[tuple[str, str]]:
    head, body = "", list[str]()
    for line in text.splitlines():
        if _NAME.match(line) or _NAMES.match(line):
            yield from _named(head, _body(body))
            head, body = line, []
        elif head:
            body.append(line)
        elif line.strip() and not line.startswith("--"):
            raise ValueError(
                f"{line.strip()[:60]!r} is a statement without a name; put a line '-- name: NAME' before it"
            )
    yield from _named(head, _body(body))


def _named(head: str, body: str) -> Iterator[tuple[str, str]]:
    """Yields the statement of a block, or one statement per word of its `of` list."""
    several = _NAMES.match(head)
    if several is None:
        one = _NAME.match(head)
        yield from [(one[1], body)] if one else []
        return
    for word in several[3].split(", "):
        yield several[1].replace(f"<{several[2]}>", word), body.replace(f"<{several[2]}>", word)


def _body(lines: list[str]) -> str:
    return "\n".join(line for line in lines if not line.startswith("--")).strip().removesuffix(";")


# -- arrays ------------------------------------------------------------------------------------------------------------
# psycopg encodes arrays value by value, which took longer than the rest of a batch.

_NOTHING = type(None)


def array(values: list[Any]) -> object:
    """Returns the literal of an array of strings or numbers. Other lists are returned for the driver to encode."""
    kinds = frozenset(map(type, values))
    written = _WRITTEN.get(kinds)
    return values if written is None else written(values)


def _texts(values: list[str]) -> object:
    one = "\0".join(values)
    if one.count("\0") >= len(values):
        return values  # no database stores a NUL: the driver raises
    return '{"' + one.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","') + '"}'


def _texts_with_gaps(values: list[str | None]) -> str:
    quoted = ["NULL" if text is None else f'"{_escaped(text)}"' for text in values]
    return "{" + ",".join(quoted) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"') if "\\" in text or '"' in text else text


def _numbers(values: list[float]) -> str:
    return "{" + ",".join(map(repr, values)) + "}"


def _numbers_with_gaps(values: list[float | None]) -> str:
    return "{" + ",".join(["NULL" if number is None else repr(number) for number in values]) + "}"


def _gaps(values: list[None]) -> str:
    return "{" + ",".join(["NULL"] * len(values)) + "}"


_WRITTEN: dict[frozenset[type], Callable[[Any], object]] = {
    frozenset({str}): _texts,
    frozenset({str, _NOTHING}): _texts_with_gaps,
    frozenset({_NOTHING}): _gaps,
    **{frozenset(kinds): _numbers for kinds in ({int}, {float}, {int, float})},
    **{frozenset({*kinds, _NOTHING}): _numbers_with_gaps for kinds in ({int}, {float}, {int, float})},
}
