"""Answers that none of the ten codes stands for."""

from __future__ import annotations

from typing import Any

from tidegate.web import Problem


def problem_without_code(kind: str, detail: str, **more: Any) -> Problem:
    """A refusal with a type, and no code."""
    found = Problem(kind, detail, **more)
    found.more["code"] = None
    return found
