"""Codes of its own."""

from __future__ import annotations

from tidegate.faults import Code, Reach, Reason

UNREADABLE = Code(
    name="MUSIC_UNREADABLE",
    reason=Reason.AUTH,
    reach=Reach.CREDENTIAL,
    message="What was entered for this connection cannot be read, because the key of the server is another one now.",
    advice="Connect again on the page Music, or put the former key back.",
)
UNUSABLE = Code(
    name="MUSIC_UNUSABLE",
    reason=Reason.TRANSIENT,
    reach=Reach.CREDENTIAL,
    message="This connection could not be set up. It is tried again every half minute.",
    advice="Check what was entered. If it is right, the log of the server says what went wrong.",
)
CODES: tuple[Code, ...] = (UNREADABLE, UNUSABLE)
