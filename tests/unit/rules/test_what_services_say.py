"""What each pack reads off an answer by a function of its own, asked directly: a pack passes over one that raises."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate import rules
from tidegate.faults.codes import from_rows
from tidegate.faults.evidence import Evidence
from tidegate.faults.fault import Level, Reach, Reason
from tidegate.rules import Pack, fanart, lastfm, lidarr, musicbrainz, navidrome, openai, spotify, tautulli

UUID = "0383dadf-2a4e-4d10-a46a-e9e041da8eb3"
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"  # 784111777


def seen(body: object = b"", status: int = 200, url: str = "", **headers: Any) -> Evidence:
    raw = body.encode() if isinstance(body, str) else body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Evidence(response=SimpleNamespace(headers=named), status=status, body=raw, url=url)


def said(pack: Pack, evidence: Evidence) -> object:
    assert pack.says is not None
    return pack.says(evidence)


def holds_for(pack: Pack, name: str, evidence: Evidence) -> bool:
    test = next(each.test for each in pack.rules if each.name == name)
    assert test is not None
    return test(evidence)


LFM = '<lfm status="failed">\n<error code="%s">no</error></lfm>'


@pytest.mark.parametrize(
    ("body", "number"),
    [
        ({"error": 6, "message": "no"}, 6), ({"error": True}, None), ({"error": "6"}, None), ({"error": None}, None),
        ([{"error": 6}], None), ({"other": 6}, None), ('{"error": 6', None), (LFM % 29, 29), (LFM % "x", None),
        ('"error" ' + LFM % 9, 9), ('<lfm status="ok"><error code="9"/></lfm>', None), ("", None),
        ('<xlfm status="failed"><error code="9"', None),
    ],
)  # fmt: skip
def test_lastfm_says_a_number_in_json_or_in_xml(body: object, number: int | None) -> None:
    assert said(lastfm, seen(body)) == number
    assert holds_for(lastfm, "call-missing", seen(body)) is (number is None)


@pytest.mark.parametrize(
    ("body", "url", "of_user"),
    [
        ("User NOT found", "", True), ("no", "https://a.test/?Method=User.getInfo", True), ("no", "", False),
        ("no", "https://a.test/?method=album.getInfo", False), ("not found", "", False),
    ],
)  # fmt: skip
def test_lastfm_was_asked_about_a_user(body: str, url: str, of_user: bool) -> None:
    assert holds_for(lastfm, "6-user", seen(body, url=url)) is of_user


@pytest.mark.parametrize(
    ("body", "garbled"),
    [
        (b"oops", True), (b"", False), (b" \n", False), (b' {"a": 1}', False), (b"\n[1]", False), (b"<lfm>", False),
        (b"\xef\xbb\xbf{}", False), (b" " * 63 + b"x", True), (b" " * 64 + b"x", False),
    ],
)  # fmt: skip
def test_a_body_of_lastfm_that_is_neither_json_nor_xml_is_garbled(body: bytes, garbled: bool) -> None:
    assert holds_for(lastfm, "garbled", seen(body)) is garbled


def envelope(status: str = "failed", **fields: object) -> dict[str, object]:
    return {"subsonic-response": {"status": status, **fields}}


@pytest.mark.parametrize(
    ("body", "number"),
    [
        (envelope(error={"code": 40}), 40), (envelope(error={"code": 0}), 0), (envelope(error={"code": "40"}), -1),
        (envelope(error={}), -1), (envelope(error=[40]), -1), (envelope(), -1),
        (envelope("ok", error={"code": 40}, title="failed"), None), (envelope("ok", error={"code": 40}), None),
        ({"status": "failed"}, None), ('<subsonic-response status="failed"><error code="70"/>', 70),
        ('<subsonic-response status="failed"><error message="no" code="70"/>', 70),
        ('<subsonic-response status="failed"><error/>', None), ('<subsonic-response status="failed">', None),
        ('<subsonic-response status="ok"><error code="70"/>', None), ('<x status="failed"><error code="70"/>', None),
    ],
)  # fmt: skip
def test_navidrome_says_a_number_in_a_failed_envelope(body: object, number: int | None) -> None:
    assert said(navidrome, seen(body)) == number


def tautulli_error(message: object, result: str = "error") -> dict[str, object]:
    return {"response": {"result": result, "message": message}}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (tautulli_error("Invalid apikey"), 400, "invalid apikey"),
        (tautulli_error("Invalid apikey"), 200, "invalid apikey"),
        (tautulli_error("Unknown command: x"), 400, "unknown command"), (tautulli_error("odd"), 400, "another message"),
        (tautulli_error("it said Invalid apikey"), 400, "another message"), (tautulli_error(None), 400, "no message"),
        (tautulli_error(""), 200, "no message"), ({"response": {"result": "error"}}, 400, "no message"),
        (tautulli_error("Invalid apikey", "success"), 400, None), (tautulli_error("error", "success"), 200, None),
        (tautulli_error("Invalid apikey", "failed"), 200, None), ("it said Invalid APIKEY", 400, "invalid apikey"),
        ("API not enabled", 0, "api not enabled"), ("odd", 400, None), ('"error" invalid apikey', 200, None),
        ("", 0, None), ({"a": 1}, 200, None),
    ],
)  # fmt: skip
def test_tautulli_says_words_that_are_known_or_none(body: object, status: int, message: str | None) -> None:
    assert said(tautulli, seen(body, status)) == message


PAD = "x" * 512


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"error": {"code": "insufficient_quota", "type": "requests"}}, "insufficient_quota"),
        ({"error": {"code": "odd", "type": "requests"}}, "requests"), ({"error": {"code": 429}}, "429"),
        ({"error": {"code": "odd", "type": "odd"}}, "an unknown code"), ({"error": {}}, "an unknown code"),
        ({"error": "oops"}, "an unknown code"), ({"error": ""}, None), ({"error": None}, None), ({"error": []}, None),
        ({"code": "model_not_found", "type": None}, "model_not_found"), ({"type": "requests"}, None),
        ({"code": "requests"}, None), ([{"error": {"code": "401"}}], None), ('{"error": ', None), ({"a": PAD}, None),
        ({"a": PAD, "error": {"code": "401"}}, None), ({"type": 1, "a": PAD, "error": {"code": "401"}}, "401"),
    ],
)  # fmt: skip
def test_openai_says_its_code_if_it_is_known_and_else_its_type(body: object, code: str | None) -> None:
    assert said(openai, seen(body)) == code


def choices(*given: object) -> dict[str, object]:
    return {"choices": list(given)}


def message(finish: object = "stop", **fields: object) -> dict[str, object]:
    return choices({"message": fields, "finish_reason": finish})


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (message(content="a"), ""), (message(content=""), ""), (message(tool_calls=[]), ""), (message(audio={}), ""),
        (message(function_call={}), ""), (message(), "empty"), (message(content=None, role="x"), "empty"),
        (choices(), "empty"), (choices(5), "empty"), (choices({}), "empty"), (choices({"text": "a"}), ""),
        ({"choices": None}, ""), ({"choices": {}}, ""), ([], ""), ({}, ""), ('{"choices": [', ""),
        ({"a": PAD, "choices": []}, ""), (message("content_filter"), "declined empty"),
        (choices({"finish_reason": "content_filter"}), "declined"), (message(refusal="no"), "declined empty"),
        (message(refusal="", content="a"), ""), (message("length", content=' {"a'), "cut"),
        (message("length", content="[1"), "cut"), (message("length", content="```json"), "cut"),
        (message("length", content="a {"), ""), (message("length", content=5), ""), (message("length"), "empty"),
        (message("stop", content="{"), ""), (choices({"finish_reason": "length"}), ""),
        (choices(message()["choices"], 5), "empty"),
    ],
)  # fmt: skip
def test_a_completion_of_openai_is_declined_cut_empty_or_fine(body: object, verdict: str) -> None:
    found = [name for name in ("declined", "cut", "empty") if holds_for(openai, name, seen(body))]

    assert " ".join(found) == verdict


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None), ({"requests": "1s"}, 1.0), ({"tokens": "6m0s"}, 360.0), ({"requests": "1s", "tokens": "6m"}, 360.0),
        ({"requests": "9s", "tokens": "6s"}, 9.0), ({"requests": "1s", "tokens": "6m", "left_requests": "0"}, 1.0),
        ({"requests": "1s", "tokens": "6m", "left_tokens": "0"}, 360.0), ({"left_tokens": "0"}, None),
        ({"requests": "9s", "tokens": "6s", "left_tokens": "0", "left_requests": "1"}, 6.0),
        ({"requests": "9s", "tokens": "6s", "left_tokens": "0", "left_requests": "0"}, 9.0),
    ],
)  # fmt: skip
def test_openai_asks_to_wait_for_what_is_used_up(headers: dict[str, Any], wait: float | None) -> None:
    named: dict[str, Any] = {
        f"x_ratelimit_reset_{name}".replace("reset_left", "remaining"): value for name, value in headers.items()
    }
    after = next(each.after for each in openai.rules if each.name == "too-fast")

    assert after is not None
    assert after(seen(**named)) == wait


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"x_ratelimit_reset": "784111787", "date": DATE}, 10.0), ({"x_ratelimit_reset": "784111787"}, None),
        ({"date": DATE}, None), ({}, None), ({"x_ratelimit_reset": "784111767", "date": DATE}, -10.0),
    ],
)  # fmt: skip
def test_musicbrainz_asks_to_wait_until_its_reset_by_its_own_clock(headers: dict[str, Any], wait: float | None) -> None:
    for name in ("too-fast", "unexplained"):
        after = next(each.after for each in musicbrainz.rules if each.name == name)
        assert after is not None
        assert after(seen(**headers)) == wait


@pytest.mark.parametrize(
    ("pack", "name", "evidence", "holds"),
    [
        (musicbrainz, "not-the-service", seen(url="https://a.test/ws/2/artist"), True),
        (musicbrainz, "not-the-service", seen(url=f"https://a.test/ws/2/artist/{UUID}"), False),
        (musicbrainz, "not-the-service", seen(url=f"https://a.test/ws/2/artist/{UUID.upper()}"), False),
        (musicbrainz, "not-the-service", seen(url=""), False),
        (fanart, "empty-id", seen(url="https://a.test/v3/music"), True),
        (fanart, "empty-id", seen(url="https://a.test/v3/music/albums//"), True),
        (fanart, "empty-id", seen(url="https://a.test/v3/music/labels"), True),
        (fanart, "empty-id", seen(url=f"https://a.test/v3/music/{UUID}"), False),
        (fanart, "empty-id", seen(url=""), False),
        (fanart, "empty-id", seen(url="https://a.test/v3/musicX"), False),
        (fanart, "no-art-in-words", seen(), False),
        (fanart, "no-art-in-words", Evidence(error=RuntimeError("status 404")), True),
        (lidarr, "empty-lookup", seen(" []\n", url="https://a.test/api/v1/artist/lookup?term=x"), True),
        (lidarr, "empty-lookup", seen("[1]", url="https://a.test/api/v1/artist/lookup"), False),
        (lidarr, "empty-lookup", seen("[]", url="https://a.test/api/v1/artist"), False),
        (spotify, "foreign-playlist", seen(url="https://a.test/x/v1/playlists/7"), True),
        (spotify, "foreign-playlist", seen(url="https://a.test/v1/playlists/7/items/"), True),
        (spotify, "foreign-playlist", seen(url="https://a.test/v1/playlists/7/followers"), False),
        (spotify, "foreign-playlist", seen(url="https://a.test/v1/playlists"), False),
    ],
)  # fmt: skip
def test_a_rule_looks_at_the_address_or_at_the_answer(pack: Pack, name: str, evidence: Evidence, holds: bool) -> None:
    assert holds_for(pack, name, evidence) is holds


def test_a_code_of_a_service_comes_from_a_row() -> None:
    (made,) = from_rows(("odd", "auth", "credential", "ERROR", "It is odd.", "Wait."))

    assert (made.name, made.reason, made.reach, made.level) == ("odd", Reason.AUTH, Reach.CREDENTIAL, Level.ERROR)
    assert (made.message, made.advice) == ("It is odd.", "Wait.")


def test_a_pack_is_found_by_its_name_and_nothing_else_is() -> None:
    names = ("navidrome", "spotify", "lastfm", "musicbrainz", "fanart", "openai", "lidarr", "tautulli")
    asked: Any = rules

    assert tuple(each.name for each in asked.__getattr__("PACKS")) == names
    for name, pack in zip(names, rules.PACKS, strict=True):
        assert asked.__getattr__(name) is pack is getattr(rules, name)
    assert dir(rules) == sorted(dir(rules))
    assert {*rules.__all__, "__name__"} <= set(dir(rules))
    with pytest.raises(AttributeError) as refused:
        asked.__getattr__("acme")
    assert (str(refused.value), refused.value.name) == ("module 'tidegate.rules' has no attribute 'acme'", "acme")
