"""Named SQL statements for both databases: dialects, parameters and arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

# One SQL text for both databases: named statements, named parameters, and a handful of fragments.
#
# `-- name: list_<state> of ready, waiting` makes a statement for each of these words, which stand in place of
# `<state>`: a partial index is only found by a state that is written out.
#
# `-- only sqlite` before a statement of a migration leaves it out on the other one.
#
# A fragment stands where the databases differ. `{rows id bigint, fence bigint}` is a table of parameters called
# `given`: arrays on PostgreSQL, run once; one row at a time on SQLite, where a statement costs next to nothing. There
# an update `from {rows ...}` has plain parameters in place of the table, which spares it a copy of every page that it
# changes; so has an insert whose columns all stand as `given.x`, which is then one of values.


class Dialect(StrEnum):
    SQLITE = "sqlite"
    POSTGRES = "postgres"


@dataclass(frozen=True, slots=True)
class Statement:
    """One named statement, ready for its database."""

    name: str
    sql: str
    columns: tuple[str, ...] = ()  # of its {rows}; empty when it has none
    returns: bool = True  # rows
    numbered: tuple[str, ...] = ()  # the names of its parameters from $1 on, where they have numbers
    one: Statement | None = None  # for a single row of parameters, where that is quicker


_NEXT_JOB = (
    "max(coalesce((select max(id) from tg_job), 0),"
    " coalesce((select cast(value as integer) from tg_store where name = 'forgotten'), 0)) + 1"
)
FRAGMENTS: Mapping[str, tuple[str, str]] = {
    # name: on SQLite, on PostgreSQL
    "serial": ("integer primary key autoincrement", "bigint generated always as identity primary key"),
    # Without autoincrement SQLite writes one page less per row. For ids that may be reused or come from elsewhere.
    "row_number": ("integer primary key", "bigint generated always as identity primary key"),
    # The number of a new job, where the database does not see to it by itself: the column, and its value.
    "job": ("id, ", ""),
    "job_number": (f"{_NEXT_JOB}, ", ""),
    "skip_locked": ("", "for update skip locked"),
    "for_update": ("", "for update"),
    "not_removed": ("", "for key share"),
    # A subquery is asked once per statement, so an index can be searched for it; a bare clock is asked for each row.
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
_PARAMETER = re.compile(r"'(?:[^']|'')*'|(?<![:\w]):([a-z_][a-z0-9_]*)")  # or a text, which has none
_TEXT = re.compile(r"'(?:[^']|'')*'")
_CHANGES = re.compile(r"\b(insert|update|delete)\b", re.IGNORECASE)
_RETURNS = re.compile(r"\breturning\b", re.IGNORECASE)
_ONLY = re.compile(r"-- only (sqlite|postgres)")
_NAME = re.compile(r"^-- name: *([a-z][a-z0-9_.]*) *$")
_NAMES = re.compile(r"^-- name: *([a-z][a-z0-9_.]*<([a-z]+)>[a-z0-9_.]*) of ([a-z_]+(?:, [a-z_]+)*) *$")


@lru_cache(256)
def statements(text: str, dialect: Dialect, prefix: str = "") -> tuple[Statement, ...]:
    """The statements of a file; ValueError for a name that stands twice, no name, or an unknown fragment."""
    seen, found = set[str](), list[Statement]()
    for name, body in _blocks(text):
        if name in seen:
            raise ValueError(f"statement {name!r} stands twice")
        seen.add(name)
        found.append(compiled(prefix + name, body, dialect))
    return tuple(found)


def bodies(text: str) -> dict[str, str]:
    """The statements of a file as they stand there, by name."""
    return dict(_blocks(text))


@lru_cache(4096)  # an application is installed once for each queue
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
    """A statement that can do without its table of parameters, and the columns of that; None for all others."""
    if update := _UPDATE_FROM.fullmatch(body):
        return update[1] + update[3], update[2]
    insert = _INSERT_FROM.fullmatch(body)
    if insert is None:
        return None
    columns = "|".join(_rows(insert[3], Dialect.SQLITE, one=True)[1])
    if re.search(rf"(?<![.:\w])(?:{columns})\b", _TEXT.sub("''", insert[2])):
        return None  # one that is not called given.x
    return f"{insert[1]}values ({insert[2]}){insert[4]}", insert[3]


def _expanded(name: str, body: str, dialect: Dialect, *, one: bool = False) -> tuple[str, tuple[str, ...]]:
    """The text with its fragments, and the columns of its {rows}."""
    columns: tuple[str, ...] = ()

    def expand(found: re.Match[str]) -> str:
        nonlocal columns
        if found[1] == "rows":
            sql, columns = _rows(found[2], dialect, one=one)
            return sql
        if found[1] not in FRAGMENTS or found[2].strip():
            raise ValueError(f"statement {name!r}: there is no fragment {found[0]!r}")
        return FRAGMENTS[found[1]][dialect is Dialect.POSTGRES]

    return _FRAGMENT.sub(expand, body).strip(), columns


def _numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """As PostgreSQL has parameters, and their names in order."""
    names: dict[str, int] = {}
    text = _PARAMETER.sub(lambda found: f"${names.setdefault(found[1], len(names) + 1)}" if found[1] else found[0], sql)
    return text, tuple(names)


def script(text: str, dialect: Dialect) -> list[str]:
    """The statements of a migration, in order; each ends with a semicolon at the end of a line."""
    lines = [line for line in text.splitlines() if _ONLY.fullmatch(line) or not line.lstrip().startswith("--")]
    parts = [part.strip() for part in re.split(r";[ \t]*(?:\n|$)", "\n".join(lines))]
    found = []
    for part in filter(None, parts):
        first, _, rest = part.partition("\n")
        only = _ONLY.fullmatch(first)
        if only is None or only[1] == dialect:
            found.append(compiled("migration", rest if only else part, dialect).sql)
    return found


def _rows(spec: str, dialect: Dialect, *, one: bool) -> tuple[str, tuple[str, ...]]:
    pairs = [part.split() for part in spec.split(",")]
    if not pairs or any(len(pair) < 2 for pair in pairs):
        raise ValueError(f"{{rows{spec}}}: give a name and a type for each column")
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
            raise ValueError(f"a statement without a name: {line.strip()[:60]!r}")
    yield from _named(head, _body(body))


def _named(head: str, body: str) -> Iterator[tuple[str, str]]:
    """The one statement of a block, or one for each of the words that stand in its place."""
    several = _NAMES.match(head)
    if several is None:
        one = _NAME.match(head)
        yield from [(one[1], body)] if one else []
        return
    for word in several[3].split(", "):
        yield several[1].replace(f"<{several[2]}>", word), body.replace(f"<{several[2]}>", word)


def _body(lines: list[str]) -> str:
    return "\n".join(line for line in lines if not line.startswith("--")).strip().removesuffix(";")


# Arrays as PostgreSQL reads them. Its driver dumps value by value, which took longer than the rest of a batch.

_NOTHING = type(None)


def array(values: list[Any]) -> Any:
    """The literal of an array of texts or numbers; of anything else the list as it is, for the driver to dump."""
    kinds = frozenset(map(type, values))
    written = _WRITTEN.get(kinds)
    return values if written is None else written(values)


def _texts(values: list[str]) -> Any:
    one = "\0".join(values)
    if one.count("\0") >= len(values):
        return values  # no database keeps a NUL: the driver says so
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


_WRITTEN: dict[frozenset[type], Callable[[Any], Any]] = {
    frozenset({str}): _texts,
    frozenset({str, _NOTHING}): _texts_with_gaps,
    frozenset({_NOTHING}): _gaps,
    **{frozenset(kinds): _numbers for kinds in ({int}, {float}, {int, float})},
    **{frozenset({*kinds, _NOTHING}): _numbers_with_gaps for kinds in ({int}, {float}, {int, float})},
}
