"""What holds for every pack and every row of its table."""

from __future__ import annotations

import re
import sys
import timeit
from collections.abc import Callable

import httpx2
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

import tidegate.rules
from tests.unit.rules import (
    test_fanart,
    test_lastfm,
    test_lidarr,
    test_musicbrainz,
    test_navidrome,
    test_openai,
    test_spotify,
    test_tautulli,
)
from tests.unit.rules.case import GOOD, Answer, Case, Refused, answer, as_httpx2, as_requests, decided_by, verdict_of
from tidegate import rules
from tidegate.faults.classification import classify
from tidegate.faults.fault import Fault, Reach
from tidegate.faults.rule import Pack

TABLES = (
    test_navidrome,
    test_spotify,
    test_lastfm,
    test_musicbrainz,
    test_fanart,
    test_openai,
    test_lidarr,
    test_tautulli,
)
ROWS = [(table.PACK, case) for table in TABLES for case in table.CASES]
ANSWERED = [(pack, case) for pack, case in ROWS if isinstance(case.given, Answer)]
NAMES = [f"{pack.name}: {case.row}" for pack, case in ANSWERED]


def test_every_pack_has_a_table() -> None:
    assert [table.PACK for table in TABLES] == list(rules.PACKS)


@pytest.mark.req("SYNC-04")
def test_every_rule_decides_at_least_one_row() -> None:
    deciding = {(pack.name, decided_by(case, pack)) for pack, case in ROWS}
    idle = [f"{pack.name}:{rule.name}" for pack in rules.PACKS for rule in pack.rules
            if (pack.name, rule.name) not in deciding]  # fmt: skip

    assert idle == []


def test_every_row_is_cited_once() -> None:
    for table in TABLES:
        cited = [case.row for case in table.CASES]
        assert len(cited) == len(set(cited)), table.PACK.name


def as_raised_by_httpx2(given: Answer) -> BaseException:
    response = as_httpx2(given)
    return httpx2.HTTPStatusError("no", request=response.request, response=response)


def as_raised_by_requests(given: Answer) -> BaseException:
    return requests.HTTPError("no", response=as_requests(given))


def as_cause(given: Answer) -> BaseException:
    error = RuntimeError("the sync failed")
    error.__cause__ = Refused(given)
    return error


FORMS: tuple[Callable[[Answer], object], ...] = (
    as_httpx2, as_requests, as_raised_by_httpx2, as_raised_by_requests, as_cause,
)  # fmt: skip


@pytest.mark.req("SYNC-02", "SYNC-04")
@pytest.mark.parametrize(("pack", "case"), ANSWERED, ids=NAMES)
def test_the_verdict_is_the_same_in_every_form(pack: Pack, case: Case) -> None:
    assert isinstance(case.given, Answer)
    for form in FORMS:
        if case.verdict == GOOD and not case.rule and form not in (as_httpx2, as_requests):
            continue  # nobody raises about a good answer
        fault = classify(form(case.given), pack)
        assert verdict_of(fault) == case.verdict, form
        assert (fault.code if fault else None) == case.code, form
        assert (fault.retry_after if fault else None) == case.retry_after, form


@pytest.mark.req("SYNC-01")
@pytest.mark.parametrize(("pack", "case"), ANSWERED, ids=NAMES)
def test_an_answer_that_breaks_off_anywhere_still_gets_a_verdict(pack: Pack, case: Case) -> None:
    assert isinstance(case.given, Answer)
    full = case.given
    for end in range(0, min(len(full.content), 400), 7):
        cut = Answer(full.status_code, full.content[:end], full.headers, full.url)
        assert isinstance(classify(cut, pack), Fault | None)
    for fragment in (b'{"error": {', b'{"response": {', b'{"subsonic-response":', b"[{", b"<lfm status=", b"\xff\xfe"):
        cut = Answer(full.status_code, fragment, {}, full.url)
        bare = Answer(full.status_code, b"", {}, full.url)
        if full.status_code != 200:
            assert verdict_of(classify(cut, pack)) == verdict_of(classify(bare, pack))


@pytest.mark.req("SYNC-01")
@given(
    pack=st.sampled_from(rules.PACKS),
    status=st.sampled_from([0, 100, 200, 204, 304, 400, 401, 403, 404, 409, 410, 429, 500, 503, 599]),
    body=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        ["error", "code", "response", "subsonic-response", "status", "choices", "message", "x"]
                    ),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=8,
        ),
    ),
    headers=st.dictionaries(
        st.sampled_from(["retry-after", "date", "x-ratelimit-reset", "x-ratelimit-reset-tokens", "content-type"]),
        st.text(max_size=20),
    ),
)
def test_no_answer_makes_a_pack_raise(pack: Pack, status: int, body: object, headers: dict[str, str]) -> None:
    content = answer(status, body).content
    found = classify(Answer(status, content, headers), pack)

    assert found is None or found.fatal is not found.retriable
    assert isinstance(classify(RuntimeError(content.decode("latin-1")), pack), Fault | None)


PEOPLE = [(pack.name, code) for pack in rules.PACKS for code in pack.codes]


@pytest.mark.parametrize(("pack", "code"), PEOPLE, ids=[f"{pack}:{code.name}" for pack, code in PEOPLE])
def test_every_message_is_for_people(pack: str, code: rules.Code) -> None:
    for text in (code.message, code.advice):
        assert text[0].isupper()
        assert text.endswith(".")
        assert not re.search(r"[{}_<>]|[0-9]{3}|https?:|\bHTTP\b|\bJSON\b", text), text
        assert len(text) <= 120


def test_every_own_code_is_given_by_a_rule_of_its_pack() -> None:
    for pack in rules.PACKS:
        given_codes = {rule.code for rule in pack.rules} | {policy.becomes for policy in pack.confirm}
        assert {code.name for code in pack.codes} <= given_codes, pack.name


def test_a_code_that_is_doubted_has_its_reach_from_the_book() -> None:
    # A doubted fault is made anew from the book: a reach of the rule's own would be lost on the way.
    for pack in rules.PACKS:
        doubted = {policy.code for policy in pack.confirm}
        for rule in pack.rules:
            assert rule.code not in doubted or rule.reach is None, f"{pack.name}:{rule.name}"


@pytest.mark.req("SYNC-04")
def test_only_one_thing_missing_never_stops_a_whole_service() -> None:
    for pack, case in ROWS:
        if case.verdict.startswith("fatal/item"):
            fault = classify(case.given, pack)
            assert fault is not None
            assert fault.reach in (Reach.ITEM, Reach.OPERATION), case.row
            assert fault.counts_as_failure is False


def test_a_page_is_doubted_by_every_service_with_an_address_of_the_users_choice() -> None:
    for pack in rules.PACKS:
        doubted = {policy.code: policy for policy in pack.confirm}
        if pack is rules.lastfm:
            assert "html_answer" not in doubted
        else:
            policy = doubted["html_answer"]
            assert policy.unless_worked
            assert pack.code_book[policy.becomes or ""].fatal
            assert not pack.code_book[policy.until_then].fatal


def test_both_ways_to_import_the_packs_give_the_same() -> None:
    for name in rules.__all__:
        assert getattr(tidegate.rules, name) is getattr(rules, name)


TRACKS = {"recenttracks": {"track": [{"name": f"song {n}", "artist": {"#text": "x"}} for n in range(20)]}}
LARGE = answer(200, {"items": [{"id": n, "name": f"song {n}"} for n in range(400)]}, "https://service.test/api/v1/x")
# Twice what a quiet machine needs at most, and measured with tracing it says nothing.
MOST_MICROSECONDS = 30 if sys.gettrace() is None else 1000


@pytest.mark.parametrize("pack", rules.PACKS, ids=lambda pack: pack.name)
@pytest.mark.parametrize("good", [answer(200, TRACKS), LARGE], ids=["small", "large"])
def test_a_good_answer_is_read_quickly(pack: Pack, good: Answer) -> None:
    assert verdict_of(classify(good, pack)) == GOOD

    # The best of many: everything above it is the machine's, not the pack's.
    best = min(timeit.repeat(lambda: classify(good, pack), number=50, repeat=40)) / 50
    assert best * 1e6 <= MOST_MICROSECONDS
