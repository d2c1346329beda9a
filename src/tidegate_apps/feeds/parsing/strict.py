"""A strict reading beside the forgiving one: whether it is well-formed and harmless, and how often it may be polled."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.parsers import expat

from tidegate_apps.feeds.parsing.values import ParseError

_PERIODS = {"hourly": 3600, "daily": 86_400, "weekly": 604_800, "monthly": 2_592_000, "yearly": 31_536_000}
_NOTED = frozenset({"ttl", "skipHours", "skipDays", "updatePeriod", "updateFrequency"})
_INSIDE = frozenset({"hour", "day"})
_ENTRIES = frozenset({"item", "entry"})


@dataclass(slots=True)
class Noted:
    """What the strict reading found, as far as it came."""

    malformed: str | None = None
    ttl: float = 0.0
    skip_hours: list[int] = field(default_factory=list)
    skip_days: list[str] = field(default_factory=list)


def read_strictly(text: bytes) -> Noted:
    """What is noted of XML in UTF-8; ParseError when it declares what could make it explode."""
    reading = _Reading()
    try:
        reading.parser.Parse(text, True)
    except expat.ExpatError as error:
        reading.noted.malformed = str(error)
    return reading.done()


class _Reading:
    def __init__(self) -> None:
        self.noted = Noted()
        self.parser = expat.ParserCreate("utf-8")
        self.parser.ordered_attributes = True
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.EntityDeclHandler = self._entity
        self._depth = 0
        self._text: list[str] = []
        self._said: dict[str, str] = {}

    def done(self) -> Noted:
        minutes = _number(self._said.get("ttl", ""))
        often = max(1.0, _number(self._said.get("updateFrequency", "1")))
        period = _PERIODS.get(self._said.get("updatePeriod", "").strip().lower(), 0) / often
        self.noted.ttl = max(minutes * 60, period)
        return self.noted

    def _start(self, name: str, _: list[str]) -> None:
        self._depth += 1
        if name in _ENTRIES:
            # The rest is only checked: what is noted stands before the entries.
            self.parser.StartElementHandler = self.parser.EndElementHandler = None
            self.parser.CharacterDataHandler = None
            return
        # <rss><channel><ttl>, <rss><channel><skipHours><hour>
        if (self._depth == 3 and _local(name) in _NOTED) or (self._depth == 4 and name in _INSIDE):
            self._text.clear()
            self.parser.CharacterDataHandler = self._text.append

    def _end(self, name: str) -> None:
        if self._depth in (3, 4) and self.parser.CharacterDataHandler is not None:
            self._note(_local(name), "".join(self._text).strip()[:40])
            self.parser.CharacterDataHandler = None
        self._depth -= 1

    def _note(self, name: str, said: str) -> None:
        if name == "hour" and said.isascii() and said.isdigit() and int(said) <= 24:
            self.noted.skip_hours.append(int(said) % 24)
        elif name == "day":
            self.noted.skip_days.append(said.capitalize())
        else:
            self._said.setdefault(name, said)

    def _entity(self, name: str, parameter: int, value: str | None, *_: object) -> None:
        if value is not None and not parameter:
            raise ParseError(f"it declares an entity of its own ({name[:40]}), which is not read")


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _number(text: str) -> float:
    return float(text[:9]) if text.isascii() and text.isdigit() else 0.0
