"""The channels as rows: as they were last declared, and how the last delivery through each went."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.core.channel import Channel
from tidegate.store.tx import Tx


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """One channel, as it was last declared, and how its last delivery went. The fields are the columns."""

    name: str
    kind: str
    shown: str
    level: str
    place: int
    standby: bool
    digest: str
    there: bool
    last_at: float | None
    last_ok: bool | None
    last_why: str | None
    tested_at: float | None
    tested_ok: bool | None
    tested_why: str | None
    disabled_at: float | None
    disabled_why: str | None


def digest_of(channel: Channel) -> str:
    """Tells whether a channel leads elsewhere than before, without saying where."""
    way = channel.config
    values = [repr(getattr(way, name)) for name in way.__slots__]
    return hashlib.sha256("\n".join([way.kind, *values]).encode()).hexdigest()[:32]


def declare(tx: Tx, channels: Sequence[Channel]) -> list[str]:
    """Writes what the settings have, where it differs from what is there; what they lack is out of use.

    Returns the names of those that lead elsewhere than before.
    """
    moved = []
    known = {row.name: row for row in every(tx)}
    for channel in channels:
        way = channel.config
        said = {
            "name": channel.name, "kind": way.kind, "shown": way.shown, "level": channel.level,
            "place": channel.order, "standby": int(channel.standby), "digest": digest_of(channel),
        }  # fmt: skip
        row = known.pop(channel.name, None)
        if row is None or not row.there or any(said[name] != getattr(row, name) for name in said):
            tx.query("channel_put", said)
            moved += [channel.name] if row is not None and row.digest != said["digest"] else []
    for row in known.values():
        if row.there:
            tx.query("channel_left_out", {"name": row.name})
    return moved


def every(tx: Tx) -> list[ChannelRow]:
    names = ChannelRow.__slots__
    flags: dict[str, Callable[[Any], Any]] = {"standby": bool, "there": bool, "last_ok": _flag, "tested_ok": _flag}
    return [
        ChannelRow(**{name: flags.get(name, _same)(value) for name, value in zip(names, row, strict=True)})
        for row in tx.query("channels")
    ]


def _same(value: Any) -> Any:
    return value


def _flag(value: object) -> bool | None:
    return None if value is None else bool(value)
