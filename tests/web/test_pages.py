"""What pages hold besides being seen: nothing escapes, odd input breaks nothing, the way back is always ours."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import Request, Response
from starlette.testclient import TestClient

from tests.text import message, names
from tests.web.local import LocalClient
from tidegate import Again, Fail, Queue, Target
from tidegate.apps import App, Installed, Page, install
from tidegate.clock import VirtualClock
from tidegate.labels import JOBS, TARGETS
from tidegate.store.base import Tx, now_of
from tidegate.targets import reports
from tidegate.web import page
from tidegate.web.app import build
from tidegate.web.pages import system
from tidegate.web.pages.forms import COOKIE, Flash, local_path
from tidegate.web.site import Site

HERE = "http://127.0.0.1"
ODD = '<script>alert("1")</script>/../x & ?#\'"'


@dataclass(frozen=True)
class Parcel:
    to: str
    token: str = "hunter2"


def client(site: Site) -> TestClient:
    return LocalClient(build(site), client=("127.0.0.1", 50000), base_url=HERE, headers={"origin": HERE})


@pytest.fixture
def pages(q: Queue) -> TestClient:
    return client(Site(queue=q))


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[Queue]:
    """A queue whose names, arguments and failures try to break out."""
    with Queue(f"sqlite:///{tmp_path / 'odd.db'}", clock=VirtualClock(), inline=True) as found:

        @found.job(queue=ODD, name=ODD, target=Target(ODD), key=lambda parcel: parcel.to, attempts=1)
        def send(parcel: Parcel) -> None:
            raise RuntimeError(ODD)

        send.enqueue(Parcel(ODD))
        found.drain()
        send.enqueue(Parcel(ODD))
        found.target(ODD).pause("1h", by=ODD)
        yield found


def test_names_and_failures_that_look_like_markup_are_text_everywhere(odd: Queue) -> None:
    name = quote(ODD, safe="")
    paths = [
        "/", "/targets", f"/targets/{name}", "/queue", f"/queue/{name}", "/jobs/1", "/jobs/2", "/jobs/1/forget",
        "/workers", "/notices", f"/queue?kind={name}&target={name}&code={name}&queue={name}", f"/targets?name={name}",
        f"/find?what={name}x", f"/bulk?action=retry&state=failed&kind={name}", f"/help/errors/{name}",
    ]  # fmt: skip
    with client(Site(queue=odd)) as pages:
        for path in paths:
            found = pages.get(path)
            assert found.status_code in (200, 404), path
            assert "<script>alert" not in found.text, path
        assert html.escape(ODD) in pages.get(f"/targets/{name}").text.replace("&#34;", "&quot;").replace(
            "&#39;", "&#x27;"
        )


def test_a_name_with_odd_characters_can_be_acted_on_and_leads_back(odd: Queue) -> None:
    name = quote(ODD, safe="")
    with client(Site(queue=odd)) as pages:
        (back, *_) = re.findall(r'name="back" value="([^"]+)"', pages.get(f"/targets/{name}").text)
        assert html.unescape(back) == f"/targets/{name}"
        found = pages.post(f"/targets/{name}/resume", data={"back": html.unescape(back)})
        assert found.status_code == 200
        assert "goes on." in found.text
        assert html.escape(ODD)[:20] in found.text
        assert odd.store.read(lambda tx: reports.one(tx, ODD)).report.paused_until is None


def test_what_looks_like_a_secret_in_the_arguments_is_not_shown(odd: Queue) -> None:
    with client(Site(queue=odd)) as pages:
        assert "hunter2" not in pages.get("/jobs/1").text


def test_what_looks_like_a_secret_in_what_a_handler_says_is_not_shown(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'said.db'}", clock=VirtualClock(), inline=True) as q:

        @q.job(queue="said", attempts=2)
        def said(ending: str) -> None:
            message = "it was refused for token=hunter as before"
            raise Fail("NOPE", message) if ending == "fail" else Again(60, code="SOON", message=message)

        ids = [said.enqueue(ending).id for ending in ("fail", "again")]
        q.drain()
        with client(Site(queue=q)) as pages:
            [group, _] = pages.get("/api/v1/failures").json()["items"]
            bulk = f"/bulk?action=retry&state=failed&failure={group['failure']}"
            places = [f"/{each}/{id_}" for each in ("jobs", "api/v1/jobs") for id_ in ids]
            for place in ("/queue", "/failures", "/api/v1/failures", bulk, *places):
                text = pages.get(place).text
                assert "hunter" not in text, place
                assert place == "/queue" or "it was refused for token=*** as before" in html.unescape(text), place


def test_the_overview_says_how_things_are_and_how_full_a_target_is(pages: TestClient) -> None:
    text = pages.get("/").text

    assert "1 target" in text
    assert re.search(r'aria-label="lidarr: 47\b[^"]*\b50\b', text)
    assert "47/50" in text


def test_whoever_retries_a_group_of_failures_reads_which_one_it_is_before(pages: TestClient) -> None:
    retries = re.findall(r'href="(/bulk\?action=retry[^"]+)"', pages.get("/failures").text)
    assert retries

    text = pages.get(html.unescape(retries[0])).text

    assert re.search(r"<strong>[a-z]\w+</strong> \w+", text)
    assert ">Failures</a></li></ol>" in text  # the way back


def test_a_target_that_comes_and_goes_does_not_hide_what_changed_of_others(q: Queue, pages: TestClient) -> None:
    q.target("spotify").pause("1h", by="ann")
    for _ in range(12):
        q.target("lidarr").pause("1h", by="ann")
        q.target("lidarr").resume(by="ann")

    changed = pages.get("/").text.partition('id="transitions"')[2]

    assert changed.count("/targets/lidarr") == 1
    assert re.search(r"\b2\d other changes\b", changed)
    assert "/targets/spotify" in changed


def test_what_is_paused_is_resumed_where_it_is_told(q: Queue, pages: TestClient) -> None:
    q.pause("convert", "1h", by="ann")
    resumed = re.findall(r'action="(/[a-z/]+/resume)"', pages.get("/").text)
    assert resumed == ["/queue/convert/resume", "/targets/tautulli/resume"]
    for path in resumed:
        assert pages.post(path, data={"back": "/"}).url.path == "/"
    assert "Resume it" not in pages.get("/").text


def test_a_target_tells_its_breaker_with_what_would_open_it(pages: TestClient) -> None:
    for name, state in (("lidarr", "open"), ("gateway", "half-open"), ("tautulli", "closed")):
        assert f'data-state="{state}"' in pages.get(f"/targets/{name}").text, name
    assert "1 of 3" in pages.get("/targets/gateway").text
    assert re.search(r"60 % .* 6 calls .* 1 min", pages.get("/targets/tautulli").text)


def test_a_target_that_a_program_guards_tells_the_breaker_of_the_program(q: Queue, pages: TestClient) -> None:
    shut = {"state": "open", "calls": 72, "requests": 0, "consecutive_failures": 5}

    def told(tx: Tx) -> None:
        said = {"hydra-77": {"at": now_of(tx), "unhealthy": 1, "reasons": [], "breakers": {"plex": shut}}}
        tx.query("target_report", {"name": "plex", "summary": json.dumps(said)})

    q.store.write(told)
    text = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", pages.get("/targets/plex").text))

    assert re.search(r"\b5 .*\b72 .*hydra-77", text)
    assert "no breaker" not in text
    report = pages.get("/api/v1/targets/plex").json()
    assert text.count(report["reason"]) == 1  # and not once more below


def test_many_jobs_are_done_in_the_background_with_a_page_that_says_how_far(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'many.db'}", inline=True) as q:

        @q.job(queue="mail")
        def send(n: int) -> None: ...

        for n in range(510):
            send.enqueue(n)
        with client(Site(queue=q)) as pages:
            asked = {"action": "cancel", "state": "queued", "expected": "510", "back": "/queue?state=queued"}
            found = pages.post("/bulk", data=asked)
            assert found.url.path == "/actions/1"
            assert "510" in found.text
            end = time.monotonic() + 60
            while "510 jobs were cancelled" not in (text := pages.get(str(found.url)).text):
                assert time.monotonic() < end
                time.sleep(0.05)
            assert 'href="/queue?state=queued"' in text
            assert "Cancelled 510 jobs" in pages.get("/actions").text
            assert pages.get("/actions/2").status_code == 404
            assert pages.get("/actions/x").status_code == 404


def test_a_job_shows_only_the_buttons_that_its_state_and_its_kind_allow(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}", clock=VirtualClock(), inline=True) as q:

        @q.job(queue="money", cancellable=False)
        def pay(n: int) -> None:
            raise RuntimeError("no")

        @q.job(queue="mail")
        def send(n: int) -> None: ...

        refused, kept, free = pay.refuse((1,), "bad_request").id, pay.enqueue(2).id, send.enqueue(3).id
        found = client(Site(queue=q))

        def buttons(path: str) -> set[str]:
            return set(re.findall(r'action="/jobs/([0-9]+/[a-z]+)"', found.get(path).text))

        assert buttons("/queue") == {f"{free}/cancel"}
        assert [buttons(f"/jobs/{job}") for job in (refused, kept, free)] == [set(), set(), {f"{free}/cancel"}]
        bulk = re.compile(r">(Retry|Cancel|Forget) all")
        offered = [bulk.findall(found.get(path).text) for path in ("/queue/money?state=queued", "/queue?state=failed")]
        assert offered == [[], ["Forget"]]


@pytest.mark.parametrize(
    "path",
    [
        "/queue?state=nonsense&age=%01&code=%F0%9F&older=x", "/queue?cursor=zzz", "/targets?cursor=%3D%3D&state=zzz",
        "/queue?age=99999999d%2B", "/queue?age=5m%2B&state=queued&target=lidarr", "/notices?cursor=x&unread=yes",
        "/queue?age=1h-&kind=scrobble", "/queue?code=upstream_failure&target=last.fm", "/bulk?action=retry&state=done",
        "/find?what=999999999999999999999", "/find?what=lidar", "/find?what=%23956", "/jobs?state=failed",
    ],
)  # fmt: skip
def test_odd_questions_get_a_page(pages: TestClient, path: str) -> None:
    assert pages.get(path).status_code in (200, 404)


@pytest.mark.parametrize(
    "path", ["/jobs/0", "/jobs/x", "/jobs/99999999999999999999", "/queue/none", "/targets/none", "/none"]
)
def test_what_is_not_there_is_a_page_that_says_so(pages: TestClient, path: str) -> None:
    found = pages.get(path)

    assert found.status_code in (404, 422)
    assert found.headers["content-type"].startswith("text/html")
    assert '<nav id="menu"' in found.text


def test_a_store_that_is_away_has_a_page_of_its_own(q: Queue) -> None:
    pages = client(Site(queue=q))
    q.close()
    for path in ("/", "/queue", "/targets/lidarr", "/jobs/1", "/notices"):
        found = pages.get(path)
        assert found.status_code == 503
        assert "tidegate doctor" in found.text
        assert int(found.headers["retry-after"]) >= 1
    assert pages.get("/help").status_code == 503


@pytest.mark.parametrize(
    ("back", "fine"),
    [
        ("/queue?state=failed", True), ("/targets/a%2Fb", True), ("https://example.org/", False),
        ("//example.org/", False), ("/\\example.org", False), ("/a\r\nset-cookie: x", False), ("", False),
        ("javascript:alert(1)", False), ("/" + "a" * 2000, False),
    ],
)  # fmt: skip
def test_the_way_back_leads_to_our_own_pages_only(back: str, fine: bool) -> None:
    assert local_path(back, "/") == (back if fine else "/")


def test_a_form_leads_back_to_where_it_was_asked(pages: TestClient) -> None:
    found = pages.post("/targets/lidarr/pause", data={"lasts": "15m", "back": "//example.org"}, follow_redirects=False)
    assert (found.status_code, found.headers["location"]) == (303, "/targets/lidarr")
    found = pages.post("/targets/lidarr/pause", data={"lasts": "15m", "back": "/queue?a=b"}, follow_redirects=False)
    assert found.headers["location"] == "/queue?a=b"


@pytest.mark.parametrize("cookie", ["", "x", "e30=", Flash(text="x", tone="<b>").dump(), "W10=", "bnVsbA==", "é"])
def test_a_message_that_is_not_ours_is_not_shown(cookie: str) -> None:
    assert Flash.load(cookie) is None


def test_a_message_can_only_undo_what_the_table_names() -> None:
    said = Flash(text="Hello", undo="https://example.org", of="x")

    assert Flash.load(said.dump()) == said
    assert said.undo_path == ""
    assert Flash(text="Hello", undo="resume_target", of="a/b").undo_path == "/targets/a%2Fb/resume"


@pytest.mark.parametrize("sign", ["a", '"', "ع", "鴨", "🌊"])
def test_what_is_said_fits_into_a_cookie_in_every_script(sign: str) -> None:
    said = Flash(text=f"Key {sign * 200} rests.", undo="enable_key", of=sign * 60, key=sign * 60)
    assert len(said.dump()) < 3800
    assert Flash.load(said.dump()) == said

    long = Flash(text=sign * 3000, undo="enable_key", of="spotify", key="7")
    found = Flash.load(long.dump())
    assert len(long.dump()) < 3800
    assert found is not None
    assert found.text.startswith(sign * 100)
    assert found.text.endswith("…")
    assert found.undo_path == "/targets/spotify/enable"

    endless = Flash.load(Flash(text="Done.", undo="enable_key", of="x", key=sign * 3000).dump())
    assert endless is not None
    assert (endless.text, endless.undo_path) == ("Done.", "")


def test_a_message_is_said_once(pages: TestClient) -> None:
    tone, text = message(pages.post("/targets/lidarr/pause", data={"lasts": "15m"}).text)
    assert tone == "good"
    assert names(text, "lidarr", "14:45")
    assert COOKIE not in pages.cookies
    assert text not in pages.get("/help").text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "a pause has an end"), ({"lasts": "for ever"}, "is not a duration"),
        ({"until": "soon"}, "is not a date and time"),
        ({"until": "2020-01-01T00:00"}, "over already"), ({"lasts": "1000d"}, "more than a year"),
    ],
)  # fmt: skip
def test_a_pause_without_a_good_end_changes_nothing(
    pages: TestClient, q: Queue, given: dict[str, str], says: str
) -> None:
    found = pages.post("/targets/lidarr/pause", data=given)

    assert "Nothing was changed" in found.text
    assert says in found.text
    assert q.store.read(lambda tx: reports.one(tx, "lidarr")).report.paused_until is None


def test_every_link_and_form_stays_under_the_base_path(q: Queue) -> None:
    with LocalClient(build(Site(queue=q, base="/tg")), client=("127.0.0.1", 50000), base_url=HERE) as pages:
        for path in ("/", "/targets", "/targets/lidarr", "/queue", "/queue/lidarr", "/jobs/5", "/workers", "/notices",
                     "/settings", "/help", "/bulk?action=retry&state=failed", "/nothing"):  # fmt: skip
            text = pages.get(f"/tg{path}").text
            links = re.findall(r'(?:href|action|src)="(/[^"]*)"', text)
            assert links, path
            assert [link for link in links if not link.startswith("/tg/")] == [], path


def test_settings_are_shown_with_their_origin_and_without_passwords(q: Queue) -> None:
    rows: list[dict[str, Any]] = [
        {"key": "store.url", "value": "postgresql://ada:hunter2@db/jobs", "origin": "tidegate.toml"},
        {"key": "server.port", "value": 8321, "origin": "default", "about": "Where it listens.", "secret": False},
    ]
    with client(Site(queue=q, config=lambda: rows)) as pages:
        text = pages.get("/settings").text
    assert "tidegate.toml" in text
    assert "Where it listens." in text
    assert "hunter2" not in text


def test_settings_say_where_services_are_simulated(q: Queue) -> None:
    rows: list[dict[str, Any]] = [
        {"key": f"{app}.url", "value": "https://example.org", "origin": "tidegate.toml", "about": ""}
        for app in ("lidarr", "tautulli")
    ]
    simulated = {"lidarr": "http://127.0.0.1:4711"}
    with client(Site(queue=q, config=lambda: rows, simulated=simulated)) as pages:
        before, after = pages.get("/settings").text.split("Settings of tautulli")
    assert "<code>http://127.0.0.1:4711</code>" in before
    assert "127.0.0.1:4711" not in after


def test_every_code_has_a_page_and_a_state_has_a_meaning(pages: TestClient) -> None:
    text = pages.get("/help").text
    codes = re.findall(r'href="(/help/errors/[^"]+)"', text)
    assert len(codes) > 40
    for path in codes:
        assert pages.get(path).status_code == 200
    for word in ("Needs you", "Paused by breaker", "Testing recovery", "Resting", "Retrying", "Expired"):
        assert word in text


def test_help_names_only_documents_that_are_there_and_every_state() -> None:
    root = Path(__file__).parents[2]

    assert [path for _, path, _ in system.DOCS if not (root / path).is_file()] == []
    assert set(system.MEANINGS) == {*TARGETS, *JOBS}


def test_the_pages_of_an_application_are_in_the_navigation_and_in_the_frame(tmp_path: Path) -> None:
    def show(request: Request, _: Installed[None]) -> Response:
        return page(request, "not_found.html", what="rain")

    app: App[None] = App(
        name="weather", title="Weather",
        pages=[Page(path="/weather", title="Forecast", show=show), Page(path="/weather/hidden", show=show)],
    )  # fmt: skip
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}") as q:
        there = install(app, q)
        with client(Site(queue=q, apps=[there])) as pages:
            text = pages.get("/weather").text
            assert "rain" in text
            assert re.search(r'<a href="/weather" aria-current="page">.*Forecast', text)
            assert "/weather/hidden" not in text
            assert "Weather" in pages.get("/settings").text


def test_a_server_with_nothing_but_applications_says_where_to_begin(tmp_path: Path) -> None:
    def show(request: Request, _: Installed[None]) -> Response:
        return page(request, "not_found.html", what="rain")

    app: App[None] = App(name="weather", about="Rain.", pages=[Page(path="/weather", title="Forecast", show=show)])
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with Queue(url) as q, Queue(url) as other:

        @q.job(queue="weather")
        def look(city: str) -> None: ...

        look.enqueue("Oslo")
        with client(Site(queue=q, apps=[install(app, q)])) as pages:
            text = pages.get("/").text
            assert re.search(r"<h3>Forecast</h3><p>Rain.</p></div>\s*<a [^>]*href=\"/weather\"", text)
            assert '<div class="start">' in text  # how its own program is begun

            @other.job(queue="mail")
            def send(to: str) -> None: ...

            send.enqueue("Ada")
            assert 'id="start"' not in pages.get("/").text


def test_the_quick_start_works_as_it_is_written(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'tidegate.db'}") as q:
        site = Site(queue=q)
        with client(site) as pages:
            blocks = re.findall(r"<pre data-copy[^>]*>(.*?)</pre>", pages.get("/").text, re.DOTALL)
            program, command = (html.unescape(block) for block in blocks[:2])
            (tmp_path / "hello.py").write_text(program)
            shell = command.replace("python ", f"{sys.executable} ", 1)
            done = subprocess.run(shell, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True)
            assert "done=1" in done.stdout
            text = pages.get("/").text
            assert 'href="/queue/hello"' in text
            assert "Three steps" not in text
