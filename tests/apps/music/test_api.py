"""What programs and pages show of music: health in words, the library page by page, and nothing of other users."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.apps.music.serving import Served, installed
from tests.text import message, names
from tests.web.api.building import HERE
from tests.web.local import LocalClient
from tidegate.accounts import users
from tidegate.store.base import Tx
from tidegate.testing import Step
from tidegate.web.app import build
from tidegate.web.auth import COOKIE
from tidegate.web.pages import formatters
from tidegate_apps.music.health import OperationState, OperationStates
from tidegate_apps.music.library import Badge, Library
from tidegate_apps.music.library_writer import LibraryWriter, SyncOperation
from tidegate_apps.music.provider import Batch, Gap, Operation, Play, Song
from tidegate_apps.music.settings import operator_values
from tidegate_apps.music.transport import HOME
from tidegate_demo.simulators.music import MusicSimulator

API = "/api/v1/music"


@pytest.fixture(scope="module")
def sim() -> Iterator[MusicSimulator]:
    with MusicSimulator() as found:
        yield found


@pytest.fixture
def served(tmp_path: Path, sim: MusicSimulator) -> Iterator[Served]:
    with installed(tmp_path, sim) as found:
        yield found


@pytest.fixture
def client(served: Served) -> Iterator[TestClient]:
    with opened(served) as found:
        yield found


@contextlib.contextmanager
def opened(served: Served) -> Iterator[TestClient]:
    with LocalClient(build(served.site), client=("127.0.0.1", 50000), base_url=HERE) as found:
        yield found


def kept(served: Served, n: int, user: str = "local") -> None:
    keeping = LibraryWriter(served.there.db, lambda: 1000.0)
    songs = [Song(title=f"Song {i}", artist=f"Artist {i % 7}", album=f"Album {i % 11}") for i in range(n)]
    plays = tuple(Play(ref=str(i), at=float(i), song=song) for i, song in enumerate(songs))
    keeping.plays(SyncOperation(user, "lastfm", Operation.PLAYS), Batch(items=plays, mark="1"))


def state(served: Served, provider: str, operation: str = "plays", **values: Any) -> None:
    states = OperationStates(served.there.db, lambda: 0.0)
    lane = SyncOperation("local", provider, Operation(operation))
    found = states.of(lane)
    for name, value in values.items():
        setattr(found, name, value)
    states.changed(lane)
    states.write(states.taken())


def line(client: TestClient, provider: str) -> dict[str, Any]:
    items: list[dict[str, Any]] = client.get(f"{API}/connections").json()["items"]
    return next(each for each in items if each["provider"] == provider)


@pytest.mark.req("SYNC-14")
@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, "new"),
        ({"tried_at": 50.0}, "idle"),
        ({"success_at": 50.0, "next_at": 350.0}, "ok"),
        ({"success_at": 50.0, "began_at": 60.0}, "syncing"),
        (
            {"failures": 2, "code": "network", "message": "It is away.", "held": "backoff", "next_at": 99.0},
            "degraded",
        ),
        (
            {"failures": 1, "code": "rate_limited", "message": "Too fast.", "held": "retry_after", "next_at": 99.0},
            "limited",
        ),
        (
            {"failures": 1, "code": "unauthorized", "message": "Refused.", "advice": "Connect again.", "held": "fatal"},
            "action",
        ),
    ],
)  # fmt: skip
def test_the_health_of_a_connection_is_told_in_words_with_last_success_and_next_try(
    served: Served, client: TestClient, values: dict[str, Any], name: str
) -> None:
    client.put(f"{API}/connections/lastfm", json={"values": {"user": "ada7"}}).raise_for_status()
    state(served, "lastfm", **values)

    found = line(client, "lastfm")
    assert (found["connected"], found["state"]) == (True, name)
    assert (found["last_success_at"], found["next_try_at"]) == (values.get("success_at"), values.get("next_at"))
    assert names(found["reason"], values.get("message", ""), values.get("advice", ""))
    page = client.get("/music").text
    assert found["word"] in page
    assert found["reason"] in page
    if values.get("code"):
        assert f"/help/errors/{values['code']}" in page


@pytest.mark.req("SYNC-14")
def test_plays_that_may_be_missing_are_said_with_their_connection_for_a_week(
    served: Served, client: TestClient
) -> None:
    client.put(f"{API}/connections/lastfm", json={"values": {"user": "ada7"}}).raise_for_status()
    now = time.time()
    for days, since in ((8, 100.0), (2, 1_700_000_000.0), (1, 1_700_100_000.0)):
        at = now - days * 86400
        keeping = LibraryWriter(served.there.db, partial(float, at))
        gap = Gap(since=since, until=since + 3600)
        batch = Batch(items=(Play(ref=f"{since}", at=since, song=Song(title="A", artist="B")),), mark="1", gap=gap)
        keeping.plays(SyncOperation("local", "lastfm", Operation.PLAYS), batch)

    gaps = line(client, "lastfm")["gaps"]
    assert [each["since"] for each in gaps] == [1_700_100_000.0, 1_700_000_000.0]
    assert line(client, "fanart")["gaps"] == []
    page = client.get("/music").text
    assert page.count("may be missing") == 2
    assert formatters.machine(1_700_000_000.0) in page
    client.delete(f"{API}/connections/lastfm").raise_for_status()
    assert line(client, "lastfm")["gaps"] == []


def test_of_several_operations_the_worst_is_told(served: Served, client: TestClient) -> None:
    values = served.sim.connection("navidrome", "local")
    client.put(f"{API}/connections/navidrome", json={"values": dict(values)}).raise_for_status()
    state(served, "navidrome", "plays", success_at=5.0)
    state(served, "navidrome", "playlists", failures=3, code="forbidden", message="No.", held="fatal")

    found = line(client, "navidrome")
    assert (found["state"], [each["state"] for each in found["operations"]]) == ("action", ["ok", "action"])
    assert re.search(r"\b3 failures\b.*/help/errors/forbidden", client.get("/music").text)


def test_connecting_disconnecting_and_asking_by_a_program(served: Served, client: TestClient) -> None:
    assert line(client, "lastfm")["state"] == "none"
    assert client.post(f"{API}/connections/lastfm/sync").status_code == 404
    made = client.put(f"{API}/connections/lastfm", json={"values": {"user": "ada7"}})
    assert (made.status_code, made.json()["state"]) == (200, "new")
    assert client.post(f"{API}/connections/lastfm/sync").status_code == 202
    assert client.delete(f"{API}/connections/lastfm").json()["state"] == "none"
    for path, body, status, said in (
        ("lastfm", {"values": {}}, 422, "user: "),
        ("lastfm", {"values": {"user": "a", "shared_secret": "x"}}, 422, "shared_secret"),
        ("nosuch", {"values": {}}, 404, "'nosuch'"),
    ):
        answer = client.put(f"{API}/connections/{path}", json=body)
        assert (answer.status_code, said in answer.json()["detail"]) == (status, True), answer.text


def test_no_program_takes_away_what_a_login_has_brought(served: Served, client: TestClient) -> None:
    connections, known = served.there.jobs.connections, served.there.jobs.kinds
    refused = client.put(f"{API}/connections/spotify", json={"values": {}})
    assert (refused.status_code, line(client, "spotify")["connected"]) == (422, False)
    connections.put("local", known["spotify"], {"access_token": "a", "refresh_token": "r"})
    refused = client.put(f"{API}/connections/spotify", json={"values": {}})
    assert (refused.status_code, "browser" in refused.json()["detail"]) == (422, True)
    assert connections.values(connections.get("local", "spotify"))["refresh_token"] == "r"

    connections.put("local", known["lastfm"], {"user": "ada7", "session_key": "of the login"})
    client.put(f"{API}/connections/lastfm", json={"values": {"user": "ada7"}}).raise_for_status()
    assert connections.values(connections.get("local", "lastfm"))["session_key"] == "of the login"


def test_what_the_operator_has_not_entered_or_switched_off_is_said(tmp_path: Path, sim: MusicSimulator) -> None:
    more = {"lastfm": {"url": sim.url}, "spotify": {"enabled": False}}
    with installed(tmp_path, sim, **more) as served, opened(served) as client:
        assert "API key" in line(client, "lastfm")["reason"]
        assert line(client, "spotify")["word"] == "Switched off"
        assert "[music.lastfm]" in client.get("/music/connect/lastfm").text


def test_the_library_is_shown_page_by_page_without_gaps(served: Served, client: TestClient) -> None:
    kept(served, 120)
    for shelf, total in (("artists", 7), ("albums", 77), ("tracks", 120), ("plays", 120)):
        seen, cursor = [], ""
        while True:
            page = client.get(f"{API}/{shelf}", params={"limit": 25, "cursor": cursor}).json()
            seen += [each["id"] for each in page["items"]]
            cursor = page["next_cursor"]
            if not cursor:
                break
        assert (len(seen), len(set(seen))) == (total, total), shelf
    assert client.get(f"{API}/artists").json()["items"][0]["plays"] == 18
    found = client.get(f"{API}/tracks", params={"q": "song 11"}).json()["items"]
    assert sorted(each["name"] for each in found) == ["Song 11", *(f"Song {n}" for n in range(110, 120))]
    assert client.get(f"{API}/tracks", params={"q": "%"}).json()["items"] == []


def test_a_page_shows_badges_empty_shelves_and_the_way_on(served: Served, client: TestClient) -> None:
    assert "Nothing here yet" in client.get("/music/library").text
    kept(served, 120)
    library = Library(served.queue)
    badge = Badge(word="Wanted", tone="warn", icon="clock", tooltip="Lidarr looks for it.", href="/lidarr")
    library.put(library.badge("artist", library.artists("local")[0].id, badge))
    artists = client.get("/music/library?shelf=artists").text
    assert 'href="/lidarr" title="' in artists
    assert "Wanted" in artists
    tracks = client.get("/music/library?shelf=tracks").text
    assert tracks.count("<tr>") == 49
    assert "shelf=tracks&amp;after=1-" in tracks
    none = client.get("/music/library?shelf=albums&q=nothing+such").text
    assert '<div class="empty">' in none
    assert "“nothing such”" in none
    found = client.get("/music/library?shelf=tracks&q=song").text
    assert "Tracks, by name" in found
    assert re.search(r"\b48 ", found)
    for shelf in ("plays", "playlists", "nonsense"):
        assert client.get(f"/music/library?shelf={shelf}&after=-1").status_code == 200


def test_everybody_sees_their_own_music_and_only_an_admin_that_of_others(served: Served, client: TestClient) -> None:
    def people(tx: Tx) -> dict[str, str]:
        for name, role in (("ada", "admin"), ("bob", "operator"), ("vic", "viewer")):
            users.add_user(tx, name, role, "no password fits this")
        return {name: users.begin_session(tx, name) for name in ("ada", "bob", "vic")}

    kept(served, 5, "bob")
    sessions = served.queue.store.write(people)

    def asks(who: str, path: str) -> Any:
        return client.get(path, headers={"Cookie": f"{COOKIE}={sessions[who]}"})

    assert len(asks("bob", f"{API}/tracks").json()["items"]) == 5
    assert asks("ada", f"{API}/tracks").json()["items"] == []
    assert len(asks("ada", f"{API}/tracks?user=bob").json()["items"]) == 5
    assert asks("vic", f"{API}/tracks?user=bob").status_code == 403
    for query in ("user=b%00b", "q=b%00b"):
        assert asks("ada", f"{API}/tracks?{query}").status_code == 422
    assert asks("vic", "/music?user=bob").status_code == 403
    assert asks("vic", "/music").status_code == 200
    assert re.search(r'<button [^>]*disabled[^>]* title="[^"]*\bviewer\b', asks("vic", "/music/connect/lastfm").text)
    headers = {"Origin": HERE, "Cookie": f"{COOKIE}={sessions['vic']}"}
    refused = client.put(f"{API}/connections/lastfm", json={"values": {"user": "x"}}, headers=headers)
    assert refused.status_code == 403


def test_an_admin_may_connect_a_server_on_this_machine_and_an_operator_may_not(
    tmp_path: Path, sim: MusicSimulator
) -> None:
    def people(tx: Tx) -> dict[str, str]:
        for name, role in (("ada", "admin"), ("bob", "operator")):
            users.add_user(tx, name, role, "no password fits this")
        return {name: users.begin_session(tx, name) for name in ("ada", "bob")}

    values = {"url": sim.url, "user": "ann", "password": "low tide"}
    with installed(tmp_path, sim, server_networks=list(HOME)) as served, opened(served) as client:
        sessions = served.queue.store.write(people)
        for name, status in (("ada", 200), ("bob", 422)):
            headers = {"Origin": HERE, "Cookie": f"{COOKIE}={sessions[name]}"}
            answer = client.put(f"{API}/connections/navidrome", json={"values": values}, headers=headers)
            assert answer.status_code == status, answer.text
            assert ("music.server_networks" in answer.text) is (status == 422)
            page = client.post("/music/connect/navidrome", data=values, headers=headers, follow_redirects=False)
            assert (page.status_code == 303) is (status == 200)


def test_a_picture_comes_from_us_or_is_a_plain_placeholder_and_a_stranger_is_asked_once(
    served: Served, client: TestClient, sim: MusicSimulator
) -> None:
    kept(served, 1)
    (artist,) = Library(served.queue).artists("local")
    there = f"/music/art/artist/{artist.id}"
    plain = client.get(there)
    assert (plain.status_code, plain.headers["content-type"]) == (200, "image/svg+xml")

    png = b"\x89PNG\r\n\x1a\n" + b"x" * 100
    sim.on("GET /pictures/{name}", Step(200, png, {"Content-Type": "text/html"}))
    art = json.dumps({"thumb": f"{sim.url}/pictures/1.png"})
    served.there.db.all("found_art_artist", id=artist.id, at=1.0, art=art)
    for _ in range(2):
        found = client.get(there)
        assert (found.content, found.headers["content-type"]) == (png, "image/png")
        assert "default-src 'none'" in found.headers["content-security-policy"]
    assert sim.count("GET /pictures/{name}") == 1
    assert there in client.get("/music/library").text

    for bad in ("http://169.254.169.254/latest", "file:///etc/passwd", f"{sim.url}/nothing"):
        served.there.db.all("found_art_artist", id=artist.id, at=1.0, art=json.dumps({"thumb": bad}))
        assert client.get(there).headers["content-type"] == "image/svg+xml"
    assert client.get("/music/art/artist/999").headers["content-type"] == "image/svg+xml"


def test_a_state_that_was_read_is_the_one_that_was_written(served: Served) -> None:
    state(served, "lastfm", tried_at=1.0, items=7, bad=2, detail="x")
    rows = served.there.db.all("states_of", user_id="local")
    assert rows == [("local", "lastfm", "plays", 1.0, None, None, 7, 2, 0, None, None, None, None, "x", None, None)]
    assert OperationState(user_id="a", provider="b", operation="plays").failures == 0


def test_the_page_says_how_it_is_set_up_and_tells_no_secret(served: Served, client: TestClient) -> None:
    text = client.get("/music").text
    panel = text[text.index('id="music-settings"') :]
    assert re.findall(r"<dt>(Last\.fm|MusicBrainz|OpenAI)</dt><dd>every (\w+)", panel) == [
        ("Last.fm", "5m"), ("MusicBrainz", "15m"), ("OpenAI", "1h"),
    ]  # fmt: skip
    for kind in served.there.jobs.kinds.values():
        for name, value in operator_values(served.there.settings, kind).items():
            secret = next(each for each in kind.fields if each.name == name).secret
            assert not (secret and value in text)


def test_a_form_that_was_refused_keeps_what_was_entered_and_shows_no_secret(client: TestClient) -> None:
    given = {"url": "music.example.org", "user": "ada7", "password": "low tide"}
    answer = client.post("/music/connect/navidrome", data=given, headers={"Origin": HERE})
    assert answer.status_code == 422
    assert "Address: " in answer.text
    assert 'value="music.example.org"' in answer.text
    assert 'value="ada7"' in answer.text
    assert "low tide" not in answer.text
    assert line(client, "navidrome")["connected"] is False


@pytest.mark.req("SYNC-14")
@pytest.mark.parametrize(
    ("code", "next_at", "can_be_asked", "waits"),
    [
        ("session_revoked", None, False, True),
        ("bad_answer", None, True, True),
        ("key_invalid", 4e9, True, False),
    ],
)
def test_the_page_offers_a_sync_and_says_what_is_waited_for_as_it_is(
    served: Served, client: TestClient, code: str, next_at: float | None, can_be_asked: bool, waits: bool
) -> None:
    client.put(f"{API}/connections/lastfm", json={"values": {"user": "ada7"}}).raise_for_status()
    state(served, "lastfm", failures=1, code=code, message="No.", advice="Act.", held="fatal", next_at=next_at)
    page = client.get("/music").text
    assert ("/music/sync/lastfm" in page) is can_be_asked
    assert ("data-waits" in page) is waits
    assert line(client, "lastfm")["next_try_at"] == next_at


@pytest.mark.parametrize(
    ("values", "tone", "said"),
    [
        ({"success_at": 5.0}, "good", "Last.fm"),
        ({"failures": 1, "code": "network", "message": "It is away.", "held": "backoff"}, "warn", "It is away."),
        (None, "good", "Last.fm"),
    ],
)
def test_whoever_asks_for_a_call_is_told_how_it_went(
    served: Served, client: TestClient, values: dict[str, Any] | None, tone: str, said: str
) -> None:
    client.put(f"{API}/connections/lastfm", json={"values": {"user": "ada7"}}).raise_for_status()
    if values is not None:  # as whoever syncs would write it a moment later
        state(served, "lastfm", tried_at=time.time() + 60, **values)
    page = client.post("/music/sync/lastfm", headers={"Origin": HERE}, follow_redirects=True)
    told = message(page.text)
    assert (told[0], said in told[1]) == (tone, True)


def test_whoever_asks_for_a_call_that_is_not_made_is_told_why(served: Served, client: TestClient) -> None:
    client.put(f"{API}/connections/lastfm", json={"values": {"user": "ada7"}}).raise_for_status()
    how: dict[str, Any] = {"failures": 1, "code": "rate_limited", "message": "Too fast.", "held": "retry_after"}
    state(served, "lastfm", tried_at=time.time(), **how)
    page = client.post("/music/sync/lastfm", headers={"Origin": HERE}, follow_redirects=True)
    assert re.search(r'class="said (warn|bad)">.*Last\.fm.*Too fast\.', page.text, re.DOTALL)
