"""What this process is like while a world is played in it."""

from __future__ import annotations

import gc
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def seldom_collected() -> Iterator[None]:
    """A world makes few circles, and looking for them every moment takes a tenth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def loaded_dice(seed: int) -> Iterator[None]:
    """For what has no dice of its own."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


@contextmanager
def silence() -> Iterator[None]:
    """Thousands of lines of expected trouble would hide the verdict."""
    logger = logging.getLogger("tidegate")
    before, logger.disabled = logger.level, False
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
