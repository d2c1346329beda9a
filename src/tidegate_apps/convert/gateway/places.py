"""Where things stand on a page: PDF counts from the bottom left before the rotation, people from the top left after."""

from __future__ import annotations

import math
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
        if not self.rotation:
            return Box(left - self.left, self.top - top, right - left, top - bottom)
        if self.rotation == 180:
            return Box(self.right - right, bottom - self.bottom, right - left, top - bottom)
        if self.rotation == 90:
            return Box(bottom - self.bottom, left - self.left, top - bottom, right - left)
        return Box(self.top - top, self.right - right, top - bottom, right - left)


def around(boxes: Sequence[Box]) -> Box:
    """The smallest box that holds all of them; of none, an empty one."""
    if len(boxes) == 1:
        return boxes[0]
    if not boxes:
        return Box(0.0, 0.0, 0.0, 0.0)
    left, top, right, bottom = math.inf, math.inf, -math.inf, -math.inf
    for x, y, width, height in boxes:
        left, top = min(left, x), min(top, y)
        right, bottom = max(right, x + width), max(bottom, y + height)
    return Box(left, top, right - left, bottom - top)
