"""Types of every sort that arguments and results may have."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from typing import Generic, NamedTuple, NewType, NotRequired, Optional, TypedDict, TypeVar

import pydantic

T = TypeVar("T")
UserId = NewType("UserId", int)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "yes"


class Rights(Flag):
    READ = 1
    WRITE = 2


class Corner(Enum):
    """Its values are nothing that JSON knows."""

    TOP = (0, 0)
    BOTTOM = (1, 1)


class Isbn(str):
    __slots__ = ()


class Place(NamedTuple):
    name: str
    at: tuple[float, float]


class Options(TypedDict):
    name: str
    size: NotRequired[int]


@dataclass(frozen=True)
class Item:
    id: int
    name: str = "x"


@dataclass
class Order:
    items: list[Item]
    when: datetime
    note: str | None = None
    total: Decimal = Decimal(0)
    extra: dict[str, Item] = field(default_factory=dict)


@dataclass
class Box(Generic[T]):
    content: T
    more: list[T] = field(default_factory=list)


@dataclass
class Node:
    value: int
    children: list[Node] = field(default_factory=list)
    parent: Optional[Node] = None  # noqa: UP045 - the older way of writing it


@dataclass
class Square:
    side: int
    area: int = field(init=False)

    def __post_init__(self) -> None:
        if self.side < 0:
            raise ValueError("a side is not negative")
        self.area = self.side**2


@dataclass
class Special:
    """Another dataclass with the same fields as Item."""

    id: int
    name: str = "x"


@dataclass(frozen=True)
class SubItem(Item):
    more: int = 0


class Model(pydantic.BaseModel):
    id: int
    when: datetime
    inner: list[Model] = []


class StrictModel(pydantic.BaseModel, strict=True):
    day: date
    data: bytes


class FakeModel:
    """What behaves like a pydantic model."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FakeModel) and other.n == self.n

    __hash__ = None  # type: ignore[assignment]

    def model_dump(self, *, mode: str) -> dict[str, int]:
        assert mode == "json"
        return {"n": self.n}

    @classmethod
    def model_validate_json(cls, text: str) -> FakeModel:
        return cls(json.loads(text)["n"])


NOT_STORED = "…"  # that it cannot be stored, and what can be


def says(error: Exception, message: str) -> bool:
    """Whether its text is the message, or begins with it where that ends with an ellipsis."""
    return str(error) == message or (message.endswith("…") and str(error).startswith(message[:-1]))
