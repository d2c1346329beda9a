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
from tidegate import apps, errors, events, faults, guard, jobs, rules, web

# Removing one breaks programs: that needs a line in CHANGELOG.md.
PUBLIC = """
    Again Backoff Breaker BreakerOpen BreakerOptions Capacity Context Cooldown Done Fail Fault Held Job JobCancelled
    JobFailed JobForgotten Queue Rate Retry Target TidegateError TooManyRequests classify fault_of rules sinks subscribe
"""
PUBLIC_FAULTS = "Code CodeBook Confirm Fault Level Reach Reason classify fault_of"
PUBLIC_GUARD = """
    Add Answer Backoff Breaker BreakerOpen BreakerOptions Capacity Cooldown Counts QueueDepth Health Held Hold
    NetworkGuard TargetKey Permit Endpoint Rate CooldownState CooldownChange Retry Seconds NetworkGuardPolicy Target
    TooManyRequests Tuning
"""
PUBLIC_JOBS = """
    Again BoundStatement ConfiguredJob Context Done Drained Enqueued Fail Job JobCancelled JobEvent JobFailed
    JobForgotten JobFunction JobState Queue
"""
PUBLIC_APPS = "App Db DbTx ScheduledJob Installed Page Simulated StatusStrip validate_url install"
PUBLIC_EVENTS = "Bus Event EventKind Notice NoticeKind Subscription subscribe"
PUBLIC_ERRORS = """
    BreakerOpen Held JobCancelled JobFailed JobForgotten LeaseLost NotFound Rejected ResultMismatch SchemaTooNew
    StoreBusy StoreDamaged StoreError StoreFull StoreMissing TidegateError TooManyRequests UniqueTaken
"""
PUBLIC_RULES = """
    ANY PACKS Code Confirm ExceptionKind Level Pack Reach Reason Rule fanart lastfm lidarr musicbrainz navidrome
    openai spotify tautulli
"""
PUBLIC_WEB = """
    FormError FormErrorKind FormLimits FormPart HttpServer PUBLIC Permission PortTaken Problem Site body_limit build
    client_networks current_principal current_user form listening_at not_signed_in number_of owner_session page
    parse_boundary problem read_form redirect_with_flash require requires url_of
"""
PACKAGES = [
    (tidegate, PUBLIC.split()),
    (faults, PUBLIC_FAULTS.split()),
    (guard, PUBLIC_GUARD.split()),
    (jobs, PUBLIC_JOBS.split()),
    (apps, PUBLIC_APPS.split()),
    (events, PUBLIC_EVENTS.split()),
    (errors, PUBLIC_ERRORS.split()),
    (rules, PUBLIC_RULES.split()),
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


TABLES = ["tidegate.settings", "tidegate.testing", "tidegate.web"]
LAZY = ["tidegate", *(f"tidegate.{name}" for name in ("children", "faults", "guard", "jobs"))]


@pytest.mark.parametrize("package", [*LAZY, *TABLES, "tidegate.rules"])
def test_a_type_checker_and_a_running_program_get_the_same_thing(package: str) -> None:
    told = list(told_to_type_checkers(package))

    assert told
    for module, name in told:
        assert getattr(import_module(package), name) is getattr(import_module(module), name)


@pytest.mark.parametrize("package", [*LAZY, *TABLES])
def test_a_type_checker_and_a_running_program_get_the_same_names(package: str) -> None:
    assert sorted(name for _, name in told_to_type_checkers(package)) == sorted(import_module(package).__all__)


def test_the_root_has_only_what_the_first_week_needs() -> None:
    assert len(tidegate.__all__) <= 28


@pytest.mark.parametrize("package", LAZY)
def test_a_public_module_loads_none_of_its_parts(package: str) -> None:
    loaded = printed(f"import sys; before = set(sys.modules); import {package}; print(*set(sys.modules) - before)")

    assert {name for name in loaded if name.startswith("tidegate")} <= {"tidegate", "tidegate._lazy", package}


def test_a_wrong_name_is_an_attribute_error_or_an_import_error() -> None:
    for package in (tidegate, *map(import_module, LAZY), rules):
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

    assert "tidegate.rules.spotify" in loaded
    assert not {"tidegate.rules.openai", "tidegate.rules.lidarr"} & set(loaded)


def test_a_pack_is_found_under_its_name_whoever_imported_its_module_first() -> None:
    first = "from tidegate.rules.lastfm import lastfm"
    then = "from tidegate import rules"

    assert printed(f"{first}; {then}; print(rules.lastfm is lastfm)") == ["True"]


def test_a_classifier_is_loaded_without_targets_breakers_or_packs() -> None:
    loaded = printed("import sys; from tidegate import classify; print(*sys.modules)")

    assert not {"tidegate.guard.target", "tidegate.guard.breaker", "tidegate.rules"} & set(loaded)
