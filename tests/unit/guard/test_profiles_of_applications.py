"""Each application says which profile and which policies its targets have, so that no default decides for it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tidegate.guard.profiles import PROFILES

APPLICATIONS = ["convert", "feeds", "lidarr", "music", "tautulli"]


def targets_of(application: str) -> dict[str, ast.Call]:
    """The calls of `Target` in the source of *application*, by place."""
    return {
        f"{path.name}:{node.lineno}": node
        for path in Path("src/tidegate_apps", application).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Target"
    }


def test_every_application_is_checked() -> None:
    folders = {path.parent.name for path in Path("src/tidegate_apps").glob("*/__init__.py")}
    assert folders == set(APPLICATIONS)


@pytest.mark.parametrize("application", APPLICATIONS)
def test_an_application_sets_profile_backoff_and_breaker(application: str) -> None:
    targets = targets_of(application)

    assert targets
    for place, made in targets.items():
        given = {keyword.arg: keyword.value for keyword in made.keywords}
        profile = made.args[1] if len(made.args) > 1 else given.get("profile")
        assert isinstance(profile, ast.Constant), place
        assert profile.value in PROFILES, place
        assert {"backoff", "breaker"} <= given.keys(), place
