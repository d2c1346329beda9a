"""The numbers of the stream that keeps pages up to date."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePolicy:
    """Seconds, unless it says otherwise. A page calls itself stale after 12 s without a message."""

    poll_interval: float = 0.5  # at the latest; where the store tells that something was written, at once
    soonest: float = 0.25  # between two looks, however much is written
    beat: float = 4.0  # between two signs of life
    behind: float = 10.0  # for a client to take what it is sent; a slower one is dropped
    longest: float = 120.0  # then the browser connects again, and is checked again
    linger: float = 60.0  # goes on looking so long after the last client has left
    kept: int = 500  # messages that can be told again
    queued: int = 64  # looks and beats that may wait for one client
    max_subscribers: int = 2000  # clients at once
