"""The jukebox of the page hands over its position with the plays."""

from __future__ import annotations

from typing import Any


def check(page: Any) -> None:
    assert page.batch.mark == str(page.batch.items[-1].at)
    assert [play.ref for play in page.batch.items] == ["a1"]
