"""The names that users import: these and no others, each loaded when it is first used."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import tidegate
from tidegate import rules, web
from tidegate.core import rules as core_rules

# Taking one away breaks somebody's program: that needs a word in CHANGELOG.md.
PUBLIC = """
    Add Again Answer App Backoff BoundStatement Breaker BreakerOpen BreakerOptions Bus Capacity Code CodeBook
    ConfiguredJob Confirm Context Cooldown Counts Db DbTx Depth Done Drained Enqueued Event EventKind Every Fail
    Fault Health Held Hold Installed Job JobCancelled JobEvent JobFailed JobForgotten JobFunction JobState
    LeaseLost Level NotThere Notice NoticeKind OwnLink Page Part Permit Place Queue Rate Reach Reason Refused
    Rest RestChange Retry Seconds SelfGuard Simulated Strip Subscription Target TidegateError TooManyRequests
    Tuning address_of children classify fault_of install rules sinks subscribe
"""
PUBLIC_RULES = """
    ANY PACKS Code Confirm Kind Level Pack Reach Reason Rule
    fanart lastfm lidarr musicbrainz navidrome openai spotify tautulli
"""
PUBLIC_WEB = """
    ANYONE PortTaken Problem Right Server Site body_limit build client_network current_user form listening_at needs
    not_signed_in number_of owner_session page problem said url_of who_asks
"""
PACKAGES = [
    (tidegate, PUBLIC.split()),
    (rules, PUBLIC_RULES.split()),
    (core_rules, PUBLIC_RULES.split()),
    (web, PUBLIC_WEB.split()),
]


def told_to_type_checkers(package: str) -> Iterator[tuple[str, str]]:
    """Module and name of all that the package imports for type checkers only."""
    source = import_module(package).__file__
    assert source is not None
    for node in ast.parse(Path(source).read_text()).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for statement in node.body:
                if isinstance(statement, ast.ImportFrom):
                    yield from ((statement.module or "", alias.name) for alias in statement.names)


def printed(code: str) -> list[str]:
    """The words that *code* prints in an interpreter of its own."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize(("package", "public"), PACKAGES)
def test_the_public_names_are_these(package: object, public: list[str]) -> None:
    assert sorted(package.__all__) == sorted(public)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("package", "public"), PACKAGES)
def test_every_public_name_is_there_and_is_shown_by_dir(package: object, public: list[str]) -> None:
    for name in public:
        assert getattr(package, name) is getattr(package, name)
    assert set(public) <= set(dir(package))


@pytest.mark.parametrize("package", ["tidegate", "tidegate.core.rules", "tidegate.web"])
def test_a_type_checker_and_a_running_program_get_the_same_thing(package: str) -> None:
    told = list(told_to_type_checkers(package))

    assert told
    for module, name in told:
        if name != "DEFAULT":
            assert getattr(import_module(package), name) is getattr(import_module(module), name)


def test_a_wrong_name_is_an_attribute_error_or_an_import_error() -> None:
    for package in (tidegate, rules, core_rules):
        with pytest.raises(AttributeError, match="no attribute 'Retries'"):
            _ = package.Retries
    with pytest.raises(ImportError, match="Retries"):
        exec("from tidegate import Retries")


def test_a_star_import_brings_exactly_the_public_names() -> None:
    seen: dict[str, object] = {}
    exec("from tidegate import *", seen)

    assert set(seen) - {"__builtins__"} == set(PUBLIC.split())


def test_one_pack_is_loaded_without_the_others() -> None:
    loaded = printed("import sys; from tidegate import rules; rules.spotify; print(*sys.modules)")

    assert "tidegate.core.rules.spotify" in loaded
    assert not {"tidegate.core.rules.openai", "tidegate.core.rules.lidarr"} & set(loaded)


def test_a_pack_is_found_under_its_name_whoever_imported_its_module_first() -> None:
    first = "from tidegate.core.rules.lastfm import lastfm"
    then = "from tidegate import rules; from tidegate.core import rules as core"

    assert printed(f"{first}; {then}; print(rules.lastfm is lastfm is core.lastfm)") == ["True"]


def test_a_classifier_is_loaded_without_targets_breakers_or_packs() -> None:
    loaded = printed("import sys; from tidegate import classify; print(*sys.modules)")

    assert not {"tidegate.face.target", "tidegate.machine.breaker", "tidegate.core.rules"} & set(loaded)
