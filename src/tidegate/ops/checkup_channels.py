"""Whether the channels that people are told through deliver, and whether anybody has ever tried."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.ops import channels
from tidegate.ops.checkup import Finding, error_finding, ok_finding, warn_finding
from tidegate.ops.words import many
from tidegate.store.tx import Tx


def check_channels(tx: Tx) -> Iterator[Finding]:
    """What is wrong with each channel; nothing is sent."""
    known = channels.channels(tx)
    found = list[Finding]()
    for each in known:
        test = f"tidegate channels test {each.name}"
        if each.token in ("off", "failing"):
            found.append(
                error_finding("channels.delivers", f"The channel {each.name} does not deliver. {each.reason}", test)
            )
        elif each.row.last_at is None and each.row.tested_at is None:
            found.append(warn_finding("channels.tried", f"Nothing has gone through the channel {each.name} yet.", test))
    yield from found
    if known and not found:
        yield ok_finding(
            "channels.well", f"{many(len(known), 'channel')} {'delivers' if len(known) == 1 else 'deliver'}."
        )
