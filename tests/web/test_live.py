"""The stream that keeps pages up to date: nothing is missed, and everybody is told what is theirs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from tests.databases import POSTGRES, Database
from tests.text import message
from tests.web.api.building import Shop, listening, served, shop
from tests.web.following import QUICK, following, paused, the
from tidegate import Queue, outbox
from tidegate.accounts import users
from tidegate.clock import VirtualClock
from tidegate.outbox import NewNotice, NoticeSubject
from tidegate.store.base import Tx
from tidegate.web.app import build
from tidegate.web.live.watcher import SILENT
from tidegate.web.site import LivePolicy, Site


@pytest.fixture
def app(there: Shop) -> FastAPI:
    return served(there, live=QUICK)


@pytest.fixture
def address(app: FastAPI) -> Iterator[str]:
    with listening(app) as found:
        yield found


def noticed(there: Shop, episode: float = 1.0, level: str = "error", user: str | None = None) -> None:
    new = NewNotice(
        kind="fatal",
        level=level,
        place=NoticeSubject(subject="target", name="mailer", lane=user or ""),
        episode=episode,
        title="mailer needs your attention",
        message="The service refused the credentials.",
        code=f"code-{episode:g}",
        user=user,
    )
    there.queue.run_in_transaction(lambda tx: outbox.raise_notice(tx, new))


async def test_whoever_comes_is_told_how_things_are(there: Shop, address: str) -> None:
    await asyncio.to_thread(noticed, there)
    async with following(address) as messages:
        here = (await the("here", messages))["about"]

    assert here["targets"] == {"ok": 1}
    assert {each["name"] for each in here["queues"]} == {"files", "mail"}
    assert (here["unread"], here["engine"], here["tick"], here["away"]) == (1, "none", None, False)
    assert [(each["id"], each["href"]) for each in here["notices"]] == [(1, "/targets/mailer")]
    assert here["as_of"] == pytest.approx(there.queue.clock.now(), abs=60)


@pytest.mark.req("SYNC-09", "SYNC-13")
async def test_a_notice_for_one_user_is_told_to_nobody_else_now_or_later(there: Shop, address: str) -> None:
    def people(tx: Tx) -> dict[str, str]:
        for name, role in (("ada", "admin"), ("bob", "viewer")):
            users.add_user(tx, name, role, "no password fits this")
        return {name: users.begin_session(tx, name) for name in ("ada", "bob")}

    sessions = await asyncio.to_thread(there.queue.store.write, people)
    async with (
        following(address, session=sessions["ada"]) as of_ada,
        following(address, session=sessions["bob"]) as of_bob,
    ):
        await the("here", of_ada)
        last = await the("here", of_bob)
        await asyncio.to_thread(noticed, there, 1.0, user="ada")
        mine = await the("notice", of_ada)
        await asyncio.to_thread(noticed, there, 2.0, user="somebody elsewhere")  # no account has that name
        theirs = await the("notice", of_bob)

    assert (mine["about"]["id"], theirs["about"]["id"]) == (1, 2)
    assert mine["about"]["href"] == "/targets/mailer"
    for name, seen in (("ada", [2, 1]), ("bob", [2])):
        async with following(address, after=last["about"]["id"], session=sessions[name]) as later:
            here = await the("here", later)
            assert [each["id"] for each in here["about"]["notices"]] == seen
            assert (await the("notice", later))["about"]["id"] == seen[-1]


async def test_a_change_is_told_with_whole_values_and_ids_that_grow(there: Shop, address: str) -> None:
    async with following(address) as messages:
        await the("here", messages)
        await asyncio.to_thread(paused, there, "ada")
        happened = await the("happened", messages)
        now = await the("now", messages)

    assert (happened["about"]["kind"], happened["about"]["actor"]) == ("target_paused", "ada")
    assert now["about"]["targets"] == {"paused": 1}
    assert "1 target is paused" in now["about"]["sentence"]
    assert int(happened["id"]) < int(now["id"])


@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
async def test_a_change_is_told_within_a_second_on_postgresql_too(db: Database, tmp_path: Path) -> None:
    with shop(tmp_path, db.url) as there:
        there.send.enqueue("ada@example.org")
        with listening(served(there)) as address:
            async with following(address) as messages:
                await the("here", messages)
                took = []
                for name in ("ada", "bob", "cyd", "dee", "eve"):
                    began = time.monotonic()
                    await asyncio.to_thread(paused, there, name)
                    assert (await the("happened", messages))["about"]["actor"] == name
                    took.append(time.monotonic() - began)
    assert min(took) < 1  # the others may have met a machine that was busy


async def test_what_was_missed_is_told_again(there: Shop, address: str) -> None:
    async with following(address) as messages:
        await the("here", messages)
        await asyncio.to_thread(paused, there, "ada")
        seen = int((await the("now", messages))["id"])
    await asyncio.to_thread(paused, there, "bob")
    async with following(address, last=str(seen)) as messages:
        missed = await the("happened", messages)
    async with following(address, after=seen) as messages:
        again = await the("happened", messages)

    assert missed["about"]["actor"] == "bob"
    assert again == missed
    assert int(missed["id"]) > seen


@pytest.mark.parametrize("last", ["0", "12", "9007199254740991", "x", "-1"])
async def test_who_was_away_for_too_long_begins_anew(there: Shop, address: str, last: str) -> None:
    async with following(address, last=last) as messages:
        reset = await the("reset", messages)
        newest = int(reset["id"])
    async with following(address, after=newest) as messages:
        await the("here", messages)
        await asyncio.to_thread(paused, there, *(f"n{n}" for n in range(QUICK.kept + 5)))
        for _ in range(QUICK.kept + 5):
            await the("happened", messages)
    async with following(address, after=newest) as messages:  # more has happened than is kept
        assert int((await the("reset", messages))["id"]) > newest


async def test_without_news_there_are_signs_of_life_and_nothing_else(there: Shop, address: str) -> None:
    async with following(address) as messages:
        kinds = [(await anext(messages))["event"] for _ in range(5)]

    assert kinds == ["here", *["beat"] * 4]


async def test_a_notice_is_told_when_it_comes_and_when_it_was_read(there: Shop, address: str) -> None:
    async with following(address) as messages, httpx2.AsyncClient(timeout=60) as client:
        await the("here", messages)
        await asyncio.to_thread(noticed, there)
        came = (await the("notice", messages))["about"]
        origin = {"Origin": address, "Tidegate-Refresh": "1"}
        answer = await client.post(f"{address}/notices/{came['id']}/read", headers=origin)
        read = (await the("notice", messages))["about"]

    assert (came["level"], came["open"], came["unread"], came["unread_count"]) == ("error", True, True, 1)
    assert (read["id"], read["unread"], read["unread_count"]) == (came["id"], False, 0)
    assert (answer.status_code, answer.headers.get("set-cookie")) == (204, None)


async def test_a_worker_that_falls_silent_is_told(tmp_path: Path) -> None:
    clock = VirtualClock(1_794_753_000.0)
    about = {"id": "w", "host": "here", "pid": 1, "queues": "[]", "stopping": 0, "outdated": 0, "beat": 1}
    with (
        Queue(f"sqlite:///{tmp_path / 'quiet.db'}", clock=clock, inline=True) as q,
        listening(build(Site(queue=q, live=QUICK))) as address,
    ):
        async with following(address) as messages:
            assert (await the("here", messages))["about"]["engine"] == "none"
            q.run_in_transaction(lambda tx: tx.query("worker_seen", about))
            assert (await the("now", messages))["about"]["engine"] == "working"
            clock.advance(SILENT - 0.1)
            assert (await the("beat", messages))["about"]["engine"] == "working"
            clock.advance(0.2)
            while (silent := (await the("beat", messages))["about"])["engine"] != "silent":
                pass
            q.run_in_transaction(lambda tx: tx.query("worker_seen", about))
            while (await the("beat", messages))["about"]["engine"] != "working":
                pass

    assert SILENT < 15
    assert (silent["tick"], silent["heard"]) == (1_794_753_000.0, "14:30")


def test_a_silent_worker_is_told_within_15_s_of_its_last_word() -> None:
    numbers = LivePolicy()
    assert SILENT + numbers.poll_interval + numbers.soonest < 15


async def test_a_database_that_is_away_is_told_and_the_stream_goes_on(there: Shop, address: str) -> None:
    async with following(address) as messages:
        await the("here", messages)
        there.queue.away = True
        while not (await the("beat", messages))["about"]["away"]:
            pass
        there.queue.away = False
        while (await the("beat", messages))["about"]["away"]:
            pass
        await asyncio.to_thread(paused, there, "ada")
        assert (await the("happened", messages))["about"]["actor"] == "ada"


async def test_without_a_stream_the_same_is_there_as_json(there: Shop, address: str) -> None:
    async with httpx2.AsyncClient(timeout=60) as client:
        first = (await client.get(f"{address}/live")).json()
        await asyncio.to_thread(paused, there, "ada")
        async with asyncio.timeout(60):
            while (second := (await client.get(f"{address}/live")).json())["id"] == first["id"]:
                pass

    assert second["targets"] == {"paused": 1}
    assert second["id"] > first["id"]


async def test_a_page_knows_what_it_has_in_it(there: Shop, app: FastAPI, address: str) -> None:
    async with httpx2.AsyncClient(timeout=60) as client:
        page = (await client.get(f"{address}/")).text

    assert f'data-live="{app.state.live.newest}"' in page


async def test_a_refresh_does_not_take_the_words_that_are_meant_for_the_next_page(address: str) -> None:
    async with httpx2.AsyncClient(timeout=60) as client:
        form = {"lasts": "1h", "back": "/targets"}
        await client.post(f"{address}/targets/mailer/pause", data=form, headers={"Origin": address})
        quiet = (await client.get(f"{address}/targets", headers={"Tidegate-Refresh": "1"})).text
        shown = (await client.get(f"{address}/targets")).text

    assert '<div class="said' not in quiet
    assert message(shown)[0] == "good"
