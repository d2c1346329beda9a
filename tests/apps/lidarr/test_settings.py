"""The settings, by our own names and by those of the origin; and the words of the origin over the jobs of the core."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tidegate.settings import SettingsError, load
from tidegate_apps.lidarr.app import app
from tidegate_apps.lidarr.client import LidarrAlbum
from tidegate_apps.lidarr.models import (
    BADGE_STYLES,
    SubmissionRow,
    attempts_of,
    badge_of,
    entry_of,
    status_of,
    terminal_of,
)
from tidegate_apps.lidarr.settings import LidarrSettings


def loaded(tmp_path: Path, text: str = "", **environ: str) -> LidarrSettings:
    file = tmp_path / "tidegate.toml"
    file.write_text(f'apps = ["lidarr"]\n{text}')
    found: LidarrSettings = load(file=file, environ=environ, apps=[app]).app("lidarr")
    return found


@pytest.mark.req("LID-14")
def test_by_default_the_cap_is_fifty_and_the_wakes_are_three_minutes_apart(tmp_path: Path) -> None:
    found = loaded(tmp_path)

    assert (found.queue_max, found.submit_interval, found.configured) == (50, 180.0, False)


@pytest.mark.req("LID-14")
@pytest.mark.parametrize("prefix", ["SPOTTER_LIDARR_", "TIDEGATE_LIDARR_"])
def test_the_names_of_the_origin_and_our_own_are_understood(tmp_path: Path, prefix: str) -> None:
    said = {"QUEUE_MAX": "20", "SUBMIT_INTERVAL": "1m", "BASE_URL": "http://lidarr:8686/", "API_KEY": "k"}

    found = loaded(tmp_path, **{prefix + name: value for name, value in said.items()})

    assert (found.queue_max, found.submit_interval, found.base_url) == (20, 60.0, "http://lidarr:8686")
    assert found.configured


@pytest.mark.req("LID-14")
def test_the_file_has_them_too_and_a_wrong_one_is_said(tmp_path: Path) -> None:
    found = loaded(tmp_path, '[lidarr]\nqueue_max = 7\nsubmit_interval = "30s"\n')
    assert (found.queue_max, found.submit_interval) == (7, 30.0)
    with pytest.raises(SettingsError, match=r"lidarr\.base_url"):
        loaded(tmp_path, '[lidarr]\nbase_url = "lidarr:8686"\n')


@pytest.mark.parametrize("address", ["http://bob:hidden@lidarr:8686", "https://hidden@lidarr", "http://@lidarr"])
def test_an_address_with_a_name_or_a_password_is_refused_for_the_pages_link_to_it(tmp_path: Path, address: str) -> None:
    with pytest.raises(SettingsError, match="LIDARR_BASE_URL: ") as said:
        loaded(tmp_path, SPOTTER_LIDARR_BASE_URL=address)
    assert "hidden" not in str(said.value)


@pytest.mark.req("LID-01")
@pytest.mark.parametrize(
    ("state", "attempt", "deaths", "code", "status", "attempts", "retry", "terminal"),
    [
        ("ready", 0, 0, None, "queued", 0, False, None),
        ("blocked", 0, 0, None, "queued", 0, False, None),
        ("running", 1, 0, None, "queued", 0, False, None),
        ("waiting", 3, 0, "timeout", "failed", 3, True, None),
        ("waiting", 0, 0, None, "queued", 0, False, None),  # held behind the metadata service
        ("ready", 3, 0, "timeout", "failed", 3, True, None),  # its time has come, and Lidarr has not taken it yet
        ("running", 4, 0, "timeout", "failed", 3, True, None),
        ("ready", 1, 1, "worker_lost", "queued", 0, False, None),  # a crash is no failed submission
        ("done", 4, 0, "timeout", "submitted", 3, False, None),
        ("failed", 10, 0, "timeout", "failed", 10, False, "exhausted"),
        ("failed", 1, 0, "path_taken", "failed", 1, False, "permanent"),
        ("failed", 0, 0, "parent_failed", "failed", 0, False, "artist"),
        ("cancelled", 0, 0, None, "failed", 0, False, "cancelled"),
    ],
)
def test_a_job_is_a_row_of_the_submission_queue(
    state: str,
    attempt: int,
    deaths: int,
    code: str | None,
    status: str,
    attempts: int,
    retry: bool,
    terminal: str | None,
) -> None:
    args = (
        '{"submission":{"entity_type":"album","entity_id":7,"user":"ada","musicbrainz_id":"m","name":"N",'
        '"artist_id":1,"artist":"A"}}'
    )
    failed = state == "failed"
    row = SubmissionRow(
        5, state, args, attempt, deaths, 10, 100.0, 900.0, None, 200.0 if code else None, None, code,
        "It is down." if code else None, code if failed else None, "It is down." if failed else None, None, "queued",
    )  # fmt: skip

    found = entry_of(row)

    assert (found.status, found.attempts, found.terminal_reason) == (status, attempts, terminal)
    assert found.retry_at == (900.0 if retry else None)
    assert (found.created_at, found.updated_at) == (100.0, 200.0 if code else 100.0)
    assert (found.entity_type, found.entity_id, found.user, found.musicbrainz_id) == ("album", 7, "ada", "m")
    assert (attempts_of(state, attempt, deaths), terminal_of(state, code)) == (attempts, terminal)


@pytest.mark.req("LID-15")
def test_every_state_has_a_look_of_its_own_and_only_what_lidarr_has_leads_there() -> None:
    assert list(BADGE_STYLES) == ["queued", "pending", "monitored", "grabbed", "available", "missing", "gave_up"]
    assert [word for word, look in BADGE_STYLES.items() if not look.link] == ["queued", "gave_up"]
    queued, pending = BADGE_STYLES["queued"], BADGE_STYLES["pending"]
    assert (queued.badge, queued.picture, queued.tooltip) == (
        "badge-warning", "icon-[heroicons--queue-list]", "Queued for Lidarr",
    )  # fmt: skip
    assert (pending.badge, pending.icon != queued.icon, pending.picture != queued.picture) == (
        "badge-warning",
        True,
        True,
    )
    assert (
        len({look.picture for look in BADGE_STYLES.values()})
        == len({look.icon for look in BADGE_STYLES.values()})
        == len(BADGE_STYLES)
    )
    assert badge_of("track", 7, None) is None
    assert badge_of("track", 7, "queued").href == ""  # type: ignore[union-attr]
    assert badge_of("track", 7, "available").href == "/lidarr/to/track/7"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "downloading", "status"),
    [
        ({"files": 10}, False, "available"), ({"files": 3}, False, "missing"), ({}, False, "monitored"),
        ({}, True, "grabbed"), ({"monitored": False}, False, "pending"), ({"tracks": 0}, False, "monitored"),
    ],
)  # fmt: skip
def test_what_lidarr_has_of_an_album_is_its_state(changes: dict[str, Any], downloading: bool, status: str) -> None:
    album = LidarrAlbum(id=1, title="T", mbid="m", artist_id=1, monitored=True, files=0, tracks=10)

    assert status_of(dataclasses.replace(album, **changes), frozenset({1} if downloading else ())) == status
