"""An application's own statements, beside the jobs: same dialect, same transaction when it wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.store.dialect import Dialect, statements
from tidegate.store.tx import BoundStatement, Row, Store


class Db:
    """Named statements on the queue's database.

    q.db.load(Path("statements.sql").read_text())
    return Done(result, writes=[q.db.bind("set_lidarr_id", id=7, lidarr_id=42)])
    """

    def __init__(self, opened: Callable[[], Store]) -> None:
        self._opened = opened
        self._names: set[str] = set()
        self._texts: list[tuple[str, str]] = []
        self._store: Store | None = None

    def load(self, text: str, prefix: str = "") -> None:
        """The statements of a file, each with its `-- name:`; ValueError for a name that stands twice."""
        names = [each.name for each in statements(text, Dialect.SQLITE, prefix)]
        twice = sorted(self._names.intersection(names))
        if twice:
            raise ValueError(f"statement {twice[0]!r} stands twice")
        self._names.update(names)
        self._texts.append((text, prefix))
        if self._store is not None:
            self._store.add(statements(text, self._store.dialect, prefix))

    def attach(self, store: Store) -> None:
        """The database was opened: it learns what was loaded before."""
        self._store = store
        for text, prefix in self._texts:
            store.add(statements(text, store.dialect, prefix))

    def bind(self, name: str, /, **params: Any) -> BoundStatement:
        """A statement with its values, for `Done(writes=[...])`: it is run when the job is settled, or not at all."""
        self._known(name)
        return BoundStatement(name, params)

    def run(self, name: str, /, **params: Any) -> list[Row]:
        """Runs a statement in a transaction of its own, and returns its rows."""
        self._known(name)
        return self._opened().write(lambda tx: tx.all(name, params))

    def _known(self, name: str) -> None:
        if name not in self._names:
            raise KeyError(f"there is no statement {name!r}; load the file that has it")
