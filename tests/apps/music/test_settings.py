"""The section of music: a table for each provider, secrets by reference, connections from the start; and commands."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.apps.music.building import Studio, World, kind_of
from tests.text import names
from tidegate import Queue, __version__
from tidegate.settings import load
from tidegate_apps.music.app import advice, app
from tidegate_apps.music.jobs import ask_for_contact, user_agent
from tidegate_apps.music.registry import kinds
from tidegate_apps.music.settings import MusicSettings, addresses, declared, of_kind, operator_values

TEXT = """
apps = ["music"]
[music]
contact = "me@example.org"
[music.lastfm]
every = "10m"
api_key = "env:LASTFM_KEY"
[music.spotify]
client_id = "abc"
accounts_url = "https://accounts.example"
[music.connect.ada.navidrome]
url = "https://music.example"
user = "ada"
password = "env:NAVIDROME_PASSWORD"
"""


def loaded(folder: Path, text: str = TEXT) -> MusicSettings:
    (folder / "tidegate.toml").write_text(text)
    environ = {"LASTFM_KEY": "k3y", "NAVIDROME_PASSWORD": "s3cret"}
    found = load(file=folder / "tidegate.toml", environ=environ, apps=[app])
    shown = str([each.as_json() for each in found.effective()])
    assert "s3cret" not in shown
    assert "k3y" not in shown
    settings = found.app("music")
    assert isinstance(settings, MusicSettings)
    return settings


@pytest.mark.req("SYNC-12")
def test_each_provider_has_its_table_and_the_intervals_of_the_requirement(tmp_path: Path) -> None:
    settings = loaded(tmp_path)
    every = {name: float(of_kind(settings, kind).every) for name, kind in kinds().items()}
    assert every == {
        "navidrome": 300, "spotify": 300, "lastfm": 600, "musicbrainz": 900, "fanart": 3600, "openai": 3600,
    }  # fmt: skip
    assert float(of_kind(MusicSettings(), kinds()["lastfm"]).every) == 300
    assert operator_values(settings, kinds()["lastfm"]) == {"api_key": "k3y"}
    assert addresses(settings, kinds()["spotify"])["spotify_accounts"] == "https://accounts.example"
    assert addresses(settings, kinds()["spotify"])["spotify"].startswith("https://api.spotify.com")
    assert declared(settings) == {
        ("ada", "navidrome"): {"url": "https://music.example", "user": "ada", "password": "s3cret"}
    }


@pytest.mark.req("SYNC-05")
def test_the_numbers_of_backoff_are_those_of_the_requirement_and_can_be_set(tmp_path: Path) -> None:
    plain = MusicSettings()
    assert (float(plain.backoff_base), float(plain.backoff_cap), plain.backoff_jitter) == (30, 1800, 0.25)
    assert (float(plain.reprobe), plain.cap_notice, plain.keep_health) == (3600, True, False)
    assert float(loaded(tmp_path, TEXT.replace("contact =", 'backoff_base = "10s"\ncontact =')).backoff_base) == 10


@pytest.mark.req("SYNC-17")
@pytest.mark.parametrize(("given", "taken"), [("0s", 0), ("1m", 60), ("59s", None), (-1, None)])
def test_the_probe_after_a_fatal_fault_can_be_switched_off_and_is_never_more_than_one_a_minute(
    given: Any, taken: float | None
) -> None:
    if taken is not None:
        assert float(MusicSettings.model_validate({"reprobe": given}).reprobe) == taken
    else:
        with pytest.raises(ValueError, match="reprobe"):
            MusicSettings.model_validate({"reprobe": given})


def test_the_commands_connect_list_and_disconnect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tidegate.cli.root import run as main

    (tmp_path / "tidegate.toml").write_text(
        f'db = "sqlite:///{tmp_path / "t.db"}"\napps = ["music"]\n[music.lastfm]\napi_key = "k3y"\n'
    )
    monkeypatch.chdir(tmp_path)

    def run(*args: str, code: int = 0) -> str:
        try:
            ended = main(["music", *args])
        except SystemExit as error:
            ended = error.code if isinstance(error.code, int) else 1
        said = capsys.readouterr()
        assert ended == code, said
        return said.out + said.err

    assert "lastfm       Not connected" in run("status")
    assert names(run("connect", "lastfm", "user=ada7"), "Last.fm", "local")
    assert '"state": "new"' in run("status", "--json")
    assert "othing yet" in run("list", "tracks")
    assert "plays" in run("list", "plays", "--find", "song", code=2)
    assert run("sync", "lastfm", "--wait", "0", code=8)
    assert names(run("disconnect", "lastfm"), "Last.fm", "local")
    assert '"state": "none"' in run("status", "--json")
    assert "'nosuch'" in run("disconnect", "nosuch", code=7)
    assert names(run("connect", "lastfm", code=2), "user: ", "User name")
    assert "browser" in run("connect", "spotify", code=2)


@pytest.mark.parametrize(
    ("contact", "said"),
    [("", ""), ("me@example.org", " (me@example.org)"), ("https://me.example", " (+https://me.example)")],
)
def test_services_are_told_whom_to_write_to_only_where_the_operator_says_so(contact: str, said: str) -> None:
    settings = MusicSettings(contact=contact)
    assert user_agent(settings) == f"Tidegate/{__version__}{said}"
    assert ["music.contact" in each for each in advice(settings)] == [True] * (not contact)


@pytest.mark.parametrize("contact", ["Jörg at example.org", "me@example.org\nX-Other: 1", "\0"])
def test_a_contact_that_no_request_can_carry_is_refused_before_every_call_fails_by_it(contact: str) -> None:
    with pytest.raises(ValueError, match="contact"):
        MusicSettings(contact=contact)


def test_that_nobody_can_be_written_to_is_said_once_and_only_when_somebody_is_called(
    quick: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(quick.clock)  # type: ignore[arg-type]
    with Studio.opened(quick, kind_of(world), world=world) as s, caplog.at_level(logging.WARNING):
        asyncio.run(ask_for_contact(s.there, s.there.jobs))
        assert "no_contact" not in caplog.text
        s.connect()
        for _ in range(2):
            asyncio.run(ask_for_contact(s.there, s.there.jobs))
        assert caplog.text.count("no_contact setting=music.contact") == 1
