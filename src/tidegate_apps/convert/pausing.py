"""Whether uploads are taken: a person stops them for a time, or lets them come again."""

from __future__ import annotations

from typing import Any

from tidegate.apps import DbTx, Installed

SHORTEST, LONGEST = 1.0, 30 * 86400.0  # seconds

_KEY = "uploads"


def pause(app: Installed[Any], lasts: float, by: str) -> float:
    """No file is taken for so many seconds; returns until when."""
    until = app.queue.clock.now() + lasts

    def write(tx: DbTx) -> None:
        was = _state(tx)
        tx.all("pause", until=until, actor=by)
        tx.noted(by, "target_paused", app.app.name, _KEY, was=was, became=_state(tx))

    app.db.write(write)
    return until


def resume(app: Installed[Any], by: str) -> bool:
    """Files are taken again; False when they were."""

    def write(tx: DbTx) -> bool:
        was = _state(tx)
        if not tx.all("resume"):
            return False
        tx.noted(by, "target_resumed", app.app.name, _KEY, was=was, became=_state(tx))
        return True

    return app.db.write(write)


def _state(tx: DbTx) -> dict[str, Any]:
    row = tx.one("paused")
    return {"state": "on"} if row is None else {"state": "paused", "until": row[0], "by": row[2]}
