"""From a notice to what people get, with real threads, by a webhook, a mail server and apprise on the loopback."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.notices.receiving import hook, post
from tidegate import Queue, outbox
from tidegate.events import Notice, NoticeKind
from tidegate.notices import deliveries, inbox
from tidegate.notices.channels import Apprise, Channel, ChannelConfig, Mail, Webhook
from tidegate.notices.dispatcher import NoticeDispatcher

pytestmark = pytest.mark.filterwarnings("ignore:.*imghdr.*")


async def test_a_notice_reaches_each_channel_once_and_the_next_one_where_one_refuses(tmp_path: Path) -> None:
    with hook() as web, hook() as phone, hook() as broken, post() as mail, Queue(f"sqlite:///{tmp_path / 'q.db'}") as q:
        broken.always = 401
        ways: dict[str, ChannelConfig] = {
            "web": Webhook(url=web.url, secret="0123456789abcdef"),
            "phone": Apprise(url=phone.url.replace("http://", "json://")),
            "broken": Webhook(url=broken.url),
            "mail": Mail(
                host="127.0.0.1", port=mail.port, security="none", sender="t@example.org", to=("a@b.example",)
            ),
        }
        found = [
            Channel(name=name, config=way, order=order, standby=name == "mail")
            for order, (name, way) in enumerate(ways.items())
        ]
        telling = NoticeDispatcher(q, found, address="https://t.example")
        q.add_background_task(lambda: telling.run(every=0.2))
        about = Notice(
            kind=NoticeKind.FATAL, target="spotify", key="7", episode=q.clock.now(), title="Spotify needs you",
            message="The service refused the credentials.", code="unauthorized",
        )  # fmt: skip
        q.store.write(lambda tx: outbox.record_target_notice(tx, outbox.of_target(about, "7")))
        stop = asyncio.Event()
        working = asyncio.create_task(q.arun_worker(stop=stop))
        first = q.store.read(inbox.list_notices).items[0].id

        def states() -> dict[str, str]:
            rows = q.store.read(lambda tx: deliveries.deliveries(tx, [first]))[first]
            return {each.channel: each.state for each in rows}

        wanted = {"web": "delivered", "phone": "delivered", "broken": "failed", "mail": "delivered"}
        async with asyncio.timeout(100):
            while states() != wanted:  # noqa: ASYNC110 - other threads write it
                await asyncio.sleep(0.1)
        stop.set()
        await working

        titles = [document["data"]["title"] for document in web.documents()]
        assert titles.count("Spotify needs you") == 1
        assert [document["title"] for document in phone.documents()].count("Spotify needs you") == 1
        assert [each["Subject"] for each in mail.mails].count("Spotify needs you") == 1
        assert mail.mails[0]["Message-ID"] == f"<{web.got[0][0]['webhook-id']}@example.org>"
        assert [each.name for each in q.store.read(deliveries.failing)] == ["broken"]
