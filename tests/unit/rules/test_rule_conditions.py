"""Each condition of a rule alone, and how a pack chooses among its rules."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.faults.failing import AppError
from tidegate.faults.confirm import Confirm
from tidegate.faults.evidence import Evidence
from tidegate.faults.exceptions import ExceptionKind
from tidegate.faults.fault import Reach
from tidegate.faults.rule import ANY, Pack, Rule

JSON = b'{"error": {"code": 5, "list": [{"a": "x"}, [], null], "yes": true, "half": 0.5, "many": [1]}}'


def rule(name: str = "odd", code: str | None = "gone", **given: Any) -> Rule:
    return Rule(name=name, code=code, **given)


def seen(body: bytes | None = None, error: BaseException | None = None, **given: Any) -> Evidence:
    return Evidence(error, given.pop("response", None), body=body, **given)


def document(value: object) -> Evidence:
    return seen(json.dumps(value).encode())


def test_a_rule_has_no_condition_but_those_that_are_given() -> None:
    plain = rule(status=404)

    assert (plain.kind, plain.says, plain.html, plain.test, plain.reach, plain.after) == (None,) * 6
    assert (plain.json, plain.text, plain.header, plain.path) == ({}, (), {}, ())
    assert plain.matches(seen())
    assert plain == rule(status=404)
    assert "_needles" not in repr(rule(json={"a": 1}))


@pytest.mark.parametrize(
    ("given", "reads", "needs"),
    [
        ({"status": 404}, False, False), ({"kind": ExceptionKind.CUT}, False, False), ({"path": "/a"}, False, False),
        ({"header": {"a": "b"}}, False, False), ({"json": {"a": 1}}, True, True), ({"text": "a"}, True, True),
        ({"html": True}, True, True), ({"html": False}, True, True), ({"says": 0}, True, True),
        ({"test": bool}, False, True), ({"status": 404, "after": lambda seen: 1.0}, False, True),
    ],
)  # fmt: skip
def test_a_rule_says_whether_it_reads_the_body(given: dict[str, Any], reads: bool, needs: bool) -> None:
    odd = rule(**given)

    assert (odd.reads_body, odd.needs_body) == (reads, needs)
    pack = Pack("a", [rule("other", status=410), odd], says=lambda seen: 1)
    assert pack.needs_body(404) is needs
    assert pack.needs_body(405) is (needs and "status" not in given)


@pytest.mark.parametrize(
    ("status", "spoken", "not_spoken"),
    [
        (None, (0, 200, 404), ()), (404, (404,), (0, 403, 405)), ((0, 404), (0, 404), (403,)),
        (range(500, 600), (500, 599), (499, 600)), (0, (0,), (404,)),
    ],
)  # fmt: skip
def test_a_rule_speaks_of_the_statuses_it_names(status: Any, spoken: Any, not_spoken: Any) -> None:
    odd = rule(status=status, test=bool)

    assert all(odd.speaks_of(each) for each in spoken)
    assert not any(odd.speaks_of(each) for each in not_spoken)


@pytest.mark.parametrize(
    ("want", "said", "holds"),
    [
        (9, 9, True), (9, 8, False), (9, None, False), (0, 0, True), ("a", "a", True), ("a", "ab", False),
        ("ab", "a", False), ({8, 9}, 9, True), ({8, 9}, 7, False), ({8, 9}, None, False), (("a", "b"), "b", True),
        (ANY, 0, True), (ANY, "", True), (ANY, None, False),
    ],
)  # fmt: skip
def test_what_a_service_says_is_one_value_one_of_several_or_anything(want: Any, said: Any, holds: bool) -> None:
    assert rule(says=want).matches(seen(), said) is holds
    assert (Pack("a", [rule(says=want)], says=lambda seen: said).first(seen(status=404)) is not None) is holds


@pytest.mark.parametrize(
    ("path", "want", "holds"),
    [
        ("error.code", 5, True), ("error.code", 6, False), ("error.code", "5", False), ("error.code", 5.0, False),
        ("error.code", ANY, True), ("error.code", {4, 5}, True), ("error.code", frozenset({5}), True),
        ("error.code", {4, 6}, False), ("error.yes", True, True), ("error.yes", 1, False), ("error.half", {0.5}, True),
        ("error.list.0.a", "x", True), ("error.list.0.a", {"y"}, False), ("error.list.1", [], True),
        ("error.list.2", None, True), ("error.list.2", {None}, True), ("error.list.2", ANY, True),
        ("error.list.3", ANY, False), ("error.list.x", ANY, False), ("error.list.-1", ANY, False),
        ("error.many", {1}, False), ("error.many", [1], True), ("error.many.0", 1, True), ("error.code.0", ANY, False),
        ("error.missing", ANY, False), ("error", ANY, True), ("missing", None, False), ("error.0", ANY, False),
    ],
)  # fmt: skip
def test_a_path_leads_through_names_and_places_to_a_value_of_the_same_type(path: str, want: Any, holds: bool) -> None:
    assert rule(json={path: want}).matches(seen(JSON)) is holds


def test_every_path_must_hold_and_names_are_found_however_they_are_written() -> None:
    assert rule(json={"error.code": 5, "error.yes": True}).matches(seen(JSON))
    assert not rule(json={"error.code": 5, "error.yes": False}).matches(seen(JSON))
    assert not rule(json={"error.code": 6, "error.yes": True}).matches(seen(JSON))
    assert rule(json={"f\u00e4ult": 1}).matches(document({"f\u00e4ult": 1}))  # written with a backslash
    assert rule(json={"7": 1}).matches(document({"7": 1}))
    assert not rule(json={"a": 1}).matches(seen(b'no json, but it says "a"'))
    # A name of ours that is only there in a spelling that nobody uses costs nothing to miss.
    assert not rule(json={"a": 1}).matches(seen(b'{"\\u0061": 1}'))


@pytest.mark.parametrize(
    ("given", "evidence", "holds"),
    [
        ({"kind": ExceptionKind.CUT}, seen(kind=ExceptionKind.CUT), True),
        ({"kind": ExceptionKind.CUT}, seen(kind=ExceptionKind.DNS), False),
        ({"kind": (ExceptionKind.CUT, ExceptionKind.DNS)}, seen(kind=ExceptionKind.DNS), True),
        ({"kind": ExceptionKind.CUT}, seen(), False),
        ({"html": True}, seen(b" <html>"), True),
        ({"html": False}, seen(b" <html>"), False),
        ({"html": True}, seen(b"text"), False),
        ({"html": False}, seen(b"text"), True),
        ({"text": "busy"}, seen(b"We are BUSY."), True),
        ({"text": ("a b", "busy")}, seen(b"busy"), True),
        ({"text": ("a b", "c")}, seen(b"ab"), False),
        ({"text": "b\u00fcsy"}, seen("b\u00fcsy".encode()), True),
        ({"path": "/art"}, seen(url="https://a.test/x/art/7?y"), True),
        ({"path": "/art"}, seen(url="/x?/art"), False),
        ({"path": ("/b", "/art")}, seen(url="https://a.test/art"), True),
        ({"path": "/art"}, seen(), False),
        ({"header": {"X-Who": "shed"}}, seen(response=SimpleNamespace(headers={"x-who": "A Shed"})), True),
        ({"header": {"x-who": "shed"}}, seen(response=SimpleNamespace(headers={"x-who": "other"})), False),
        ({"header": {"x-who": "shed"}}, seen(), False),
        ({"header": {"a": "b", "c": "d"}}, seen(response=SimpleNamespace(headers={"a": "b", "c": "d"})), True),
        ({"header": {"a": "b", "c": "d"}}, seen(response=SimpleNamespace(headers={"a": "b"})), False),
        ({"header": {"a": "b", "c": "d"}}, seen(response=SimpleNamespace(headers={"c": "d"})), False),
        ({"test": lambda seen: seen.status == 7}, seen(status=7), True),
        ({"test": lambda seen: []}, seen(status=7), False),
    ],
)
def test_each_condition_holds_or_not(given: dict[str, Any], evidence: Evidence, holds: bool) -> None:
    assert rule(**given).matches(evidence) is holds


@pytest.mark.parametrize(
    ("body", "page"),
    [(b'{"a": 1}', False), (b"\n [1]", False), (b" " * 63 + b"{", False), (b" " * 64 + b"{", True), (b"text", True)],
)
def test_what_begins_as_json_is_no_page_whatever_its_label(body: bytes, page: bool) -> None:
    labelled = seen(body, response=SimpleNamespace(headers={"content-type": "text/html"}))

    assert rule(html=True).matches(labelled) is page
    assert rule(html=False).matches(labelled) is not page


@pytest.mark.parametrize(
    ("after", "wait"),
    [(5, 5.0), (0.25, 0.25), (0, None), (-1, None), (None, None), (float("inf"), None), ("5", None), (True, 1.0)],
)
def test_a_hint_to_wait_is_a_number_ahead_or_nothing(after: Any, wait: float | None) -> None:
    found = rule(status=429, after=lambda seen: after).asks_to_wait(seen())

    assert found == wait
    assert type(found) is type(wait)
    assert rule(status=429).asks_to_wait(seen()) is None


ALL = Pack(
    "all",
    [
        rule("none", status=0, path="/none"), rule("words", text="user"), rule("said", says="it"),
        rule("named", status=(302, 400, 404), path="/art"), rule("zero", status=0),
    ],
    says=lambda seen: "it" if "it" in seen.text else None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("evidence", "name"),
    [
        (seen(error=AppError("user it")), "words"),
        (seen(error=AppError("it")), "said"),
        (seen(error=AppError("x")), "zero"),
        (seen(error=KeyError("user it")), "zero"),
        (seen(error=AppError("user it"), kind=ExceptionKind.CUT), "zero"),
        (seen(kind=ExceptionKind.CUT, url="/none"), "none"),
        (seen(error=AppError("status 404"), url="/art"), "named"),
        (seen(error=AppError("status 404")), None),
        (seen(error=AppError("status 400"), url="/art"), "named"),
        (seen(error=AppError("status 302"), url="/art"), "zero"),
        (seen(error=AppError("status 404"), kind=ExceptionKind.CUT, url="/art"), "zero"),
        (seen(status=404, kind=ExceptionKind.CUT, error=AppError("user")), "words"),
        (seen(status=500, error=AppError("x")), None),
        (seen(status=500, error=AppError("status 404"), url="/art"), None),
        (seen(status=404, error=KeyError("it")), "said"),
    ],
)
def test_a_type_outweighs_words_and_without_a_status_the_one_that_is_said_chooses(
    evidence: Evidence, name: str | None
) -> None:
    found = ALL.first(evidence)

    assert (found and found.name) == name


def test_a_rule_that_raises_is_passed_over_and_the_next_is_asked() -> None:
    broken = rule("broken", test=lambda seen: bool(1 // 0))
    pack = Pack("a", [broken, rule("next", status=404)], says=lambda seen: 1 // 0)

    assert pack.first(seen(status=404)) is pack.rules[1]
    assert Pack("a", [rule(says=ANY), rule("next", status=404)], says=lambda seen: 1 // 0).first(seen(status=404))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('refused: {"a": {"b": 1}} sorry', {"a": {"b": 1}}), ('{"a": 1} said the service', {"a": 1}),
        ("{'a': 1}", None), ("} {", None), ("no {", None), ("no }", None), ("{" * 4000 + "}", None), ("x", None),
        ("[1]", [1]), ('[{"a": 1}]', [{"a": 1}]), ('{"a": 1}, it said', {"a": 1}),
        ('x {"a": ' + "[" * 4000 + "}", None), ('{"a": "{"}', {"a": "{"}),
    ],
)  # fmt: skip
def test_a_message_that_quotes_an_answer_is_read_as_that_answer(text: str, found: object) -> None:
    evidence = seen(error=AppError(text))
    Pack("a", [rule(status=404)]).first(evidence)

    assert evidence.json == found


def test_a_service_is_heard_only_where_a_rule_wants_to_know() -> None:
    heard: list[Evidence] = []
    Pack("a", [rule(status=404)], says=heard.append).first(seen(status=404))
    asking = Pack("a", [rule(says=1)], says=heard.append)
    asking.first(seen(kind=ExceptionKind.CUT))
    assert heard == []
    asking.first(seen(status=404))
    assert len(heard) == 1


def test_a_pack_keeps_what_it_was_given() -> None:
    doubt = Confirm("gone")
    pack = Pack("acme", iter([rule(status=404)]), confirm=iter([doubt]))

    assert (pack.name, pack.rules, pack.codes, pack.confirm) == ("acme", (rule(status=404),), (), (doubt,))
    assert pack.says is None
    assert repr(pack) == "<Pack 'acme' of 1 rules>"
    assert "gone" in pack.code_book
    assert Pack("a", [rule(status=404, reach=Reach.OPERATION)]).rules[0].reach is Reach.OPERATION
    with pytest.raises(ValueError, match="condition"):
        rule(text="", path="")
    with pytest.raises(ValueError, match=r"^pack 'a': rule 'b' "):
        Pack("a", [rule(each, status=404) for each in ("d", "c", "b", "c", "b")])
