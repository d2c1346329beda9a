"""Where things stand on a page: PDF counts from the bottom left before the rotation, people from the top left after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidegate_apps.convert.gateway.document import Box


class Frame(NamedTuple):
    """The visible part of a page in the coordinates of its file, and how far it is turned clockwise."""

    left: float
    bottom: float
    right: float
    top: float
    rotation: int

    def place(self, left: float, bottom: float, right: float, top: float) -> Box:
        """The box of what stands there in the file, on the page as it is shown."""
        match self.rotation:
            case 90:
                return Box(bottom - self.bottom, left - self.left, top - bottom, right - left)
            case 180:
                return Box(self.right - right, bottom - self.bottom, right - left, top - bottom)
            case 270:
                return Box(self.top - top, self.right - right, top - bottom, right - left)
        return Box(left - self.left, self.top - top, right - left, top - bottom)


def around(boxes: Sequence[Box]) -> Box:
    """The smallest box that holds all of them; of none, an empty one."""
    if len(boxes) == 1:
        return boxes[0]
    if not boxes:
        return Box(0.0, 0.0, 0.0, 0.0)
    x, y = min(box.x for box in boxes), min(box.y for box in boxes)
    right, bottom = max(box.x + box.width for box in boxes), max(box.y + box.height for box in boxes)
    return Box(x, y, right - x, bottom - y)
