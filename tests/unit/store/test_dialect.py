from __future__ import annotations

import re

import pytest

from tidegate.store import sql as store_sql
from tidegate.store.base import StatementRegistry
from tidegate.store.migrate import core_migrations
from tidegate.store.open import core_statements, core_text
from tidegate.store.sql import Dialect, Statement, compiled, script, statements

SQLITE, POSTGRES = Dialect.SQLITE, Dialect.POSTGRES


def one(body: str, on: Dialect = POSTGRES) -> Statement:
    return compiled("s", body, on)


def test_a_file_is_a_row_of_named_statements() -> None:
    text = "-- All of them.\n\n-- name: first\n-- What it does.\nselect 1;\n\n-- name: second.part\nselect\n    2;\n"

    found = list(statements(text, SQLITE, prefix="app."))

    assert [(each.name, each.sql) for each in found] == [
        ("app.first", "select 1"),
        ("app.second.part", "select\n    2"),
    ]


def test_one_text_can_make_a_statement_for_each_of_some_words() -> None:
    text = "-- name: list_<state>_n of ready, done\nselect '<state>';\n\n-- name: last\nselect 2;\n"

    assert [(each.name, each.sql) for each in statements(text, SQLITE)] == [
        ("list_ready_n", "select 'ready'"),
        ("list_done_n", "select 'done'"),
        ("last", "select 2"),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("select 1;", "name"),
        ("-- name: a\nselect 1;\n-- name: a\nselect 2;", "'a' is defined twice"),
        ("-- name: a<b> of x, x\nselect 1;", "'ax' is defined twice"),
        ("-- name: a\nselect {nothing};", "'{nothing}'"),
        ("-- name: a\nselect {now 7};", "'{now 7}'"),
        ("-- name: a\nselect * from {rows};", "{rows"),
        ("-- name: a\nselect * from {rows id};", "{rows"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        list(statements(text, POSTGRES))


def test_parameters_are_written_as_the_library_wants_them() -> None:
    body = "select :a, x::text, :b_2 from t where c = :a and d like '%' and e = ':no' and f = 'it''s :no'"

    assert one(body, SQLITE).sql == body
    assert (
        one(body).sql == "select $1, x::text, $2 from t where c = $1 and d like '%' and e = ':no' and f = 'it''s :no'"
    )
    assert one(body).numbered == ("a", "b_2")


def test_a_table_of_parameters_is_arrays_or_one_row() -> None:
    body = "select * from {rows id bigint, at double precision}"
    found = one(body)

    assert found.columns == ("id", "at")
    assert found.sql == "select * from unnest($1::bigint[], $2::double precision[]) as given(id, at)"
    single = "select * from (select $1::bigint as id, $2::double precision as at) as given"
    assert found.one == Statement("s", single, numbered=("id", "at"))
    assert one(body, SQLITE) == Statement("s", "select * from (select :id as id, :at as at) as given", ("id", "at"))


def test_an_update_of_named_rows_takes_plain_parameters_where_rows_come_one_by_one() -> None:
    body = "update t set a = given.a from {rows id bigint, a text} where t.id = given.id returning a"

    assert one(body, SQLITE) == Statement("s", "update t set a = :a  where t.id = :id returning a", ("id", "a"))
    assert one(body, POSTGRES).sql.endswith("as given(id, a) where t.id = given.id returning a")


@pytest.mark.parametrize(
    ("body", "sql"),
    [
        (
            "insert into t (a, b) select given.a, coalesce(given.b, {now}) from {rows a int, b int} where true",
            "insert into t (a, b) values (:a, coalesce(:b, :now))",
        ),
        (
            "insert into t (a) select given.a from {rows a int} where true on conflict (a) do nothing returning a",
            "insert into t (a) values (:a) on conflict (a) do nothing returning a",
        ),
        (
            "insert into t (a, b) select given.a, b from {rows a int, b int} where true",
            "insert into t (a, b) select given.a, b from (select :a as a, :b as b) as given where true",
        ),
        (
            "insert into t (a) select given.a from {rows a int} where given.a > 0",
            "insert into t (a) select given.a from (select :a as a) as given where given.a > 0",
        ),
    ],
)
def test_an_insert_of_given_columns_is_one_of_values_where_rows_come_one_by_one(body: str, sql: str) -> None:
    found = one(body, SQLITE)

    assert found.sql == sql
    assert found.columns[0] == "a"
    assert "unnest" in one(body).sql


@pytest.mark.parametrize(
    ("body", "returns"),
    [
        ("select 1", True), ("with x as (select 1) select * from x", True), ("insert into t values (1)", False),
        ("insert into t values (1) returning id", True), ("update t set a = 1", False), ("delete from t", False),
        ("with x as (select 1) update t set a = 1 from x returning a", True), ("select 'delete' from t", True),
        ("select a from t {for_update}", True), ("INSERT INTO t VALUES (1) RETURNING a", True),
        ("insert into t values ('returning')", False),
    ],
)  # fmt: skip
def test_it_is_known_which_statements_return_rows(body: str, returns: bool) -> None:
    assert one(body).returns == one(body, SQLITE).returns == returns


def test_a_migration_is_split_at_the_ends_of_its_lines() -> None:
    text = (
        "-- Why.\ncreate table a (x text default 'a;b');\n\n  -- more\ncreate index i\n    on a (x); \nselect '100%';\n"
    )

    assert script(text, SQLITE) == [
        "create table a (x text default 'a;b')",
        "create index i\n    on a (x)",
        "select '100%'",
    ]
    assert script(text, POSTGRES)[2] == "select '100%'"


def test_a_step_of_a_migration_can_be_for_one_database_only() -> None:
    text = "-- Why.\n-- only sqlite\nselect 1;\n\n-- only postgres\nselect 2;\nselect 3;\n"

    assert script(text, SQLITE) == ["select 1", "select 3"]
    assert script(text, POSTGRES) == ["select 2", "select 3"]


def test_there_are_only_a_handful_of_fragments_and_each_is_used() -> None:
    text = "".join(each.text for each in core_migrations()) + core_text()
    names = set(store_sql.FRAGMENTS)

    assert len(names | {"rows"}) <= 11
    assert {name for name in names if "{" + name + "}" not in text} == set()


def test_both_databases_have_the_same_statements_with_the_same_columns() -> None:
    here, there = core_statements(SQLITE), core_statements(POSTGRES)

    assert [(each.name, each.columns, each.returns) for each in here] == [
        (each.name, each.columns, each.returns) for each in there
    ]


@pytest.mark.parametrize("on", list(Dialect))
def test_whatever_is_written_under_a_lease_names_id_fence_and_state(on: Dialect) -> None:
    book = {each.name: each.sql for each in core_statements(on)}

    for name in ("settle", "renew", "save", "still_mine", "take_back"):
        condition = re.split(r"\b(?:where|join)\b", book[name], maxsplit=1)[1]
        assert re.search(r"\bid = ", condition), name
        assert re.search(r"\bfence = ", condition), name
        assert "state || '' = 'running'" in condition, name


def test_states_are_literal_so_that_partial_indexes_are_used() -> None:
    for each in core_statements(POSTGRES):
        if each.name == "old_jobs":
            continue  # its index has the state as a column
        looked_for = each.sql.partition("where")[2]  # what is set before that is read by no index
        assert not re.search(r"(?<!\.)\bstate = %\(", looked_for) or "''" in looked_for, each.name


def test_each_statement_says_what_it_is_for_or_its_name_does() -> None:
    names = re.findall(r"^-- name: (\S+)$", core_text(), re.MULTILINE)

    assert len(names) == len(set(names)) > 50


def test_a_book_knows_its_statements_by_name() -> None:
    book = StatementRegistry([Statement("a", "select 1")])
    book.add([Statement("b", "select 2")])

    assert book["b"].sql == "select 2"
    with pytest.raises(KeyError, match="'c'"):
        book["c"]
    with pytest.raises(ValueError, match="'a' is defined twice"):
        book.add([Statement("a", "select 3")])
