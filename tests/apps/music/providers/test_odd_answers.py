"""Whatever a service sends, a provider reads it, says that it cannot, or calls a row bad; it never stumbles."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apps.music.providers.building import Desk, artists, rows
from tidegate import classify
from tidegate.testing import VirtualClock
from tidegate_apps.music.parsing import isrc, mbid, moment, number, read_rows, shown, text, token
from tidegate_apps.music.provider import Batch, Operation, Play, Provider
from tidegate_apps.music.registry import kinds
from tidegate_demo.simulators.music import NOWHERE, MusicSimulator

Work = Callable[[Provider], AsyncIterator[Batch[Any]]]
WORK: dict[tuple[str, str], Work] = {
    ("navidrome", "plays"): lambda provider: provider.plays(None),
    ("navidrome", "playlists"): lambda provider: provider.playlists(),
    ("spotify", "plays"): lambda provider: provider.plays(None),
    ("spotify", "playlists"): lambda provider: provider.playlists(),
    ("lastfm", "plays"): lambda provider: provider.plays(None),
    ("musicbrainz", "ids"): lambda provider: provider.enrich(Operation.IDS, artists(0)),
    ("fanart", "art"): lambda provider: provider.enrich(Operation.ART, artists(8, mbids=True)),
    ("openai", "tags"): lambda provider: provider.enrich(Operation.TAGS, artists(0, 8)),
}

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20),
    st.sampled_from(["", "0", "-1", "1e999", "NaN", "2023-13-45", "\x00", "\ud800", "true", 10**400]),
)  # fmt: skip
odd = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


class Odd(httpx2.AsyncBaseTransport):
    """Puts something else into one place of the answer that is the *nth*."""

    def __init__(self, inner: Any, nth: int, where: list[int], what: object) -> None:
        self._inner, self._left, self._where, self._what = inner, nth, where, what

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response: httpx2.Response = await self._inner.handle_async_request(request)
        self._left -= 1
        if self._left != -1:
            return response
        body = json.loads(await response.aread())
        return httpx2.Response(200, content=json.dumps(replaced(body, self._where, self._what)).encode())


def replaced(document: Any, where: list[int], what: object) -> Any:
    """*document* with *what* in one place; *where* says which way to go at each turn."""
    if not where or not isinstance(document, dict | list) or not document:
        return what
    turn, *rest = where
    if isinstance(document, list):
        at = turn % len(document)
        return [replaced(each, rest, what) if n == at else each for n, each in enumerate(document)]
    name = list(document)[turn % len(document)]
    return {key: replaced(value, rest, what) if key == name else value for key, value in document.items()}


@cache
def services() -> MusicSimulator:
    sim = MusicSimulator(clock=VirtualClock())
    for user in ("ann",):
        sim.connect(user, NOWHERE)
        for number_of_song in range(3):
            for service in (sim.navidrome, sim.spotify, sim.lastfm):
                service.listening.hear(user, number_of_song)
    sim.musicbrainz.limited = False
    return sim


@pytest.mark.parametrize(("name", "what"), WORK)
@settings(max_examples=60, deadline=None)
@given(nth=st.integers(0, 3), where=st.lists(st.integers(0, 20), max_size=7), something=odd)
def test_an_odd_answer_is_read_or_refused_in_words(
    name: str, what: str, nth: int, where: list[int], something: object
) -> None:
    sim = services()
    desk = Desk(sim, VirtualClock(), Odd(sim.transport(), nth, where, something), NOWHERE)
    provider = desk.provider(name)

    async def all_of_it() -> list[object]:
        async with asyncio.timeout(30):
            return await rows(WORK[name, what](provider))

    found: list[object] = []
    stumbled: Exception | None = None
    try:
        found = desk.clock.run(all_of_it())
    except Exception as error:  # what it is, is asked below
        stumbled = error
    fault = classify(stumbled, kinds()[name].rules)
    assert stumbled is None or (fault is not None and fault.code != "unexpected"), f"{stumbled!r}"
    for each in found:
        str(each).encode()
        assert not isinstance(each, Play) or (each.song.title and each.song.artist and each.at > 0)


@given(odd)
@settings(max_examples=200, deadline=None)
def test_every_reader_takes_whatever_comes(value: object) -> None:
    for read in (text, token, number, moment, mbid, isrc, shown):
        found = read(value)
        assert found is None or len(str(found).encode()) < 40_000
    good, bad = read_rows([value], lambda row: row)
    assert len(good) + len(bad) == 1


@pytest.mark.parametrize(
    ("value", "at"),
    [
        (1700000000, 1700000000.0), ("1700000000", 1700000000.0), ("2023-11-14T22:13:20Z", 1700000000.0),
        ("2023-11-14T22:13:20.5+00:00", 1700000000.5), ("2023-11-14T22:13:20", 1700000000.0), (0, None), (-5, None),
        ("yesterday", None), (True, None), (float("nan"), None), (1e30, None), (None, None), ({}, None),
    ],
)  # fmt: skip
def test_moments_are_seconds_or_dates(value: object, at: float | None) -> None:
    assert moment(value) == at


def test_ids_are_read_in_one_spelling() -> None:
    assert mbid(" 89AD4AC3-39F7-470E-963A-56509C546377 ") == "89ad4ac3-39f7-470e-963a-56509c546377"
    assert mbid("89ad4ac3") is None
    assert isrc("us-rc1-76-07839") == "USRC17607839"
    assert isrc(["USRC17607839", "x"]) == "USRC17607839"
    assert isrc([]) is None
    assert text("a\x00b\nc") == "a b c"
    assert len(text("x" * 5000)) == 1000
    assert token("x" * 9000) == ""
