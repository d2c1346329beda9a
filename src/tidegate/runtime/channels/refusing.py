"""What it means when a channel does not take a letter: whether it is tried again, and whom it concerns."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.core.codes import Code
from tidegate.core.evidence import Evidence
from tidegate.core.fault import Level, Reach, Reason
from tidegate.core.pack import Pack
from tidegate.core.rule import Rule

GONE = "channel_gone"


class DeliveryError(Exception):
    """A letter was not taken, in the words of whoever refused it. *code* is one of the book."""

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        super().__init__(detail)


def _is(code: str) -> Callable[[Evidence], bool]:
    return lambda seen: isinstance(seen.error, DeliveryError) and seen.error.code == code


# Codes of the book that a sender names by itself, because no general rule can read what it was told.
NAMED = (
    "network",
    "timeout",
    "unauthorized",
    "bad_address",
    "overloaded",
    "upstream_failure",
    "misconfigured",
    "bad_request",
)

PACK = Pack(
    "channels",
    [
        Rule(name="gone-for-good", code=GONE, status=410),
        Rule(name="key-refused", code="unauthorized", status=(401, 403), reach=Reach.TARGET),
        Rule(name="nothing-there", code="bad_address", status=(404, 405)),
        *(Rule(name=f"named-{code}", code=code, test=_is(code)) for code in NAMED),
    ],
    codes=[
        Code(
            name=GONE, reason=Reason.CONFIG, reach=Reach.TARGET, level=Level.ERROR,
            message="The address of this channel says that it is gone for good.",
            advice="Give it a new address in the settings, or take the channel out.",
        ),
    ],
)  # fmt: skip
