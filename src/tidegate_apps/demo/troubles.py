"""What can be broken and mended by hand, and in the story: one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidegate_apps.demo.services import LISTENER
from tidegate_apps.demo.stage import FEED, GONE, DemoEnvironment


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFault:
    """One trouble of one service. *breaks* and *mends* are what the buttons say."""

    name: str  # in the address of its form
    service: str
    ill: str  # how it is while it is broken
    breaks: str
    mends: str
    watch: str  # what then happens
    look: str  # the page that shows it
    target: str = ""  # whose holds are told while it is broken; empty where its page alone tells
    do: Sequence[Callable[[DemoEnvironment], object]]
    undo: Sequence[Callable[[DemoEnvironment], object]]
    on: Callable[[DemoEnvironment], bool]

    @property
    def at(self) -> tuple[str, str | None]:
        """The target and the key that it is a trouble of."""
        return (self.target, None) if self.target else ("feeds", self.look.rpartition("/")[2])


def _gateway(name: str, ill: str, breaks: str, watch: str, state: str) -> DemoFault:
    return DemoFault(
        name=name, service="Gateway of Convert", ill=ill, breaks=breaks, mends="Mend it", watch=watch, look="/convert",
        target="convert-gateway", do=[lambda stage: stage.services.gateway.now(state), lambda stage: stage.rush(8)],
        undo=[lambda stage: stage.services.gateway.now("well")], on=lambda stage: stage.services.gateway.state == state,
    )  # fmt: skip


def _music(name: str, title: str, state: str, ill: str, breaks: str, watch: str) -> DemoFault:
    return DemoFault(
        name=name, service=title, ill=ill, breaks=breaks, mends="Mend it", watch=watch, look="/music", target=name,
        do=[lambda stage: stage.services.music.services[name].now(state)],
        undo=[lambda stage: stage.services.music.services[name].now("well")],
        on=lambda stage: stage.services.music.services[name].state.get("") == state,
    )  # fmt: skip


def _feed(number: int, name: str, state: str, ill: str, breaks: str, watch: str) -> DemoFault:
    return DemoFault(
        name=name, service=f"Feed {number}", ill=ill, breaks=breaks, mends="Mend it", watch=watch,
        look=f"/feeds/{number}", do=[lambda stage: stage.services.feeds.now(number, state)],
        undo=[lambda stage: stage.services.feeds.now(number, "well"), lambda stage: stage.poll(number)],
        on=lambda stage: stage.services.feeds.state(number) == state,
    )  # fmt: skip


def _lidarr(name: str, weather: str, ill: str, breaks: str, watch: str) -> DemoFault:
    def change(environment: DemoEnvironment, to: str) -> None:
        environment.services.lidarr.weather = to

    return DemoFault(
        name=name, service="Lidarr", ill=ill, breaks=breaks, mends="Mend it", watch=watch, look="/lidarr",
        target="lidarr", do=[lambda stage: change(stage, weather), lambda stage: stage.more_albums(1)],
        undo=[lambda stage: change(stage, "well")],
        on=lambda stage: stage.services.lidarr.weather == weather,
    )  # fmt: skip


_ALL = (
    _gateway(
        "gateway",
        "It answers 503.",
        "Let it answer 503",
        "Its health check fails, too, and the breaker opens. Uploads are taken and wait; none is lost.",
        "unavailable",
    ),
    _gateway(
        "silent",
        "It says nothing.",
        "Let it hang",
        "Calls end after 10 seconds, and count as failures. Uploads wait.",
        "hangs",
    ),
    DemoFault(
        name="spotify",
        service="Spotify",
        ill="Our access is revoked.",
        breaks="Revoke our access",
        mends="Connect again",
        watch="No retry helps, so none is made: one notice asks a person to connect again.",
        look="/music",
        target="spotify",
        do=[DemoEnvironment.revoke],
        undo=[DemoEnvironment.connect],
        on=lambda stage: LISTENER not in stage.services.music.spotify.accounts.consents,
    ),
    _music(
        "navidrome",
        "Navidrome",
        "unavailable",
        "It answers 503.",
        "Let it answer 503",
        "Its syncs back off, longer each time. The other services sync on.",
    ),
    _music(
        "lastfm",
        "Last.fm",
        "throttled",
        "It answers 429.",
        "Let it throttle us",
        "It says for how long, and is not called sooner.",
    ),
    _feed(
        FEED,
        "feed",
        "not_found",
        "It answers 404.",
        "Let it answer 404",
        "After three in a row the feed rests for two days. Every other feed is polled on.",
    ),
    _feed(
        GONE,
        "gone",
        "gone",
        "It answers 410.",
        "Let it be gone",
        "One answer is enough: the feed rests for three days.",
    ),
    DemoFault(
        name="full",
        service="Lidarr",
        ill="Its queue is full.",
        breaks="Fill its queue",
        mends="Empty it",
        watch="Nothing is sent while it is full. Albums wait in order, and no attempt is used up.",
        look="/lidarr",
        target="lidarr",
        do=[DemoEnvironment.fill_lidarr, lambda stage: stage.more_albums(2)],
        undo=[DemoEnvironment.empty_lidarr],
        on=lambda stage: stage.lidarr_filled,
    ),
    _lidarr(
        "metadata",
        "metadata down",
        "Its metadata service is down.",
        "Take its metadata away",
        "It cannot add anything new: what needs that service is held, and the rest goes on.",
    ),
    DemoFault(
        name="tautulli",
        service="Tautulli",
        ill="It answers 500.",
        breaks="Let it answer 500",
        mends="Mend it",
        watch="Its breaker opens after five failures. The page of plays is served from what is stored.",
        look="/tautulli",
        target="tautulli-api",
        do=[lambda stage: stage.services.tautulli.now("internal"), DemoEnvironment.sync_tautulli],
        undo=[lambda stage: stage.services.tautulli.now("well"), DemoEnvironment.sync_tautulli],
        on=lambda stage: stage.services.tautulli.state == "internal",
    ),
)

TROUBLES: Mapping[str, DemoFault] = {each.name: each for each in _ALL}
