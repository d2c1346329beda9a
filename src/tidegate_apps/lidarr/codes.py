"""Faults of Lidarr, and what they mean for an entry."""

from __future__ import annotations

from tidegate import BreakerOptions, rules
from tidegate.faults import Code, Level, Reach, Reason

TARGET = "lidarr"

FOLDER_AWAY = Code(
    name="root_folder_away",
    reason=Reason.CONFIG,
    reach=Reach.TARGET,
    level=Level.ERROR,
    message="Lidarr cannot write to its root folder, or that is nearly full.",
    advice="Look at the disk of Lidarr; everything waits meanwhile.",
)
NOT_WATCHED = Code(
    name="not_monitored",
    reason=Reason.TRANSIENT,
    reach=Reach.ITEM,
    message="Lidarr took the album, and does not watch it.",
    advice="Nothing to do: it is retried automatically.",
)
NOT_LISTED = Code(
    name="not_listed",
    reason=Reason.TRANSIENT,
    reach=Reach.ITEM,
    message="Lidarr says that it has this, and does not list it.",
    advice="Nothing to do: it is retried automatically.",
)

OWN = (FOLDER_AWAY, NOT_WATCHED, NOT_LISTED)
PACK = rules.Pack(TARGET, rules.lidarr.rules, codes=[*rules.lidarr.codes, *OWN])
CODES = PACK.codes

# Only these fail an entry immediately. All others may succeed later, even those that look permanent.
PERMANENT = frozenset({"path_taken", "unknown_music"})
# Only these mean that Lidarr rejects every call, so that the rest of the cycle would fail too.
REFUSED = frozenset({401, 403})
# For both breakers. The default ratio would also open them after most of ten calls.
FIVE_IN_A_ROW: BreakerOptions = {"consecutive": 5, "failure_ratio": 1.0, "timeout": 120}
METADATA_DOWN = "metadata_down"
PARENT_FAILED = "parent_failed"
