"""The client of Navidrome, against a server that checks what it is given."""

from __future__ import annotations

import pytest

from tests.apps.music.providers.building import Desk, fault_in, lists, plays
from tidegate.faults.codes import CORE
from tidegate.testing import RecordedRequest, Step
from tidegate_apps.music.client import ServiceError
from tidegate_apps.music.provider import LOOK_BACK, Batch, Play
from tidegate_demo.simulators.music.base import TRACKS
from tidegate_demo.simulators.music.navidrome import SavedList

CODES = {
    "code_0_internal": "upstream_failure", "code_0": "call_failed", "code_10": "bad_request",
    "code_20": "wrong_version", "code_30": "wrong_version", "code_40": "unauthorized", "code_41": "login_method",
    "code_50": "forbidden", "code_60": "trial_over", "code_70": "not_found", "too_many_transcodes": "rate_limited",
    "not_implemented": "not_supported", "withdrawn": "not_supported", "web_app": "html_answer",
}  # fmt: skip
LOGINS = {
    "login_refused": "wrong_password", "malformed_login": "bad_request", "too_many_logins": "rate_limited",
    "login_broken": "upstream_failure", "web_app": "redirected",
}  # fmt: skip


@pytest.mark.parametrize("fault", CODES)
async def test_each_failure_inside_a_good_answer_is_seen(desk: Desk, fault: str) -> None:
    provider = desk.provider("navidrome")
    desk.sim.navidrome.now(fault, "getPlaylists")
    found = await fault_in(provider, provider.playlists)
    assert found is not None
    assert found.code == CODES[fault]


@pytest.mark.parametrize("fault", LOGINS)
async def test_each_failure_of_a_login_is_seen(desk: Desk, fault: str) -> None:
    provider = desk.provider("navidrome")
    desk.sim.navidrome.now(fault, "login")
    found = await fault_in(provider)
    assert found is not None
    assert found.code == LOGINS[fault]


async def test_a_wrong_password_is_refused_by_both_of_its_apis(desk: Desk) -> None:
    provider = desk.provider("navidrome", password="high tide")
    refused = await fault_in(provider, provider.playlists)
    assert refused is not None
    assert (refused.code, refused.reason) == ("unauthorized", "auth")
    refused = await fault_in(provider)
    assert refused is not None
    assert (refused.code, refused.reason) == ("wrong_password", "auth")


async def test_the_password_is_never_sent_and_no_salt_is_used_twice(desk: Desk) -> None:
    desk.sim.navidrome.refuses_reused_salts = True
    provider = desk.provider("navidrome")
    for _ in range(5):
        await provider.check()
    salts = [each.query["s"] for each in desk.sim.asked("* /navidrome/rest/ping")]
    assert len(set(salts)) == 5
    assert min(map(len, salts)) >= 6


async def test_a_playlist_without_songs_is_empty_and_a_server_without_playlists_has_none(desk: Desk) -> None:
    provider = desk.provider("navidrome")
    full, empty = await lists(provider)
    assert (full.name, full.about, [song.title for song in full.songs or ()]) == (
        "For the ferry", "Songs that wait", [TRACKS[number].title for number in (0, 5, 9, 13)],
    )  # fmt: skip
    assert empty.songs == ()
    desk.sim.navidrome.playlists.clear()
    assert await lists(desk.provider("navidrome", user="bo")) != []
    desk.sim.navidrome.playlists.clear()
    assert await lists(provider) == []


async def test_a_playlist_without_a_name_is_one(desk: Desk) -> None:
    provider = desk.provider("navidrome")
    desk.sim.navidrome.playlists["ann-1"].name = ""
    assert [(each.ref, each.name) for each in await lists(provider)] == [("ann-1", ""), ("ann-2", "Still empty")]


async def test_a_playlist_that_stays_the_same_is_not_fetched_again(desk: Desk) -> None:
    provider = desk.provider("navidrome")
    await lists(provider)
    before = desk.sim.count("* /navidrome/rest/getPlaylist")
    assert [each.songs for each in await lists(provider)] == [None, None]
    assert desk.sim.count("* /navidrome/rest/getPlaylist") == before == 2

    changed = desk.sim.navidrome.playlists["ann-2"]
    changed.songs, changed.changed = [3], desk.clock.now() + 1
    assert [None if each.songs is None else len(each.songs) for each in await lists(provider)] == [None, 1]


async def test_a_playlist_that_was_not_kept_is_fetched_again(desk: Desk) -> None:
    provider = desk.provider("navidrome")
    batches = provider.playlists()
    assert (await anext(batches)).items[0].songs  # and then whoever asked for it dies
    assert [each.songs is None for each in await lists(provider)] == [False, False]


async def test_a_playlist_that_is_gone_or_forbidden_does_not_hide_the_others(desk: Desk) -> None:
    provider = desk.provider("navidrome")
    desk.sim.navidrome.playlists["ann-3"] = SavedList("Third", "ann", [1])
    desk.sim.navidrome.next("code_70", "code_50", where="getPlaylist")
    batches = [batch async for batch in provider.playlists()]
    assert [(item.name, item.songs is None) for batch in batches for item in batch.items] == [
        ("Still empty", True), ("Third", False),
    ]  # fmt: skip
    assert [(bad.row, bad.why) for batch in batches for bad in batch.bad] == [
        ("For the ferry", CORE["not_found"].message)
    ]


async def test_what_failed_for_one_playlist_is_told_when_the_others_are_there(desk: Desk) -> None:
    provider = desk.provider("navidrome")
    desk.sim.navidrome.next("code_0", where="getPlaylist")
    batches = provider.playlists()
    assert [bad.row for bad in (await anext(batches)).bad] == ["For the ferry"]
    assert [item.name for item in (await anext(batches)).items] == ["Still empty"]
    with pytest.raises(ServiceError, match="navidrome answered 200"):
        await anext(batches)


async def hear(desk: Desk, count: int, apart: float = 200.0) -> list[float]:
    times = []
    for number in range(count):
        desk.clock.advance(apart)
        desk.sim.navidrome.listening.hear("ann", number)
        times.append(float(int(desk.clock.now())))
    return times


async def test_plays_come_from_the_log_oldest_first_and_the_mark_moves_with_them(desk: Desk) -> None:
    provider = desk.provider("navidrome")
    times = await hear(desk, 450)
    batches = [batch async for batch in provider.plays(None)]
    assert [len(batch.items) for batch in batches] == [200, 200, 50]
    assert [play.at for batch in batches for play in batch.items] == times
    assert [batch.mark for batch in batches] == [str(int(times[at])) for at in (199, 399, 449)]
    first = batches[0].items[0]
    assert first.song.mbid == TRACKS[0].mbid
    assert (first.song.artist_mbid, first.song.album_mbid) == (TRACKS[0].artist_mbid, TRACKS[0].album_mbid)


async def test_from_a_mark_on_nothing_is_missed_and_what_comes_twice_has_the_same_ref(desk: Desk) -> None:
    provider = desk.provider("navidrome")
    await hear(desk, 30)
    known = {play.ref: play for play in await plays(provider)}
    [*_, last] = [batch async for batch in provider.plays(None)]
    late = desk.clock.now() - 1800
    desk.sim.navidrome.listening.hear("ann", 40, at=late)  # an app was offline
    await hear(desk, 3)

    found = await plays(provider, last.mark)
    new = [play for play in found if play.ref not in known]
    assert [play.song.title for play in new] == [TRACKS[number].title for number in (40, 0, 1, 2)]
    assert all(known[play.ref] == play for play in found if play.ref in known)


async def test_without_a_mark_thirty_days_are_fetched(desk: Desk) -> None:
    provider = desk.provider("navidrome")
    for back in (LOOK_BACK + 3600, LOOK_BACK - 3600):
        desk.sim.navidrome.listening.hear("ann", 1, at=desk.clock.now() - back)
    assert len(await plays(provider)) == 1


async def test_a_server_without_a_log_tells_when_each_song_was_last_played(desk: Desk) -> None:
    desk.sim.navidrome.has_log = False
    provider = desk.provider("navidrome")
    times = await hear(desk, 10)
    found = await plays(provider)
    assert [play.at for play in found] == times
    desk.sim.navidrome.has_log = True
    assert [play.ref for play in await plays(provider)] == [play.ref for play in found], "an update doubles no play"


async def test_plays_are_not_missed_where_the_log_is_switched_off_or_younger_than_they_are(desk: Desk) -> None:
    provider = desk.provider("navidrome")
    times = await hear(desk, 10)
    desk.sim.stay("GET /navidrome/api/scrobble", Step(200, []))
    assert [play.at for play in await plays(provider)] == times
    later = await hear(desk, 12)
    found = await plays(provider, str(int(times[-1]) + 7200))
    assert [play.at for play in found] == [at for at in later if at >= times[-1] + 3600]

    young = [{"id": 1, "mediaFileId": "nd11", "submissionTime": int(later[-1])}]
    desk.sim.stay("GET /navidrome/api/scrobble", Step(200, young))
    whole = [batch async for batch in provider.plays(None)]
    assert [play.at for play in whole[0].items] == [later[-1]]
    assert sorted(play.at for batch in whole for play in batch.items) == later, "and none of them twice"
    assert {batch.mark for batch in whole} == {str(int(later[-1]))}
    assert len(await plays(provider, whole[0].mark)) == 1


async def test_many_last_plays_are_handed_over_oldest_first_too(desk: Desk) -> None:
    desk.sim.navidrome.has_log = False
    provider = desk.provider("navidrome")
    now = int(desk.clock.now())
    songs = [{"id": f"s{n}", "title": "T", "artist": "A", "playDate": now - n * 60} for n in range(450)]

    def page(asked: RecordedRequest) -> object:
        return songs[int(asked.query["_start"]) : int(asked.query["_end"])]

    desk.sim.stay("GET /navidrome/api/song", page)
    batches = [batch async for batch in provider.plays(None)]
    times = [play.at for batch in batches for play in batch.items]
    assert times == sorted(times)
    assert len(times) == 450
    assert [batch.mark for batch in batches] == [str(int(batch.items[-1].at)) for batch in batches]


@pytest.mark.parametrize("never", [{}, {"playDate": None}, {"playDate": "0001-01-01T00:00:00Z"}])
async def test_songs_that_were_never_played_are_no_bad_rows_and_are_not_walked_through(
    desk: Desk, never: dict[str, object]
) -> None:
    desk.sim.navidrome.has_log = False
    provider = desk.provider("navidrome")
    now = int(desk.clock.now())
    songs: list[dict[str, object]] = [{"id": f"s{n}", "title": "T", "artist": "A", **never} for n in range(1000)]
    for n in range(250):
        songs[n]["playDate"] = now - n * 60
    desk.sim.stay("GET /navidrome/api/song", lambda asked: songs[int(asked.query["_start"]) : int(asked.query["_end"])])
    batches = [batch async for batch in provider.plays(None)]
    assert [len(batch.items) for batch in batches] == [50, 200]
    assert [bad for batch in batches for bad in batch.bad] == []
    assert desk.sim.count("GET /navidrome/api/song") == 2


async def test_a_song_that_is_gone_is_a_bad_row_and_the_mark_goes_on(desk: Desk) -> None:
    provider = desk.provider("navidrome")
    times = await hear(desk, 3)
    desk.sim.navidrome.gone.add(1)
    [batch] = [batch async for batch in provider.plays(None)]
    assert [play.at for play in batch.items] == [times[0], times[2]]
    assert len(batch.bad) == 1
    assert batch.mark == str(int(times[2]))


async def test_a_mark_never_goes_back(desk: Desk) -> None:
    provider = desk.provider("navidrome")
    await hear(desk, 3)
    mark = str(int(desk.clock.now()) + 500)
    desk.clock.advance(1000)
    batches: list[Batch[Play]] = [batch async for batch in provider.plays(mark)]
    assert [(len(batch.items), batch.mark) for batch in batches] == [(3, mark)]


async def test_it_logs_in_once_and_keeps_the_session_before_it_uses_it(desk: Desk) -> None:
    provider = desk.provider("navidrome")
    for _ in range(3):
        await plays(provider)
    assert desk.sim.count("POST /navidrome/auth/login") == 1
    [saved] = desk.saved
    again = desk.with_values("navidrome", {**desk.values("navidrome"), **saved})
    assert again is not None
    await plays(again)
    assert desk.sim.count("POST /navidrome/auth/login") == 1


async def test_a_session_that_ended_is_renewed_once_and_the_call_made_once_more(desk: Desk) -> None:
    provider = desk.provider("navidrome")
    await hear(desk, 1)
    await plays(provider)
    desk.sim.navidrome.end_sessions()
    assert len(await plays(provider)) == 1
    assert desk.sim.count("POST /navidrome/auth/login") == 2

    desk.sim.navidrome.now("refused", "scrobble")
    refused = await fault_in(provider)
    assert refused is not None
    assert (refused.code, desk.sim.count("POST /navidrome/auth/login")) == ("unauthorized", 3)


async def test_many_users_of_one_server_do_not_log_in_faster_than_it_allows(desk: Desk) -> None:
    for user in [f"user{number}" for number in range(12)]:
        await plays(desk.provider("navidrome", user=user))
    assert desk.sim.count("POST /navidrome/auth/login") == 12


@pytest.mark.parametrize("tail", ["/", "/app", "/app/", "/app/#/album/all?sort=name", " "])
async def test_an_address_as_a_browser_shows_it_will_do(desk: Desk, tail: str) -> None:
    await desk.provider("navidrome", url=f"{desk.base}/navidrome{tail}").check()


@pytest.mark.parametrize(
    "url", ["music.example.org", "ftp://music.example.org", "http://[::1", "http://", "x" * 70_000]
)
async def test_what_is_no_address_is_said_to_be_none(desk: Desk, url: str) -> None:
    provider = desk.provider("navidrome", url=url)
    for work in (None, provider.playlists):
        found = await fault_in(provider, work)
        assert found is not None
        assert (found.code, found.reason) == ("bad_address", "config")


async def test_a_wrong_path_looks_like_a_web_page_and_not_like_an_empty_library(desk: Desk) -> None:
    provider = desk.provider("navidrome", url=f"{desk.base}/navidrome/music")
    found = await fault_in(provider, provider.playlists)
    assert found is not None
    assert found.code == "html_answer"
