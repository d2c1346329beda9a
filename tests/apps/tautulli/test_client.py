"""The client against a Tautulli over real HTTP: what each answer becomes, and what each failure means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from typing import Any

import httpx2
import pytest

from tidegate import classify, net, rules
from tidegate.testing import Step
from tidegate_apps.tautulli import models
from tidegate_apps.tautulli.client import ClientTiming, EmptyHistory, HistoryQuery, NoEnvelope, Tautulli, TautulliError
from tidegate_demo.simulators.tautulli import TautulliSimulator

API = "GET /api/v2"
PATIENT = ClientTiming(begin=60, total=60)
HURRIED = {"hangs": ClientTiming(begin=0.2, total=60), "drips": ClientTiming(begin=60, total=0.2)}


@pytest.fixture(scope="module")
def running() -> Iterator[TautulliSimulator]:
    with TautulliSimulator(rows=300, until=1_700_000_000) as sim:
        yield sim


@pytest.fixture
def sim(running: TautulliSimulator) -> TautulliSimulator:
    running.reset()
    return running


@pytest.fixture
def client(sim: TautulliSimulator) -> Iterator[Tautulli]:
    with Tautulli(sim.url, sim.key, PATIENT) as made:
        yield made


def test_each_command_has_its_typed_answer(client: Tautulli, sim: TautulliSimulator) -> None:
    assert client.status() == models.TautulliStatus("Ok")
    assert client.status("database").integrity == "ok"
    assert client.server_status() is True
    assert client.arnold() == "It's not a tumor!"
    activity = client.get_activity()
    assert (activity.stream_count, activity.sessions[0].duration) == (1, 2_998_272)  # both came as texts
    assert client.get_geoip_lookup("192.0.2.1").longitude == 10.7
    assert sim.calls() == 6


def test_a_row_of_the_documentation_of_tautulli_is_read_whole() -> None:
    row = {
        "date": 1462687607, "friendly_name": "Mother of Dragons", "full_title": "Game of Thrones - The Red Woman",
        "grandparent_rating_key": 351, "grandparent_title": "Game of Thrones", "group_count": 1, "group_ids": "1124",
        "media_type": "episode", "parent_title": "", "paused_counter": 0, "percent_complete": 84,
        "platform": "Windows", "play_duration": 263, "product": "Plex for Windows", "player": "Castle-PC",
        "rating_key": 4348, "reference_id": 1123, "row_id": 1124, "session_key": None, "started": 1462688107,
        "state": None, "stopped": 1462688370, "title": "The Red Woman", "transcode_decision": "transcode",
        "user": "DanyKhaleesi69", "user_id": 8008135, "watched_status": 0, "year": 2016,
    }  # fmt: skip
    found = models.play_of(row)
    assert found is not None
    assert (found.row_id, found.started, found.stopped, found.duration) == (1124, 1462688107, 1462688370, 263)
    assert (found.person, found.show, found.full_title) == ("Mother of Dragons", "Game of Thrones", row["full_title"])
    assert (found.user_id, found.year, found.percent_complete, found.watched_status) == (8008135, 2016, 84, 0)


def test_numbers_may_come_as_texts_and_nearly_everything_may_be_null() -> None:
    # As older versions sent it: `id` and `duration`, and texts.
    found = models.play_of({"id": "7", "date": "1462687607", "duration": "263.0", "year": "", "user": None})
    assert found is not None
    assert (found.row_id, found.started, found.duration, found.year, found.stopped) == (7, 1462687607, 263, None, None)
    assert (found.person, found.show) == ("unknown", "untitled")


@pytest.mark.parametrize(
    "row",
    [
        {"row_id": None, "id": None, "started": 1, "state": "playing"},
        {"row_id": 7, "started": 1, "state": "paused"},
        {"row_id": 7, "started": None, "date": None},
        {"row_id": "seven", "started": 1},
        {},
    ],
)
def test_a_stream_that_goes_on_is_no_play_yet(row: dict[str, Any]) -> None:
    assert models.play_of(row) is None


def test_texts_are_such_as_every_database_takes() -> None:
    assert models.text("a\0b\ud800c") == "ab?c"
    assert models.text({"no": "text"}) == models.text(None) == ""
    assert (models.number("1e400"), models.number("nan"), models.number(True), models.number([])) == (
        None, None, 1, None,
    )  # fmt: skip


def test_it_says_who_asks(client: Tautulli, sim: TautulliSimulator) -> None:
    client.status()
    assert sim.asked(API)[-1].headers["user-agent"] == net.user_agent()


def test_the_history_is_asked_for_as_it_is_not_grouped_and_without_what_goes_on(
    client: Tautulli, sim: TautulliSimulator
) -> None:
    found = client.get_history(
        HistoryQuery(start=10, length=200, oldest_first=True, after=date(2023, 11, 10), user="ada")
    )
    query = sim.asked(API)[-1].query
    assert {name: query[name] for name in sorted(query)} == {
        "after": "2023-11-10", "apikey": sim.key, "cmd": "get_history", "grouping": "0", "include_activity": "0",
        "length": "200", "order_column": "date", "order_dir": "asc", "out_type": "json", "start": "10", "user": "ada",
    }  # fmt: skip
    assert found.total == 300
    assert found.filtered > len(found.plays) == found.rows > 0
    assert {play.user for play in found.plays} == {"ada"}
    assert [play.started for play in found.plays] == sorted(play.started for play in found.plays)


FAILURES = [
    # state, what is raised, the code of its verdict, whether it counts against the breaker
    ("bad_key", TautulliError, "unauthorized", None),
    ("old_error", TautulliError, "unauthorized", None),
    ("api_off", TautulliError, "api_off", None),
    ("nothing", TautulliError, "upstream_failure", True),
    ("internal", TautulliError, "upstream_failure", True),
    ("bad_gateway", TautulliError, "upstream_failure", True),
    ("throttled", TautulliError, "rate_limited", None),
    ("login", json.JSONDecodeError, "html_answer", True),
    ("to_login", json.JSONDecodeError, "html_answer", True),
    ("no_envelope", NoEnvelope, "bad_answer", True),
    ("hangs", httpx2.ReadTimeout, "timeout", True),
    ("drips", httpx2.ReadTimeout, "timeout", True),
    ("resets", httpx2.ReadError, "network", True),
    ("cut", httpx2.RemoteProtocolError, "cut_short", True),
    ("cut_whole", json.JSONDecodeError, "cut_short", True),
    ("database", EmptyHistory, "empty_history", True),
]  # fmt: skip


@pytest.mark.req("BRK-07", "BRK-09")
@pytest.mark.parametrize(("state", "raised", "code", "counts"), FAILURES, ids=[row[0] for row in FAILURES])
def test_each_failure_means_what_it_means_at_tautulli(
    sim: TautulliSimulator, state: str, raised: type[Exception], code: str, counts: bool | None
) -> None:
    sim.now(state)
    with Tautulli(sim.url, sim.key, HURRIED.get(state, PATIENT)) as client, pytest.raises(raised) as caught:
        client.get_history(HistoryQuery(length=200, expected=True))
    assert type(caught.value) is raised
    fault = classify(caught.value, rules.tautulli)
    assert fault is not None
    assert (fault.code, fault.counts_as_failure) == (code, counts)
    assert sim.key not in f"{caught.value}{fault.detail}"


def test_nobody_there_is_a_fault_of_the_network(client: Tautulli, sim: TautulliSimulator) -> None:
    sim.outage("5m down")
    with pytest.raises(httpx2.ConnectError) as caught:
        client.status()
    fault = classify(caught.value, rules.tautulli)
    assert fault is not None
    assert fault.code == "network"


def test_a_wrong_key_is_told_in_the_words_of_tautulli(sim: TautulliSimulator) -> None:
    with Tautulli(sim.url, "wrong", PATIENT) as client, pytest.raises(TautulliError, match="Invalid apikey") as caught:
        client.status()
    assert caught.value.response.status_code == 400


def test_an_address_behind_a_root_of_its_own_is_kept(sim: TautulliSimulator) -> None:
    sim.on("GET /tautulli/api/v2", {"response": {"result": "success", "message": "Ok", "data": {}}})
    with Tautulli(f"{sim.url}/tautulli/", sim.key, PATIENT) as client:
        assert client.status().message == "Ok"


@pytest.mark.parametrize(
    ("here", "there", "followed"),
    [
        ("http://tautulli", "https://tautulli/plays/api/v2", True),
        ("http://tautulli:8181", "https://tautulli/api/v2", True),
        ("https://tautulli", "http://tautulli/api/v2", False),  # anybody on the way could read the key
        ("https://tautulli", "https://elsewhere/api/v2", False),
    ],
)
def test_a_redirect_takes_the_key_to_no_other_server_and_to_none_that_is_less_safe(
    here: str, there: str, followed: bool
) -> None:
    asked: list[str] = []

    def proxy(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url.copy_with(query=None)))
        if len(asked) == 1:
            return httpx2.Response(301, headers={"Location": f"{there}?{request.url.query.decode()}"})
        return httpx2.Response(200, json={"response": {"result": "success", "message": "Ok", "data": {}}})

    with Tautulli(here, "secret", PATIENT, httpx2.MockTransport(proxy)) as client:
        if followed:
            assert client.status().message == "Ok"
        else:
            with pytest.raises(TautulliError) as caught:
                client.status()
            fault = classify(caught.value, rules.tautulli)
            assert fault is not None
            assert (fault.code, fault.fatal) == ("redirected", True)
            assert "secret" not in f"{caught.value}{fault.detail}"
    assert asked == [f"{here}/api/v2", *([there] if followed else [])]


def test_redirects_that_do_not_end_are_told_as_such() -> None:
    asked: list[httpx2.URL] = []

    def proxy(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url)
        return httpx2.Response(302, headers={"Location": str(request.url)})

    transport = httpx2.MockTransport(proxy)
    with Tautulli("http://tautulli", "secret", PATIENT, transport) as client, pytest.raises(TautulliError) as caught:
        client.status()
    fault = classify(caught.value, rules.tautulli)
    assert fault is not None
    assert (fault.code, len(asked)) == ("redirected", 4)


def test_rows_that_end_sooner_than_was_said_are_no_empty_history(client: Tautulli, sim: TautulliSimulator) -> None:
    page = client.get_history(HistoryQuery(start=300, length=200, expected=True))
    assert (page.rows, page.filtered) == (0, 300)
    sim.then(API, Step(200, {"response": {"result": "success", "message": None, "data": {
        "recordsTotal": 0, "recordsFiltered": 0, "draw": 0, "data": [], "filter_duration": "0"}}}))  # fmt: skip
    with pytest.raises(EmptyHistory):
        client.get_history(HistoryQuery(start=200, length=200, expected=True))


def test_half_a_character_in_a_title_does_not_hide_its_page(client: Tautulli, sim: TautulliSimulator) -> None:
    sim.play(1, full_title="Half \ud83d", grandparent_title="")
    found = client.get_history(HistoryQuery(length=2)).plays
    assert (len(found), found[0].full_title) == (2, "Half ?")


def test_an_address_that_nobody_knows_is_told_and_is_no_failure(client: Tautulli) -> None:
    with pytest.raises(TautulliError, match="not found") as caught:
        client.get_geoip_lookup("203.0.113.1")
    assert classify(caught.value, rules.tautulli) is None
