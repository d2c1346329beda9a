"""An application's own statements, beside the jobs: same dialect, same transaction when it wants."""

from __future__ import annotations

from typing import Any

from tidegate.store.dialect import statements
from tidegate.store.tx import BoundStatement, Row, Store


class Db:
    """Named statements on the queue's database.

    q.db.load(Path("statements.sql").read_text())
    return Done(result, writes=[q.db.bind("set_lidarr_id", id=7, lidarr_id=42)])
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._names: set[str] = set()

    def load(self, text: str, prefix: str = "") -> None:
        """The statements of a file, each with its `-- name:`; ValueError for a name that stands twice."""
        found = list(statements(text, self._store.dialect, prefix))
        self._store.add(found)
        self._names.update(each.name for each in found)

    def bind(self, name: str, /, **params: Any) -> BoundStatement:
        """A statement with its values, for `Done(writes=[...])`: it is run when the job is settled, or not at all."""
        self._known(name)
        return BoundStatement(name, params)

    def run(self, name: str, /, **params: Any) -> list[Row]:
        """Runs a statement in a transaction of its own, and returns its rows."""
        self._known(name)
        return self._store.write(lambda tx: tx.all(name, params))

    def _known(self, name: str) -> None:
        if name not in self._names:
            raise KeyError(f"there is no statement {name!r}; load the file that has it")
