"""A pack of one's own: ten lines, and refused at once when it cannot work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.rules.case import Refused, answer, verdict_of
from tidegate.faults.classification import classify
from tidegate.faults.evidence import Evidence
from tidegate.faults.rule import pack_of
from tidegate.rules import ANY, Code, Confirm, ExceptionKind, Pack, Reach, Reason, Rule, spotify

CLOSED = Code(
    name="shop_closed", reason=Reason.OVERLOADED, reach=Reach.TARGET, message="The shop is closed.", advice="Wait."
)
ACME = Pack(
    "acme",
    [
        Rule(name="no-art", code=None, status=404, path="/art"),
        Rule(name="quota", code="quota_exhausted", status=429, json={"error.code": "insufficient_quota"}),
        Rule(name="closed", code="shop_closed", status=range(500, 600), header={"x-shop": "closed"}),
        Rule(name="first-bad", code="bad_request", status=200, json={"results.0.state": {"bad", "worse"}}),
        Rule(name="any-error", code="upstream_failure", status=200, json={"error": ANY}),
        Rule(name="slow", code="overloaded", kind=(ExceptionKind.TIMEOUT, ExceptionKind.POOL)),
    ],
    codes=[CLOSED],
)


@pytest.mark.req("SYNC-04")
@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (answer(404, b"", "https://acme.test/art/7"), "good"),
        (answer(404, b"", "https://acme.test/song/7"), "fatal/item/item"),
        (Refused(answer(404, b"", "https://acme.test/art/7")), "good"),
        (answer(429, {"error": {"code": "insufficient_quota"}}), "fatal/quota/target"),
        (answer(429, {"error": {"code": "other"}}), "retriable/throttled/credential"),
        (answer(503, b"", x_shop="We are CLOSED"), "retriable/overloaded/target"),
        (answer(503, b""), "retriable/overloaded/target"),
        (answer(200, {"results": [{"state": "worse"}]}), "fatal/item/item"),
        (answer(200, {"results": []}), "good"),
        (answer(200, {"results": [{"state": ["bad"]}]}), "good"),
        (answer(200, {"error": None}), "retriable/transient/target"),
        (answer(200, {"fine": True}), "good"),
        (TimeoutError("too slow"), "retriable/overloaded/target"),
    ],
)
def test_a_pack_of_ten_lines_decides_before_the_general_rules(given: object, verdict: str) -> None:
    assert verdict_of(classify(given, ACME)) == verdict


def test_plain_rules_need_no_pack_around_them() -> None:
    fault = classify(answer(418), [Rule(name="teapot", code="not_supported", status=418)])

    assert fault is not None
    assert (fault.code, fault.rule) == ("not_supported", "own:teapot")


def test_the_first_rule_that_matches_decides() -> None:
    one, other = Rule(name="one", code="gone", status=404), Rule(name="other", code=None, status=404)

    assert classify(answer(404), Pack("a", [other, one])) is None
    assert classify(answer(404), Pack("a", [one, other])) is not None


def test_a_pack_can_be_made_larger_from_outside() -> None:
    mine = Rule(name="mine", code="gone", status=404, path="/old")
    larger = Pack("mine", [mine, *spotify.rules], codes=spotify.codes, confirm=spotify.confirm)

    fault = classify(answer(404, b"", "https://api.test/old"), larger)
    assert fault is not None
    assert fault.code == "gone"
    fault = classify(answer(400, {"error": "invalid_grant"}), larger)
    assert fault is not None
    assert fault.code == "grant_revoked"


def broken(seen: Evidence) -> Any:
    raise LookupError("what is this?")


@pytest.mark.req("SYNC-02")
@pytest.mark.parametrize(
    "pack",
    [
        Pack("a", [Rule(name="test", code="gone", status=404, test=broken)]),
        Pack("a", [Rule(name="says", code="gone", says=ANY)], says=broken),
        Pack("a", [Rule(name="after", code="not_found", status=404, after=broken)]),
    ],
    ids=["test", "says", "after"],
)
def test_a_function_that_raises_never_harms_the_verdict(pack: Pack) -> None:
    fault = classify(answer(404), pack)

    assert fault is not None
    assert fault.code == "not_found"
    assert fault.retry_after is None


def test_a_hint_to_wait_is_a_lower_bound_beside_retry_after_and_zero_is_no_permission() -> None:
    def waiting(seconds: float) -> Pack:
        return Pack("a", [Rule(name="wait", code="rate_limited", status=429, after=lambda seen: seconds)])

    def asked(pack: Pack, **headers: str) -> float | None:
        fault = classify(answer(429, b"", **headers), pack)
        assert fault is not None
        return fault.retry_after

    assert asked(waiting(5)) == 5
    assert asked(waiting(5), retry_after="9") == 9
    assert asked(waiting(5), retry_after="2") == 5
    assert asked(waiting(5), retry_after="0") == 5
    assert asked(waiting(0), retry_after="0") is None
    assert asked(waiting(-1)) is None
    assert asked(waiting(float("inf"))) is None
    assert asked(waiting(float("nan"))) is None


def test_what_an_exception_is_outweighs_what_its_message_says() -> None:
    pack = Pack("a", [Rule(name="words", code="gone", text="gone for good")])

    assert verdict_of(classify(ConnectionResetError("gone for good"), pack)) == "retriable/transient/target"
    assert verdict_of(classify(RuntimeError("gone for good"), pack)) == "fatal/item/item"


def test_the_status_that_a_message_names_chooses_the_rules() -> None:
    pack = Pack("a", [Rule(name="no-art", code=None, status=404)])

    assert classify(RuntimeError("acme returned status 404"), pack) is None
    assert classify(RuntimeError("acme returned status 403"), pack) is not None


def test_neither_a_message_about_a_good_status_nor_a_bug_of_our_own_is_read_as_an_answer() -> None:
    pack = Pack("a", [Rule(name="odd", code="gone", status=200), Rule(name="words", code="gone", text="no such key")])

    assert verdict_of(classify(RuntimeError("decoding failed after HTTP 200"), pack)) == "retriable/transient/target"
    assert verdict_of(classify(TypeError("no such key"), pack)) == "retriable/transient/target"


def test_json_that_is_labelled_as_a_page_is_no_page() -> None:
    pack = Pack("a", [Rule(name="page", code="html_answer", status=200, html=True)])

    assert classify(answer(200, {"fine": True}, content_type="text/html"), pack) is None
    assert classify(answer(200, "  <HTML>", content_type="text/plain"), pack) is not None


def test_a_pack_says_which_answers_it_must_see_the_body_of() -> None:
    assert ACME.needs_body(429)
    assert ACME.needs_body(200)
    assert not ACME.needs_body(404)
    assert not ACME.needs_body(503)


GONE = Rule(name="gone", code="gone", status=410)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Pack("acme", [Rule(name="x", code="no_such", status=404)]), "'acme', rule 'x'.* has no 'no_such'"),
        (lambda: Pack("acme", [GONE, GONE]), "'acme': rule 'gone' stands twice"),
        (lambda: Pack("ac me", [GONE]), "pack 'ac me': a name has"),
        (lambda: Pack("acme", [], codes=[CLOSED, CLOSED]), "'acme': code 'shop_closed' stands twice"),
        (lambda: Pack("acme", [], codes=[ACME.code_book["gone"]]), "'acme': code 'gone' stands twice"),
        (lambda: Pack("acme", [Rule(name="x", code="gone", says=9)]), "'acme', rule 'x': it has says="),
        (lambda: Pack("acme", [Rule(name="x", code="gone", status=410, reach=Reach.TARGET)]),
         "'acme', rule 'x': .*target"),
        (lambda: Pack("acme", [Rule(name="x", code="unauthorized", status=401, reach=Reach.ITEM)]),
         "'acme', rule 'x': .*item"),
        (lambda: Pack("acme", [], confirm=[Confirm("no_such")]), "'acme', Confirm: .*'no_such'"),
        (lambda: Pack("acme", [], confirm=[Confirm("gone", becomes="no_such")]), "Confirm: .*'no_such'"),
        (lambda: Pack("acme", [], confirm=[Confirm("gone", until_then="huh")]), "Confirm: .*'huh'"),
        (lambda: Pack("acme", [], confirm=[Confirm("gone"), Confirm("gone")]), "Confirm 'gone' stands twice"),
        (lambda: Rule(name="", code="gone", status=410), "rule '': a name has"),
        (lambda: Rule(name="x", code="gone"), "rule 'x': .*condition"),
        (lambda: Rule(name="x", code="gone", status=99), "rule 'x': status 99"),
        (lambda: Rule(name="x", code="gone", status=(200, 600)), "rule 'x': status .*600"),
        (lambda: Rule(name="x", code="gone", text="Gone"), "rule 'x': 'Gone' never matches"),
        (lambda: Rule(name="x", code="gone", text=("gone", "")), "rule 'x': '' never matches"),
        (lambda: Rule(name="x", code="gone", header={"x-who": "Shed"}), "rule 'x': 'Shed' never matches"),
        (lambda: Confirm("gone", times=0), "Confirm.times: 0"),
        (lambda: Confirm("gone", fewer_than=1), "Confirm.fewer_than: 1"),
        (lambda: Confirm("gone", good=True, becomes="not_found"), "Confirm.becomes: 'not_found'"),
        (lambda: Confirm("gone", unless_worked=True, only_worked=True), "Confirm.only_worked: "),
        (lambda: Confirm("gone", apart="soon"), "Confirm.apart: 'soon'"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_and_named(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_rules_of_ones_own_are_a_pack_of_the_targets_name_if_that_is_one() -> None:
    rules = [Rule(name="odd", code="gone", status=404)]
    assert [found.name for name in ("api", "my api!") if (found := pack_of(rules, name))] == ["api", "own"]
    assert pack_of(None, "api") is None
    pack = Pack("acme", rules)
    assert pack_of(pack, "api") is pack


def test_what_asks_once_more_may_be_any_function() -> None:
    assert Confirm("gone", probe=print).probe is print
