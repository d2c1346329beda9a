"""Which jobs a reader wants to see: read from the URL, kept in every link and form, and told in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import Query

from tidegate.core.duration import seconds
from tidegate.ops.listing import STATES, Filter
from tidegate.web.pages import times
from tidegate.web.pages.looks import of

_FAILURE = re.compile(r"[0-9a-f]{16}", re.ASCII)
_AGE = re.compile(r"([0-9]{1,4}[smhdw])([+-])", re.ASCII)
AGES = (
    ("5m+", "5 min or older"),
    ("1h+", "1 h or older"),
    ("1d+", "1 day or older"),
    ("7d+", "7 days or older"),
    ("5m-", "at most 5 min old"),
    ("1h-", "at most 1 h old"),
    ("1d-", "at most 1 day old"),
)
Text = Annotated[str, Query(max_length=300)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What stands in the URL. What makes no sense there is taken as not said."""

    queue: str = ""
    state: str = ""
    kind: str = ""
    target: str = ""
    code: str = ""
    failure: str = ""
    age: str = ""

    @property
    def wanted(self) -> Filter:
        older, younger = _ages(self.age)
        return Filter(
            queue=self.queue, state=self.state if self.state in STATES else "", kind=self.kind, target=self.target,
            code=self.code, failure=self.failure, older=older, younger=younger,
        )  # fmt: skip

    @property
    def query(self) -> dict[str, str]:
        """What is said, as the URL has it."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name))}

    def without(self, *names: str) -> Chosen:
        return replace(self, **dict.fromkeys(names, ""))

    def with_(self, **values: str) -> Chosen:
        return replace(self, **values)

    @property
    def words(self) -> list[tuple[str, str]]:
        """Each part for people, with its name."""
        told: dict[str, Any] = {
            "queue": f"in the queue {self.queue}", "state": of(self.state).word.lower(),
            "kind": f"of the kind {self.kind}",
            "target": f"for {self.target}", "code": f"whose last failure was {self.code}",
            "failure": "of one group of failures",
            "age": dict(AGES).get(self.age, self.age),
        }  # fmt: skip
        return [(name, told[name]) for name in self.query]


def words_of(kept: Mapping[str, Any]) -> list[str]:
    """The same of a filter that was kept, as `Filter.as_json` gives it."""
    of = {name: kept[name] for name in Chosen.__slots__ if name in kept}
    told = [word for _, word in Chosen(**of).words]
    ages = {"older": "at least {} old", "younger": "at most {} old"}
    return told + [text.format(times.span(kept[name])) for name, text in ages.items() if name in kept]


def chosen(
    queue: Text = "", state: Text = "", kind: Text = "", target: Text = "", code: Text = "", failure: Text = "",
    age: Text = "",
) -> Chosen:  # fmt: skip
    """The filter of a request."""
    return Chosen(
        queue=queue.strip(), state=state if state in STATES else "", kind=kind.strip(), target=target.strip(),
        code=code.strip(), failure=failure if _FAILURE.fullmatch(failure) else "",
        age=age if _AGE.fullmatch(age) else "",
    )  # fmt: skip


def _ages(age: str) -> tuple[float | None, float | None]:
    found = _AGE.fullmatch(age)
    if found is None:
        return None, None
    length = seconds(found[1])
    return (length, None) if found[2] == "+" else (None, length)
