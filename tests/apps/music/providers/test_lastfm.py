"""The client of Last.fm: its numbers for what went wrong, its ways with lists, and histories that change under it."""

from __future__ import annotations

import hashlib
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from tests.apps.music.providers.building import Desk, fault_in, plays
from tidegate.testing import Step
from tidegate_apps.music.provider import LOOK_BACK, LoginRefused, Returned
from tidegate_apps.music.providers.lastfm import signature
from tidegate_apps.music.registry import kinds

API = "GET /lastfm/2.0/"
BACK = "http://tidegate.test/callback?provider=lastfm"
CODES = {
    2: "bad_request", 3: "bad_request", 4: "unauthorized", 5: "bad_request", 6: "unknown_user", 7: "bad_request",
    8: "upstream_failure", 9: "session_revoked", 10: "key_invalid", 11: "overloaded", 13: "signature_refused",
    14: "login_unfinished", 15: "login_unfinished", 16: "upstream_failure", 17: "listening_hidden",
    26: "key_suspended", 27: "not_supported", 29: "rate_limited",
}  # fmt: skip


@pytest.mark.parametrize("way", ["", "_in_200", "_in_xml"])
async def test_the_number_decides_whatever_the_status_and_the_form(desk: Desk, way: str) -> None:
    provider = desk.provider("lastfm")
    seen = {}
    for number in CODES:
        desk.sim.lastfm.now(f"error_{number}{way}")
        found = await fault_in(provider)
        seen[number] = None if found is None else found.code
    assert seen == CODES


async def test_a_user_that_is_not_known_is_seen_by_what_was_asked_in_whatever_words(desk: Desk) -> None:
    provider = desk.provider("lastfm")
    desk.sim.then(API, Step(400, {"error": 6, "message": "Invalid parameters"}))
    found = await fault_in(provider)
    assert found is not None
    assert found.code == "unknown_user"


async def test_a_garbled_answer_is_a_passing_fault(desk: Desk) -> None:
    provider = desk.provider("lastfm")
    desk.sim.lastfm.now("garbled")
    found = await fault_in(provider)
    assert found is not None
    assert (found.code, found.retriable) == ("upstream_failure", True)


def hear(desk: Desk, count: int, apart: float = 200.0) -> list[float]:
    times = []
    for number in range(count):
        desk.clock.advance(apart)
        desk.sim.lastfm.listening.hear("ann", number)
        times.append(float(int(desk.clock.now())))
    return times


@pytest.mark.parametrize("playing", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2, 450])
async def test_a_history_of_any_length_is_read_oldest_first(desk: Desk, count: int, playing: bool) -> None:
    provider = desk.provider("lastfm")
    times = hear(desk, count)
    if playing:
        desk.sim.lastfm.playing.add("ann")
    batches = [batch async for batch in provider.plays(None)]
    assert [play.at for batch in batches for play in batch.items] == times
    assert [bad for batch in batches for bad in batch.bad] == []
    marks = [float(batch.mark or 0) for batch in batches]
    assert marks == sorted(marks)
    for batch, mark in zip(batches, marks, strict=True):
        assert not batch.items or mark == batch.items[-1].at


async def test_songs_of_one_second_are_told_apart(desk: Desk) -> None:
    provider = desk.provider("lastfm")
    for number in range(3):
        desk.sim.lastfm.listening.hear("ann", number)
    assert len({play.ref for play in await plays(provider)}) == 3


async def test_a_play_that_comes_late_in_the_middle_of_a_walk_is_not_missed(desk: Desk) -> None:
    provider = desk.provider("lastfm")
    hear(desk, 500)
    log = desk.sim.lastfm.listening
    second = log.heard("ann")[450][0] + 1
    batches = provider.plays(None)
    found = list((await anext(batches)).items)
    log.hear("ann", 7, at=second)  # the pages that are not read yet move by one
    found += [item async for batch in batches for item in batch.items]
    assert {play.at for play in found} == {float(int(at)) for at, _ in log.heard("ann")}


async def test_a_walk_that_broke_off_goes_on_at_the_page_that_failed(desk: Desk) -> None:
    provider = desk.provider("lastfm")
    times = hear(desk, 500)
    batches = provider.plays(None)
    first = await anext(batches)
    desk.sim.lastfm.next("error_8")
    found = await fault_in(provider, lambda: batches)
    assert found is not None
    assert found.retriable

    rest = await plays(provider, first.mark)
    known = {play.ref for play in first.items}
    assert [play.at for play in rest if play.ref not in known] == times[len(first.items) :]
    assert len(rest) - (500 - len(first.items)) < 30, "an hour is asked for twice, and no more"


async def test_without_a_mark_thirty_days_are_fetched(desk: Desk) -> None:
    provider = desk.provider("lastfm")
    now = desk.clock.now()
    for at in (now - LOOK_BACK - 3600, now - LOOK_BACK + 3600, now - 60):
        desk.sim.lastfm.listening.hear("ann", 1, at=at)
    assert len(await plays(provider)) == 2


async def test_a_row_that_cannot_be_read_does_not_stop_the_others(desk: Desk) -> None:
    provider = desk.provider("lastfm")
    good = {"name": "A", "artist": {"name": "B", "mbid": ""}, "album": None, "date": {"uts": "1700000000"}}
    odd = [{**good, "date": {"uts": "0"}}, {**good, "name": ""}, {**good, "artist": "B"}, 7]
    desk.sim.then(API, {"recenttracks": {"track": [*odd, good], "@attr": {"totalPages": "1", "total": "5"}}})
    [batch] = [batch async for batch in provider.plays(None)]
    assert [(play.song.artist, play.song.album, play.at) for play in batch.items] == [("B", "", 1700000000.0)]
    assert [bad.why.split()[-1] for bad in batch.bad] == ["date", "name", "artist", "object"]


async def test_a_hidden_history_is_seen_by_whoever_has_logged_in(desk: Desk) -> None:
    hidden = desk.provider("lastfm")
    desk.sim.lastfm.hidden.add("ann")
    hear(desk, 2)
    found = await fault_in(hidden)
    assert found is not None
    assert (found.code, found.reach) == ("listening_hidden", "operation")

    open_to = desk.provider("lastfm", session_key=desk.sim.lastfm.session("ann"))
    assert len(await plays(open_to)) == 2
    assert "api_sig" in desk.sim.asked(API)[-1].query


async def test_a_revoked_session_and_a_wrong_secret_are_told_apart(desk: Desk) -> None:
    for changes, code in (
        ({"session_key": "revoked"}, "session_revoked"),
        ({"session_key": desk.sim.lastfm.session("ann"), "shared_secret": "another"}, "signature_refused"),
        ({"api_key": "another"}, "key_invalid"),
        ({"user": "nobody"}, "unknown_user"),
    ):
        provider = desk.with_values("lastfm", {**desk.values("lastfm"), **changes})
        assert provider is not None
        found = await fault_in(provider)
        assert found is not None
        assert found.code == code


async def test_a_login_in_the_browser_gives_a_session(desk: Desk) -> None:
    values = desk.values("lastfm")
    oauth = kinds()["lastfm"].oauth
    assert oauth is not None
    assert not oauth.required, "a user name is enough for a history that is not hidden"
    begun = oauth.begin(values, redirect=BACK, state="s1", context=desk.there())
    async with httpx2.AsyncClient(timeout=60) as client:
        assert (await client.get(begun.url)).status_code == 200
        back = parse_qs(urlsplit(begun.url).query)["cb"][0]
        sent = await client.post(begun.url, data={"cb": back, "user": "ann"})
    assert sent.headers["location"].startswith(BACK)
    answer = {name: each[0] for name, each in parse_qs(urlsplit(sent.headers["location"]).query).items()}
    assert answer["state"] == "s1"
    given = await oauth.finish(values, Returned(answer=answer, redirect=BACK, verifier="", context=desk.there()))
    assert given["user"] == "ann"
    desk.sim.lastfm.hidden.add("ann")
    hear(desk, 1)
    assert len(await plays(desk.provider("lastfm", **given))) == 1


@pytest.mark.parametrize(
    ("answer", "without"), [({}, ""), ({"token": "x"}, "shared_secret")], ids=["no token", "no secret"]
)
async def test_a_login_that_cannot_be_finished_says_why(desk: Desk, answer: dict[str, str], without: str) -> None:
    values = {name: value for name, value in desk.values("lastfm").items() if name != without}
    oauth = kinds()["lastfm"].oauth
    assert oauth is not None
    with pytest.raises(LoginRefused, match=r"allow the access|shared secret"):
        await oauth.finish(values, Returned(answer=answer, redirect=BACK, verifier="", context=desk.there()))


def test_calls_are_signed_as_the_documents_say() -> None:
    given = {"method": "auth.getSession", "api_key": "k", "token": "t", "format": "json", "callback": "x"}
    signed = hashlib.md5(b"api_keykmethodauth.getSessiontokentsecret", usedforsecurity=False)
    assert signature(given, "secret") == signed.hexdigest() == "47656600a9b4352066d3092b68e9036b"
