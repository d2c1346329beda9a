"""The codes that only Tautulli has, which come with the rule pack of the service, and what to do about a few."""

from __future__ import annotations

from tidegate import Fault, rules
from tidegate.faults import Code
from tidegate_apps.tautulli.client import EmptyHistory

TARGET = "tautulli-api"
PACK = rules.tautulli
CODES: tuple[Code, ...] = tuple(PACK.codes)

# Where the advice for any service says too little.
_ADVICE = {
    "unauthorized": "Set tautulli.api_key to the key in the settings of Tautulli (Web Interface), and start again.",
    "bad_address": "Set tautulli.url to the address of Tautulli, with its root if it has one, and start again.",
    "api_off": "Switch the API on in the settings of Tautulli (Web Interface); then sync now.",
}


def no_rows(error: Exception) -> Fault | None:
    """The fault of a good answer without rows where there were some: of that, only the sync knows."""
    return PACK.code_book["empty_history"].fault("no-rows") if isinstance(error, EmptyHistory) else None


def advice_for(fault: Fault) -> str:
    """What people read of a fault: what happened, and what they can do."""
    return f"{fault.message} {_ADVICE.get(fault.code, fault.advice)}"
