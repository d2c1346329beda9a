"""The rows that a simulated Tautulli has: those that are computed, those that came later, without those deleted."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from datetime import date, datetime, tzinfo
from typing import Any

from tidegate_apps.tautulli.simulated_history import MadeHistory

_FILTERS = ("user", "user_id", "media_type", "rating_key", "search")


class Rows:
    """Each row has a place; those of the rows that came later follow those of the computed ones."""

    def __init__(self, made: MadeHistory) -> None:
        self._made = made
        self._later: list[dict[str, Any]] = []
        self._gone: set[int] = set()

    def __len__(self) -> int:
        return len(self._made) + len(self._later) - len(self._gone)

    def row(self, place: int) -> dict[str, Any]:
        size = len(self._made)
        return self._made.row(place) if place < size else self._later[place - size]

    def add(self, began: int, fields: Mapping[str, Any]) -> None:
        """One more, with the next id."""
        row_id = len(self._made) + len(self._later) + 1
        ids = {"row_id": row_id, "id": row_id, "reference_id": row_id, "group_ids": str(row_id)}
        times = {"date": began, "started": began, "stopped": began + 60}
        self._later.append({**self._made.row(row_id - 1), **ids, **times, **fields})

    def change(self, fields: Mapping[str, Any]) -> None:
        """Of the one that was added last."""
        self._later[-1] |= fields

    def delete(self, places: Sequence[int]) -> None:
        self._gone.update(places)

    def found(self, query: Mapping[str, str]) -> Sequence[int]:
        """The places of the rows that are asked for, in the order of their beginnings."""
        exact = _day(query.get("start_date"))
        first, last = exact or _day(query.get("after")), exact or _day(query.get("before"))
        places: Sequence[int] = self._made.between(first, last)  # which is not held in memory
        later = [
            place for place in range(len(self._made), len(self._made) + len(self._later))
            if _within(self._started(place), first, last, self._made.shape.zone)
        ]  # fmt: skip
        if later:
            places = list(places)
            for place in later:
                insort(places, place, key=self._started)
        wanted = {name: query[name] for name in _FILTERS if query.get(name)}
        if not wanted and not self._gone:
            return places
        return [place for place in places if place not in self._gone and _fits(self.row(place), wanted)]

    def _started(self, place: int) -> int:
        size = len(self._made)
        return self._made.started(place) if place < size else int(self._later[place - size]["started"])


def _within(moment: int, first: date | None, last: date | None, zone: tzinfo) -> bool:
    try:
        day = datetime.fromtimestamp(moment, zone).date()
    except (ValueError, OverflowError):  # no calendar has it, and so no day leaves it out
        return True
    return (first is None or day >= first) and (last is None or day <= last)


def _fits(row: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    return all(
        value.lower() in str(row["full_title"]).lower() if name == "search" else str(row[name]) in value.split(",")
        for name, value in wanted.items()
    )


def _day(given: str | None) -> date | None:
    try:
        return None if not given else date.fromisoformat(given)
    except ValueError:
        return None
