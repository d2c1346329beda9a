"""The story: the actions of each step, its text, and the page to open. Every number is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidegate_demo.stage import FEED, GONE, LISTENER, DemoEnvironment, Facts, many

# -- faults, for buttons and the story ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFault:
    """One fault of one service. *breaks* and *mends* are the labels of the buttons."""

    name: str  # in the URL of its form
    service: str
    ill: str  # the status while it is active
    breaks: str
    mends: str
    watch: str  # the effect to observe
    look: str  # the page that shows it
    target: str = ""  # the target whose holds are shown while it is active; empty if only the page shows it
    do: Sequence[Callable[[DemoEnvironment], object]]
    undo: Sequence[Callable[[DemoEnvironment], object]]
    on: Callable[[DemoEnvironment], bool]

    @property
    def at(self) -> tuple[str, str | None]:
        """Return the target and the key of the fault."""
        return (self.target, None) if self.target else ("feeds", self.look.rpartition("/")[2])


def _gateway(name: str, ill: str, breaks: str, watch: str, state: str) -> DemoFault:
    return DemoFault(
        name=name,
        service="Gateway of Convert",
        ill=ill,
        breaks=breaks,
        mends="Mend it",
        watch=watch,
        look="/convert",
        target="convert-gateway",
        do=[lambda stage: stage.services.gateway.now(state), lambda stage: stage.rush(8)],
        undo=[lambda stage: stage.services.gateway.now("well")],
        on=lambda stage: stage.services.gateway.state == state,
    )


def _music(name: str, title: str, state: str, ill: str, breaks: str, watch: str) -> DemoFault:
    return DemoFault(
        name=name,
        service=title,
        ill=ill,
        breaks=breaks,
        mends="Mend it",
        watch=watch,
        look="/music",
        target=name,
        do=[lambda stage: stage.services.music.services[name].now(state)],
        undo=[lambda stage: stage.services.music.services[name].now("well")],
        on=lambda stage: stage.services.music.services[name].state.get("") == state,
    )


def _feed(number: int, name: str, state: str, ill: str, breaks: str, watch: str) -> DemoFault:
    return DemoFault(
        name=name,
        service=f"Feed {number}",
        ill=ill,
        breaks=breaks,
        mends="Mend it",
        watch=watch,
        look=f"/feeds/{number}",
        do=[lambda stage: stage.services.feeds.now(number, state)],
        undo=[lambda stage: stage.services.feeds.now(number, "well"), lambda stage: stage.poll(number)],
        on=lambda stage: stage.services.feeds.state(number) == state,
    )


def _lidarr(name: str, weather: str, ill: str, breaks: str, watch: str) -> DemoFault:
    def change(environment: DemoEnvironment, to: str) -> None:
        environment.services.lidarr.weather = to

    return DemoFault(
        name=name,
        service="Lidarr",
        ill=ill,
        breaks=breaks,
        mends="Mend it",
        watch=watch,
        look="/lidarr",
        target="lidarr",
        do=[lambda stage: change(stage, weather), lambda stage: stage.more_albums(1)],
        undo=[lambda stage: change(stage, "well")],
        on=lambda stage: stage.services.lidarr.weather == weather,
    )


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

Do = Callable[[DemoEnvironment], object]
_STEP_TIMEOUT = 40.0  # seconds that a step waits for its effect after its minimum duration


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryStep:
    """One step. It ends after its minimum duration once *seen* is true, or after a timeout."""

    title: str
    do: Sequence[Do] = ()
    say: Callable[[Facts], str]
    watch: str  # the feature that this step shows
    seen: Callable[[Facts], bool]  # whether the effect was observed
    look: Sequence[tuple[str, str]]
    lasts: float  # seconds
    patience: float = _STEP_TIMEOUT


def _breaks(name: str) -> Sequence[Do]:
    return TROUBLES[name].do


def _mends(name: str) -> Sequence[Do]:
    return TROUBLES[name].undo


def _none(n: int, *, lost: str) -> str:
    return f"none is {lost}" if not n else f"{n:,} {'is' if n == 1 else 'are'} {lost}"


def _wait(n: int, what: str) -> str:
    return f"{many(n, what)} {'waits' if n == 1 else 'wait'}"


def _well(facts: Facts) -> str:
    return (
        f"{many(facts.converted, 'PDF')} converted, {facts.polled} of {many(facts.feeds, 'feed')} polled, "
        f"{many(facts.plays, 'play')} of music synced, {many(facts.albums_sent, 'entry', 'entries')} sent to Lidarr."
    )


def _shut(facts: Facts) -> str:
    breaker = {
        "open": "Its breaker is open, so nobody calls it in vain",
        "half-open": "Its breaker lets a few calls through, to see",
        "closed": "Calls begin to fail, and its breaker is still closed",
    }[facts.breaker]
    return f"{breaker}. {_wait(facts.uploads_wait, 'upload')}, {_none(facts.uploads_failed, lost='lost')}."


def _revoked(facts: Facts) -> str:
    if not facts.spotify_notices:
        return "The next sync finds out. No retry can help here."
    notices = many(facts.spotify_notices, "notice")
    return f"{notices} asks you to connect again, and no call is made until then. Other services sync on."


def _rests(facts: Facts) -> str:
    if facts.rests_until is None:
        so_far = f"{many(facts.refusals, 'such answer')} so far" if facts.refusals else "It is polled"
        return f"{so_far}; after three in a row it rests."
    return (
        f"{many(facts.refusals, 'answer')} in a row: feed {FEED} rests for two days, then it is tried once. "
        f"{many(facts.feeds - 1, 'other feed')} go on."
    )


def _full(facts: Facts) -> str:
    if not facts.lidarr_full:
        return f"It is asked before anything is sent. {_wait(facts.albums_wait, 'album')}, and more come."
    return (
        f"{facts.lidarr_taken} of {facts.lidarr_room} places of its queue are taken, so nothing is sent and no attempt "
        f"is used up: {_wait(facts.albums_wait, 'album')}."
    )


def _drains(facts: Facts) -> str:
    return (
        f"{_wait(facts.albums_wait, 'album')}, {facts.albums_sent:,} sent; "
        f"never more than {facts.lidarr_room} at a time in its queue (now {facts.lidarr_taken})."
    )


def _back(facts: Facts) -> str:
    breaker = {
        "open": "The breaker is open still, and asks every two seconds whether it is well",
        "half-open": "The breaker lets a few calls through, to see",
        "closed": "The breaker is closed: calls go one by one, then more and more",
    }[facts.breaker]
    waiting, lost = _wait(facts.uploads_wait, "upload"), _none(facts.uploads_failed, lost="lost")
    spotify = "Spotify syncs again." if not facts.spotify_needs else "Spotify is connected again."
    return f"{breaker}. {waiting}, {facts.converted:,} converted, {lost}. {spotify}"


STORY: Sequence[StoryStep] = (
    StoryStep(
        title="All is well.",
        say=_well,
        watch="Five applications call five kinds of services. Everything works, and nothing asks for you.",
        seen=lambda facts: (
            facts.converted >= 10
            and facts.polled >= facts.feeds > 0
            and facts.plays > 0
            and facts.breaker == "closed"
            and not facts.spotify_needs
        ),
        look=[("/", "Overview"), ("/convert", "Convert"), ("/feeds", "Feeds"), ("/tautulli", "Plays")],
        lasts=20,
    ),
    StoryStep(
        title="The gateway that converts PDFs answers 503.",
        do=_breaks("gateway"),
        say=_shut,
        watch="A service is down. Its breaker opens, and its work is held: it is not lost, and uses up no attempts.",
        seen=lambda facts: facts.breaker == "open" and facts.uploads_wait >= 8,
        look=[("/convert", "Uploads wait"), ("/targets/convert-gateway", "Its breaker"), ("/", "Overview")],
        lasts=30,
    ),
    StoryStep(
        title="Spotify takes our access away.",
        do=_breaks("spotify"),
        say=_revoked,
        watch="Some failures need a person. They are told once, with what to do, and are not tried again meanwhile.",
        seen=lambda facts: facts.spotify_notices == 1 and facts.spotify_needs > 0,
        look=[("/notices", "The notice"), ("/music", "Music")],
        lasts=25,
    ),
    StoryStep(
        title="A feed answers 404.",
        do=_breaks("feed"),
        say=_rests,
        watch="One feed of many is gone for now. It alone rests, for as long as its failure is worth.",
        seen=lambda facts: facts.rests_until is not None,
        look=[(f"/feeds/{FEED}", f"Feed {FEED}"), ("/feeds", "All feeds")],
        lasts=20,
    ),
    StoryStep(
        title="Lidarr is full.",
        do=[DemoEnvironment.fill_lidarr, DemoEnvironment.more_albums],
        say=_full,
        watch="A service that works can be busy. It says how full it is, and gets no more than it has room for.",
        seen=lambda facts: facts.lidarr_full and facts.albums_wait >= 50,
        look=[("/lidarr", "Lidarr"), ("/targets/lidarr", "How full it is")],
        lasts=25,
    ),
    StoryStep(
        title="Lidarr has room again.",
        do=_mends("full"),
        say=_drains,
        watch="What waited goes, artists before their albums, as room comes.",
        seen=lambda facts: facts.albums_wait <= 40,
        look=[("/lidarr", "Lidarr"), ("/lidarr?state=submitted", "What was sent")],
        lasts=25,
    ),
    StoryStep(
        title="The gateway and Spotify are back.",
        do=[*_mends("gateway"), *_mends("spotify"), *_mends("feed")],
        say=_back,
        watch="A service that has just come back is not run over by all that waited: a few calls try it, then more.",
        seen=lambda facts: facts.breaker == "closed" and facts.uploads_wait <= 3 and not facts.spotify_needs,
        look=[("/targets/convert-gateway", "Its breaker"), ("/convert", "Uploads"), ("/notices", "Notices")],
        lasts=30,
    ),
)


def ended(facts: Facts) -> str:
    """Return the text after the story."""
    lost = "Nothing was lost" if not facts.uploads_failed else f"{many(facts.uploads_failed, 'upload')} failed"
    return (
        f"{lost}: {facts.converted:,} PDFs converted, {facts.albums_sent:,} sent to Lidarr, "
        f"{many(facts.notices, 'notice')} in all. Now break something yourself."
    )
