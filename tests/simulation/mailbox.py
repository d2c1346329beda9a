"""Where notices are delivered to: two channels with weather of their own, and what came through each."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tests.jobs.gating import Refusal
from tidegate import Queue
from tidegate.notices.channels import Channel, Message, Webhook
from tidegate.notices.dispatcher import NoticeDispatcher
from tidegate.notices.policy import NoticePolicy

Rows = Callable[..., list[tuple[Any, ...]]]
CHANNELS = (
    Channel(name="hook", config=Webhook(url="https://hook.example/in"), level="info"),
    Channel(name="spare", config=Webhook(url="https://spare.example/in"), standby=True, order=200),
)
POLICY = NoticePolicy(grace=120.0, group=120.0, steady=300.0)
ILLS = ("down", "unavailable", "cuts")
DELIVERIES = """
select d.notice, d.channel, d.round_no, d.state, d.code, j.id, d.created_at,
    (select count(*) from tg_event e where e.job = j.id and e.seq = 0)
from tg_delivery d left join tg_job j on j.id = d.job order by 1, 2, 3
"""
UNTOLD = """
select count(*) from tg_delivery where state = 'queued'
"""


class Mailbox:
    """Both channels, as those who are told see them."""

    def __init__(self, dice: random.Random, note: Callable[..., None]) -> None:
        self._dice, self._note = dice, note
        self.ill: dict[str, str] = {}
        self.came: Counter[tuple[str, str]] = Counter()  # letters that were taken, by channel and id
        self.cut: Counter[tuple[str, str]] = Counter()  # of those, how many times nobody was told so

    def telling(self, queue: Queue) -> NoticeDispatcher:
        return NoticeDispatcher(queue, CHANNELS, POLICY, address="https://tidegate.example", send=self._send)

    def _send(self, channel: Channel, letter: Message, *, now: float) -> None:
        ill, place = self.ill.get(channel.name, ""), (channel.name, "-".join(letter.id.split("-")[2:]))
        self._note("letter", *place, ill)
        if ill == "down":
            raise ConnectionRefusedError("nobody listens")
        if ill == "unavailable":
            raise Refusal(503, retry_after="30")
        self.came[place] += 1
        if ill == "cuts":
            self.cut[place] += 1
            raise ConnectionResetError("cut after it was taken")

    def fall_ill(self) -> tuple[str, str]:
        name, ill = self._dice.choice(CHANNELS).name, self._dice.choice(ILLS)
        self.ill[name] = ill
        return name, ill

    def mend(self) -> None:
        self.ill.clear()

    def settled(self, rows: Rows) -> bool:
        return not rows(UNTOLD)[0][0]

    def wrong(self, rows: Rows, until: float, *, calm: bool) -> Iterator[str]:
        known = dict[tuple[str, str], tuple[Any, ...]]()
        for notice, channel, round_no, state, code, job, at, runs in rows(DELIVERIES):
            place = (channel, f"{notice}-{round_no}")
            known[place] = (state, runs)
            if state == "queued" and at < until:
                yield f"notice {place} was never delivered: job {job}"
            if state == "delivered" and not self.came[place]:
                yield f"notice {place} counts as delivered, and never came"
            if state == "failed" and code is None:
                yield f"notice {place} failed, and nobody knows why"
        for place, n in self.came.items():
            state, runs = known.get(place, (None, 0))  # trials of an outage are runs, and no attempts
            if state is None:
                yield f"{place} came, and nobody was to be told"
            elif calm and n != 1 + self.cut[place] and state == "delivered":
                yield f"{place} came {n} times, and {self.cut[place]} of them were cut"
            elif n > runs:
                yield f"{place} came {n} times in {runs} runs"
