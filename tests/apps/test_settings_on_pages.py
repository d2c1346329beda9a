"""The pages about applications have every setting with its default."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

from tidegate_apps.feeds.settings import FeedsSettings as Feeds
from tidegate_apps.lidarr.settings import LidarrSettings as Lidarr
from tidegate_apps.music.registry import kinds
from tidegate_apps.music.settings import MusicSettings as Music
from tidegate_apps.music.settings import table_of

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"


def page(name: str) -> str:
    return (HOW_TO / f"run-{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "model", "shown_elsewhere"),
    [("feeds", Feeds, set()), ("lidarr", Lidarr, set()), ("music", Music, {"connect"})],
)
def test_the_settings_are_all_there_with_their_defaults(
    name: str, model: type[BaseModel], shown_elsewhere: set[str]
) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", page(name), re.DOTALL)
    shown = tomllib.loads(blocks[-1])[name]

    assert model(**shown) == model()
    assert set(shown) == set(model.model_fields) - shown_elsewhere


def test_the_keys_of_every_service_of_music_are_there() -> None:
    rows = re.findall(r"^\| (`[a-z_`, ]+) \| ([\w, ]+) \| .* \|$", page("music"), re.MULTILINE)
    told = {
        (kind, key)
        for keys, whose in rows
        for kind in kinds()
        if (whose.startswith("all") and kind not in whose) or kind in whose.split(", ")
        for key in re.findall(r"`(\w+)`", keys)
    }
    there = {(kind.name, key) for kind in kinds().values() for key in table_of(kind).model_fields}

    assert told == there
