"""Who changed what about people and tokens. Written with the change, kept apart from what everybody may see."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.store import activity_rows
from tidegate.store.activity_rows import AuditSubject
from tidegate.store.tx import Tx

_MAX_EVENTS = 5000  # of these, the newest


@dataclass(frozen=True, slots=True)
class AccountEvent:
    """*name* is of the user or the token, *kind* one of KINDS."""

    id: int
    at: float
    kind: str
    name: str
    actor: str
    fields: Mapping[str, Any]

    @property
    def text(self) -> str:
        """What happened, as the rest of a sentence after the name."""
        return KINDS[self.kind].format_map({"role": "", "was": "", "sessions": "", **self.fields})

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


KINDS: Mapping[str, str] = {
    "user_added": "was added as {role}",
    "user_role_changed": "was {was} and is {role} now",
    "user_password_set": "has a new password",
    "user_signed_out": "was signed out everywhere",
    "user_removed": "was removed",
    "token_made": "was made, with the role {role}",
    "token_removed": "was removed",
}


def note(tx: Tx, kind: str, name: str, actor: str, **fields: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind: {kind!r} is not one of: {', '.join(KINDS)}")
    rows = tx.query("account_event", {"kind": kind, "name": name, "actor": str(actor), "fields": json.dumps(fields)})
    place = AuditSubject(subject=kind.partition("_")[0], name=name)
    was, became = ({"role": fields[name]} if fields.get(name) else {} for name in ("was", "role"))
    activity_rows.append_entry(tx, actor, kind, place, was=was, became=became)
    tx.query("account_events_prune", {"before": rows[0][0] - _MAX_EVENTS})


def newest(tx: Tx, limit: int = 20) -> list[AccountEvent]:
    rows = tx.query("account_events", {"n": limit})
    return [AccountEvent(id_, at, kind, name, by, json.loads(fields)) for id_, at, kind, name, by, fields in rows]
