"""The public names as a user's program uses them. It is never run: mypy reads it, in strict mode."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from datetime import timedelta
from typing import Any, assert_type

import tidegate
from tidegate import (
    Backoff,
    Breaker,
    BreakerOpen,
    Cooldown,
    Fault,
    Held,
    Rate,
    Target,
    TooManyRequests,
    classify,
    fault_of,
    rules,
    sinks,
)
from tidegate.events import Event, Notice, Subscription
from tidegate.faults import Code, CodeBook, Confirm, Level, Reach, Reason
from tidegate.guard import Add, Answer, Counts, Health, Hold, NetworkGuardPolicy, Permit, TargetKey


class Play:
    pass


class TautulliClient:
    def get_history(self, since: int, *, most: int = 10) -> list[Play]:
        return []

    async def aget_history(self, since: int) -> list[Play]:
        return []


def classifying(error: Exception, response: object) -> None:
    fault = classify(error, rules.spotify)
    assert_type(fault, Fault | None)
    assert_type(classify(response), Fault | None)
    if fault is not None:
        assert_type(fault.code, str)
        assert_type(fault.status, int)
        assert_type((fault.retriable, fault.fatal), tuple[bool, bool])
        assert_type((fault.reason, fault.reach, fault.level), tuple[Reason, Reach, Level])
        assert_type(fault.retry_after, float | None)
        assert_type((fault.message, fault.detail, fault.rule), tuple[str, str, str])
    assert_type(fault_of(error), Fault | None)
    code = Code(name="GW_5XX", reason=Reason.OVERLOADED, reach=Reach.TARGET, message="Busy.", advice="Wait.")
    assert_type(CodeBook([code]).extend(), CodeBook)


def waiting() -> None:
    assert_type(Backoff(base=30, cap=1800, factor=2, jitter=0.25).delay(3, roll=None), float)
    assert_type(Backoff("1m", cap=timedelta(hours=1), jitter=Add("0s", "1m")), Backoff)
    assert_type(Backoff.listed(5, "15s", 45, jitter=0.2), Backoff)
    assert_type(Backoff.sync().bound, float)


async def breaking(breaker: Breaker) -> None:
    client = TautulliClient()
    assert_type(breaker.call(client.get_history, 5, most=3), list[Play])
    assert_type(await breaker.acall(client.aget_history, 5), list[Play])
    with breaker.permit() as permit:
        assert_type(permit, Permit)
    assert_type(breaker.allow(), Permit | None)
    assert_type(breaker.counts, Counts)

    @breaker
    def ping(times: int) -> str:
        return "pong" * times

    assert_type(ping, Callable[[int], str])  # type: ignore[assert-type]  # the parameter keeps its name too
    assert_type(ping(times=2), str)


spotify = Target(
    "spotify", "sync", rules=rules.spotify, backoff=Backoff("30s", cap="30m"), breaker=None, cooldown=None, groups=None,
    rate=Rate(10, "1s"), concurrency=4, confirm=(Confirm("unauthorized", times=2, apart="30s", probe=None),),
    probe=None, probe_every="10s", when_open="hold", deadline="30s", self_guard=NetworkGuardPolicy(hosts=20),
)  # fmt: skip
Target("feeds", breaker={"consecutive": "5"})  # type: ignore[arg-type]
Target("feeds", breaker={"failures": 5})  # type: ignore[arg-type]
feeds = Target("feeds", cooldown=Cooldown.feeds(), breaker={"consecutive": 5}, groups={"local": ["queue"]})
own_rests = Cooldown({"not_found": (3, "48h"), "timeout": (10, "12h")})


@spotify.guard(key="user_id", retry=3)
async def recent(user_id: int, after: int) -> list[Play]:
    return []


@spotify.guard
def bare(name: str, *, most: int = 10) -> list[str]:
    return []


@spotify.key(7).guard(key=lambda name, **more: name, operation="lists")
def playlists(name: str, *, most: int = 10) -> list[str]:
    return []


async def guarding(client: TautulliClient) -> None:
    made = recent(7, after=5)
    assert_type(await assert_type(made, Coroutine[Any, Any, list[Play]]), list[Play])
    assert_type(await recent(user_id=7, after=5), list[Play])
    assert_type(playlists("mine", most=3), list[str])
    await recent("7", 5)  # type: ignore[arg-type]
    playlists(name=3)  # type: ignore[arg-type]
    playlists("mine", least=3)  # type: ignore[call-arg]

    part = spotify.key(7)
    assert_type(part, TargetKey)
    assert_type(part.call(client.get_history, 5, most=3), list[Play])
    assert_type(await part.acall(client.aget_history, 5), list[Play])
    part.call(client.get_history, "5")  # type: ignore[arg-type]

    answer = await spotify.acall_stale(client.aget_history, 5)
    assert_type(answer, Answer[list[Play]])
    assert_type((answer.value, answer.stale, answer.age), tuple[list[Play], bool, float])
    assert_type(spotify.call_stale(client.get_history, 5), Answer[list[Play]])

    api = spotify.wrap(client)
    assert_type(api, TautulliClient)
    assert_type(api.get_history(5), list[Play])


def asking(part: TargetKey) -> None:
    holds = part.explain("recent")
    assert_type(holds, list[Hold])
    assert_type((holds[0].since, holds[0].until, holds[0].message), tuple[float, float | None, str])
    part.disable("48h", by="anna")
    part.disable(None)
    assert_type(part.enable(), bool)
    part.clear()
    assert_type(spotify.unhealthy(), list[Health])
    spotify.pause(timedelta(minutes=5))
    assert_type(spotify.resume(), bool)
    assert_type(spotify.breaker, Breaker | None)


def held() -> None:
    try:
        playlists("mine")
    except (BreakerOpen, TooManyRequests, Held) as stopped:
        assert_type((stopped.target, stopped.reason, stopped.since), tuple[str, str, float])
        assert_type(stopped.key, Hashable)
        assert_type((stopped.until, stopped.retry_after), tuple[float | None, float | None])


async def hearing() -> None:
    with tidegate.subscribe(user=7, limit=10) as events:
        assert_type(events, Subscription)
        for event in events:
            assert_type(event, Event)
            assert_type(event.notice, Notice | None)
        async for event in events:
            assert_type(event.fault, Fault | None)
        assert_type(events.dropped, int)
    sinks(log=True)
