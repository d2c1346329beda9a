"""The simulated Tautulli: the same rows every time, however many there are, and none of them kept."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, date, datetime, timedelta, timezone

import httpx2
import pytest

from tidegate_apps.tautulli.client import ClientTiming, HistoryQuery, Tautulli
from tidegate_demo.simulators.tautulli import STATES, HistoryShape, MadeHistory, TautulliSimulator

UNTIL = 1_700_000_000
PATIENT = ClientTiming(begin=60, total=60)


def test_a_million_rows_are_computed_and_not_kept() -> None:
    tracemalloc.start()
    try:
        made = MadeHistory(HistoryShape(rows=1_000_000, until=UNTIL, per_day=1000))
        rows = [made.row(place) for place in range(500_000, 500_100)]
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert rows == [made.row(place) for place in range(500_000, 500_100)]
    assert UNTIL - 86400 < made.started(999_999) <= UNTIL


def test_rows_are_in_the_order_of_their_beginning_and_nearly_in_that_of_their_ids() -> None:
    made = MadeHistory(HistoryShape(rows=5001, until=UNTIL))
    started = [made.started(place) for place in range(len(made))]
    ids = [made.row_id(place) for place in range(len(made))]
    assert started == sorted(started)
    assert sorted(ids) == list(range(1, 5002))
    assert ids != sorted(ids)


def test_days_are_those_of_its_own_zone() -> None:
    far = timezone(timedelta(hours=13))
    made = MadeHistory(HistoryShape(rows=2000, until=UNTIL, zone=far))
    day = datetime.fromtimestamp(made.started(1000), far).date()
    found = made.between(day, day)
    assert 1000 in found
    assert {datetime.fromtimestamp(made.started(place), far).date() for place in found} == {day}
    assert len({datetime.fromtimestamp(made.started(place), UTC).date() for place in found}) == 2
    assert made.between(day + timedelta(days=4000), None) == range(2000, 2000)


def test_every_row_comes_once_over_all_pages_in_either_order() -> None:
    with (
        TautulliSimulator(rows=450, until=UNTIL) as sim,
        Tautulli(sim.url, sim.key, ClientTiming(begin=60, total=60)) as client,
    ):
        sim.play(3)
        for oldest_first in (True, False):
            pages = [
                client.get_history(HistoryQuery(start=start, length=200, oldest_first=oldest_first))
                for start in range(0, 600, 200)
            ]
            assert sorted(play.row_id for page in pages for play in page.plays) == list(range(1, 454))
            assert [len(page.plays) for page in pages] == [200, 200, 53]
        assert client.get_history(HistoryQuery(after=date(2030, 1, 1))).filtered == 0
        films = client.get_history(HistoryQuery(length=500, media_type="movie"))
        assert films.filtered == len(films.plays) < films.total == 453


def test_a_row_that_comes_late_has_its_place_by_its_beginning_and_no_filter_leaves_it_in_by_mistake() -> None:
    with (
        TautulliSimulator(rows=100, until=UNTIL, now=lambda: UNTIL) as sim,
        Tautulli(sim.url, sim.key, PATIENT) as client,
    ):
        began = sim.history.started(40)
        sim.play(1, started=began, date=began)
        sim.play(1, started=UNTIL + 40 * 86400)
        sim.play(1)
        sim.remove(0, 50)
        found = client.get_history(HistoryQuery(length=500, oldest_first=True))
        started = [play.started for play in found.plays]
        assert started == sorted(started)
        assert (len(started), found.filtered, found.total, found.plays[-1].row_id) == (101, 101, 101, 102)
        assert not {sim.history.row_id(0), sim.history.row_id(50)} & {play.row_id for play in found.plays}
        today = datetime.fromtimestamp(UNTIL, UTC).date()
        late = client.get_history(HistoryQuery(length=500, oldest_first=True, after=today + timedelta(days=1)))
        assert ([play.row_id for play in late.plays], late.filtered) == ([102], 1)
        recent = client.get_history(HistoryQuery(length=500, oldest_first=True, after=today - timedelta(days=1)))
        assert 101 not in {play.row_id for play in recent.plays}


def test_it_is_switched_while_it_runs_and_says_what_it_knows() -> None:
    with TautulliSimulator(rows=5) as sim, httpx2.Client(base_url=sim.url, timeout=60) as http:
        asked = {"apikey": sim.key, "cmd": "status"}
        assert http.post("/state", content="internal").json() == {"state": "internal"}
        assert http.get("/api/v2", params=asked).status_code == 500
        assert http.post("/state", content="well").status_code == 200
        assert http.get("/api/v2", params=asked).json()["response"]["message"] == "Ok"
        assert http.post("/play", content="2").json() == {"rows": 7}
        assert http.post("/state", content="nonsense").status_code == 400
        assert http.get("/api/v2", params={"apikey": sim.key, "cmd": "sing"}).status_code == 400
        assert http.get("/api/v2").json()["response"]["message"] == "Parameter apikey is required"
        assert http.get("/").headers["location"] == "/auth/login"
        with pytest.raises(ValueError, match=r"'nonsense'.* well"):
            sim.next("nonsense")
        assert "database" in STATES
