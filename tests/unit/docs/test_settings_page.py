"""The examples of the page of settings can be used, and it names every key of a channel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.faults.test_codes import tables
from tidegate.settings import load

PAGE = "reference/settings.md"
TEXT = (Path(__file__).parents[3] / "docs" / PAGE).read_text()


def test_the_keys_of_a_queue_are_those_of_all_queues() -> None:
    from tidegate.settings.models import QueueRetention, Retention

    assert list(QueueRetention.model_fields) == list(Retention.model_fields)


@pytest.mark.parametrize("block", re.findall(r"^```toml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE))
def test_the_file_on_the_page_can_be_used(block: str, tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text(block)

    assert load(file=tmp_path / "tidegate.toml", environ={}).values.server.port == 8400


def test_the_names_on_the_page_are_there() -> None:
    import tidegate.settings

    for cell in (row[0] for row in tables(PAGE)["name"]):
        name = re.split(r"[(.]", cell)[0]
        assert name == "settings" or hasattr(tidegate.settings, name)


def test_every_key_of_a_channel_is_on_the_page() -> None:
    from tidegate.settings.notices import ChannelSettings

    found = [row[0].strip("`") for row in tables(PAGE)["key of a channel"]]

    assert found == list(ChannelSettings.model_fields)
