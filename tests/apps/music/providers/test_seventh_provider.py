"""The factory, and a seventh provider as the page describes it: one file and one entry point."""

from __future__ import annotations

import logging
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import httpx2
import pytest

from tests.apps.music.providers.building import AGENT, Desk, Jumping
from tests.text import names
from tidegate import classify
from tidegate.testing import RecordedRequest, Simulator, Status
from tidegate_apps.music.client import Limiters
from tidegate_apps.music.provider import Operation, ProviderConnection, ProviderContext
from tidegate_apps.music.registry import GROUP, kinds, load_kinds, make_provider

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "write-a-music-provider.md"


def block(kind: str, number: int = 0) -> str:
    found = re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return str(found[number])


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's package, as an installer leaves it."""
    about = tomllib.loads(block("toml"))["project"]
    (tmp_path / "jukebox.py").write_text(block("python"))
    info = tmp_path / f"{about['name']}-{about['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    [(group, points)] = about["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    kinds.cache_clear()
    yield
    kinds.cache_clear()
    sys.modules.pop("jukebox", None)


@pytest.mark.req("SYNC-12")
@pytest.mark.usefixtures("installed")
async def test_a_seventh_provider_is_one_file_and_one_entry_point() -> None:
    found = kinds()
    assert sorted(found) == ["fanart", "jukebox", "lastfm", "musicbrainz", "navidrome", "openai", "spotify"]
    kind, clock, saved = found["jukebox"], Jumping(), list[object]()

    async def save(changes: object) -> None:
        saved.append(changes)

    with Simulator() as sim:
        heard_at = [clock.now() - 500 + n for n in range(150)]

        def plays(asked: RecordedRequest) -> object:
            wanted = [at for at in heard_at if at >= float(asked.query["since"])][: int(asked.query["most"])]
            return {"plays": [{"coin": f"c{at}", "at": at, "title": "T", "artist": "A"} for at in wanted]}

        sim.on("GET /plays", plays)
        async with httpx2.AsyncHTTPTransport() as transport:
            there = ProviderContext(transport=transport, clock=clock, paces=Limiters(clock), save=save, agent=AGENT)
            values = {"url": sim.url, "key": "secret"}
            provider = make_provider(kind, ProviderConnection(user="ann", provider="jukebox", values=values), there)
            assert provider is not None
            heard = [play.ref async for batch in provider.plays(None) for play in batch.items]
            assert set(heard) == {f"c{at}" for at in heard_at}
            sim.then("GET /plays", Status(403))
            with pytest.raises(Exception, match="jukebox answered 403") as caught:
                await provider.check()
    fault = classify(caught.value, kind.rules)
    assert fault is not None
    assert fault.code == "unauthorized"


@pytest.mark.req("SYNC-12")
def test_ours_are_six_with_the_intervals_of_the_requirement() -> None:
    assert {name: kind.every for name, kind in kinds().items()} == {
        "navidrome": 300, "spotify": 300, "lastfm": 300, "musicbrainz": 900, "fanart": 3600, "openai": 3600,
    }  # fmt: skip
    assert [kind.every for kind in kinds().values()] == sorted(kind.every for kind in kinds().values())


async def test_what_is_not_configured_is_not_there_and_no_error(desk: Desk) -> None:
    for name, kind in kinds().items():
        required = [each for each in kind.fields if each.required]
        assert (desk.with_values(name, {}) is None) == bool(required)
        whole = desk.values(name)
        for each in required:
            assert desk.with_values(name, {**whole, each.name: ""}) is None
            assert [left.name for left in kind.missing({**whole, each.name: ""})] == [each.name]


def test_a_provider_that_cannot_be_loaded_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "tidegate")
    points = [
        EntryPoint("gone", "no_such_module:kind", GROUP),
        EntryPoint("odd", "json:dumps", GROUP),
        EntryPoint("twin", "tests.apps.music.providers.test_seventh_provider:TWIN", GROUP),
        EntryPoint("lastfm", "tidegate_apps.music.providers.lastfm:kind", GROUP),
    ]
    assert list(load_kinds(points)) == ["lastfm"]
    tokens = [("json:dumps", "Kind"), ("no_such_module:kind",), ("'lastfm'", "providers.test_seventh_provider:TWIN")]
    told = [record.getMessage() for record in caplog.records]
    assert [names(line, *each) for line, each in zip(told, tokens, strict=True)] == [True] * 3


TWIN = kinds()["lastfm"]


def test_every_kind_says_what_people_need_to_know() -> None:
    for name, kind in kinds().items():
        assert name == kind.name
        assert kind.about.endswith(".")
        assert set(kind.operations) <= set(Operation)
        names = [each.name for each in kind.fields]
        assert len(set(names)) == len(names)
        for each in kind.fields:
            secret = any(word in each.name for word in ("key", "password", "token", "secret", "session"))
            assert each.secret == secret, f"{name}.{each.name}"
            assert not (each.hidden and each.required)
        assert all(address.startswith("https://") for address in kind.addresses.values())
