"""The files that only a hosting platform and git read: valid, pinned, with least rights, and calling make."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
GITHUB = ROOT / ".github"
BIN = Path(sys.executable).parent
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
TEMPLATES = sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "custom.github-workflows-require-timeout": WORKFLOWS,
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
    "vendor.github-issue-config": [each for each in TEMPLATES if each.stem == "config"],
    "vendor.github-issue-forms": [each for each in TEMPLATES if each.stem != "config"],
    "vendor.compose-spec": [ROOT / "deploy" / "compose.yaml"],
}


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for name, job in yaml.safe_load(path.read_text())["jobs"].items():
            yield f"{path.stem}.{name}", job


def steps() -> Iterator[dict[str, Any]]:
    for _, job in jobs():
        yield from job["steps"]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_file_fits_the_schema_of_its_reader(schema: str) -> None:
    assert SCHEMAS[schema]
    command: list[str | Path] = [BIN / "check-jsonschema", "--builtin-schema", schema, *SCHEMAS[schema]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_of_a_workflow_is_a_make_target_that_exists() -> None:
    commands = [each["run"] for each in steps() if "run" in each]
    known = set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE))
    called = [re.fullmatch(r"make ([a-z-]+)( [A-Z]+=\S+)?", each) for each in commands]

    assert [command for command, fits in zip(commands, called, strict=True) if not fits] == []
    assert {fits[1] for fits in called if fits} == {"check", "test", "test-full", "release"}
    assert {"check", "test", "test-full", "release"} <= known


def test_every_action_is_pinned_to_a_full_version() -> None:
    used = [each["uses"] for each in steps() if "uses" in each]

    assert used
    assert [each for each in used if not re.fullmatch(r"[\w-]+/[\w-]+@(v\d+\.\d+\.\d+|[0-9a-f]{40})", each)] == []


def test_a_job_may_read_and_only_the_one_that_publishes_may_sign() -> None:
    assert [path.name for path in WORKFLOWS if yaml.safe_load(path.read_text())["permissions"] != {}] == []
    rights = {name: job["permissions"] for name, job in jobs()}

    assert rights.pop("release.publish") == {"id-token": "write"}
    assert [name for name, each in rights.items() if each != {"contents": "read"}] == []


def test_no_checkout_leaves_its_credentials_behind() -> None:
    checkouts = [each for each in steps() if each.get("uses", "").startswith("actions/checkout@")]

    assert checkouts
    assert [each for each in checkouts if each.get("with", {}).get("persist-credentials") is not False] == []


def test_ci_runs_every_version_of_python_that_the_package_names() -> None:
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    versions = [each.rpartition(" ")[2] for each in named if re.search(r":: 3\.\d+$", each)]
    matrices = {name: job["strategy"]["matrix"]["python"] for name, job in jobs() if "strategy" in job}

    assert matrices["ci.check"] == matrices["ci.test"] == versions
    assert set(matrices["ci.test-full"]) == {versions[0], versions[-1]}


def test_the_commit_hooks_run_the_tools_of_make_check() -> None:
    config = ROOT / ".pre-commit-config.yaml"
    subprocess.run([BIN / "prek", "validate-config", config], check=True, capture_output=True)
    hooks = [hook for repo in yaml.safe_load(config.read_text())["repos"] for hook in repo["hooks"]]
    recipe = MAKEFILE.partition("\ncheck:")[2].partition("\n\n")[0]
    tools = {hook["id"]: hook["entry"].removeprefix(".venv/bin/").split()[0] for hook in hooks}

    assert tools.pop("tree") == "python"
    assert [tool for tool in tools.values() if f"$(BIN)/{tool}" not in recipe] == []
    assert {hook["language"] for hook in hooks} == {"system"}
