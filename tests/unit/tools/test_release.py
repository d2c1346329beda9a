"""`make release`: what keeps a commit from being released, and what a release consists of."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import release, sbom

ROOT = Path(__file__).parents[3]
PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "tidegate"
dynamic = ["version"]
description = "A small package."
readme = "README.md"
license = "MIT"
requires-python = ">=3.11"
[project.optional-dependencies]
http = ["h11>=0.16"]
[tool.hatch.version]
path = "src/tidegate/__init__.py"
[tool.hatch.build.targets.wheel]
packages = ["src/tidegate"]
[tool.hatch.build.targets.wheel.hooks.custom]
path = "tools/sbom.py"
"""
PINS = f"""\
h11==0.16.0 \\
    --hash=sha256:{"a" * 64} \\
    --hash=sha256:{"b" * 64}
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:{"c" * 64}
"""
METADATA = """\
Metadata-Version: 2.4
Name: tidegate
Version: 1.2.3
Description-Content-Type: text/markdown

# Tidegate
"""


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose commit may be released as 1.2.3."""
    root = tmp_path / "project"
    for name, text in {
        "pyproject.toml": PYPROJECT,
        "README.md": "# Tidegate\n\nIt [works](docs/README.md).\n",
        "CHANGELOG.md": "# Changelog\n\n## 1.2.3 (2026-11-18)\n\n- A change.\n\n## 1.2.2\n\n## 1.2\n\n- Old.\n",
        "src/tidegate/__init__.py": '__version__ = "1.2.3"\n',
        "requirements/run.txt": PINS,
        ".gitignore": "dist/\n__pycache__/\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "tools").mkdir()
    shutil.copy(str(sbom.__file__), root / "tools" / "sbom.py")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "First")
    return root


def reasons(root: Path, version: str) -> list[str]:
    return [each.partition(":")[0] for each in release.reasons_against(root, version)]


def replace(root: Path, name: str, old: str, new: str) -> None:
    text = (root / name).read_text()
    assert old in text
    (root / name).write_text(text.replace(old, new))
    git(root, "commit", "-q", "-a", "-m", "Change")


def test_a_commit_that_says_the_version_twice_and_is_clean_may_be_released(project: Path) -> None:
    assert reasons(project, "1.2.3") == []


def test_another_version_than_the_package_says_is_refused(project: Path) -> None:
    replace(project, "src/tidegate/__init__.py", "1.2.3", "1.2.4")

    assert reasons(project, "1.2.3") == ["version"]


@pytest.mark.parametrize(
    ("old", "new"),
    [("## 1.2.3 (", "## 1.2.30 ("), ("- A change.\n", ""), ("## 1.2.3 (2026-11-18)\n\n- A change.\n", "")],
)
def test_a_version_without_entries_in_the_changelog_is_refused(project: Path, old: str, new: str) -> None:
    replace(project, "CHANGELOG.md", old, new)

    assert reasons(project, "1.2.3") == ["changelog"]


def test_a_tagged_commit_must_not_say_unreleased(project: Path) -> None:
    replace(project, "CHANGELOG.md", "2026-11-18", "unreleased")
    assert reasons(project, "1.2.3") == []
    git(project, "tag", "v1.2.3")

    assert reasons(project, "1.2.3") == ["changelog"]


@pytest.mark.parametrize("name", ["README.md", "new.txt"])
def test_a_tree_that_differs_from_its_commit_is_refused(project: Path, name: str) -> None:
    (project / name).write_text("other")

    assert reasons(project, "1.2.3") == ["tree"]


def test_a_migration_of_the_last_release_must_not_change(project: Path) -> None:
    folder = project / "src/tidegate/migrations"
    folder.mkdir()
    (folder / "0001_baseline.sql").write_text("create table a (n integer);\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "baseline")
    git(project, "tag", "v1.2.2")
    (folder / "0002_more.sql").write_text("create table b (n integer);\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "more")
    assert list(release.reasons_against(project, "1.2.3")) == []

    (folder / "0001_baseline.sql").write_text("create table a (n bigint);\n")
    git(project, "commit", "-qam", "change")
    (problem,) = release.reasons_against(project, "1.2.3")
    assert problem.startswith("migrations: src/tidegate/migrations/0001_baseline.sql is part of v1.2.2")


def test_a_tree_without_a_commit_is_refused(project: Path) -> None:
    shutil.rmtree(project / ".git")
    git(project, "init", "-q")

    assert reasons(project, "1.2.3") == ["commit", "tree"]


def test_a_refused_release_builds_nothing_and_names_every_reason(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "new.txt").touch()

    assert release.main(["9.9.9"], project) == 1
    said = capsys.readouterr()
    assert [line.partition(":")[0] for line in said.err.splitlines()] == ["version", "changelog", "tree"]
    assert (said.out, (project / "dist").exists()) == ("", False)


def test_a_release_is_an_sdist_a_wheel_and_the_bill_of_materials_that_the_wheel_contains(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release.main(["1.2.3"], project) == 0
    said = capsys.readouterr().out
    made = {each.name for each in (project / "dist").iterdir()}
    assert made == {"tidegate-1.2.3.tar.gz", "tidegate-1.2.3-py3-none-any.whl", "tidegate-1.2.3.cdx.json"}
    assert "git tag -a v1.2.3" in said.splitlines()[-1]
    with zipfile.ZipFile(project / "dist" / "tidegate-1.2.3-py3-none-any.whl") as wheel:
        inside = wheel.read("tidegate-1.2.3.dist-info/sboms/tidegate.cdx.json")
        assert b"sboms/tidegate.cdx.json,sha256=" in wheel.read("tidegate-1.2.3.dist-info/RECORD")
    assert inside == (project / "dist" / "tidegate-1.2.3.cdx.json").read_bytes()

    bom = json.loads(inside)
    assert bom["metadata"]["component"]["purl"] == "pkg:pypi/tidegate@1.2.3"
    assert [(each["purl"], len(each["hashes"])) for each in bom["components"]] == [
        ("pkg:pypi/h11@0.16.0", 2),
        ("pkg:pypi/colorama@0.4.6", 1),
    ]
    assert bom["dependencies"] == [{"ref": "pkg:pypi/tidegate@1.2.3", "dependsOn": ["pkg:pypi/h11@0.16.0"]}]


def test_two_builds_with_other_bytes_are_refused(tmp_path: Path) -> None:
    def built(folder: str, content: str) -> release.Built:
        files = [tmp_path / folder / name for name in ("a.tar.gz", "a.whl", "a.cdx.json")]
        for each in files:
            each.parent.mkdir(exist_ok=True)
            each.write_text(content if each.suffix == ".whl" else "same")
        return release.Built(sdist=files[0], wheel=files[1], sbom=files[2])

    release.compare(built("first", "same"), built("second", "same"))
    with pytest.raises(release.ReleaseError, match=r"^build: a\.whl "):
        release.compare(built("first", "same"), built("second", "other"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Name: tidegate", "Name: tide gate"),
        ("Version: 1.2.3", "Version: 1.2.4"),
        ("text/markdown", "text/plain"),
        ("# Tidegate\n", ""),
        ("Name: tidegate", "Name: tidegate\nClassifier: Licence\nNo-Such-Field: a"),
    ],
)
def test_metadata_that_an_index_would_refuse_or_could_not_show_is_refused(tmp_path: Path, old: str, new: str) -> None:
    release.check_metadata(wheel_of(tmp_path / "good.whl", METADATA), "1.2.3")
    with pytest.raises(release.ReleaseError, match=r"^metadata: "):
        release.check_metadata(wheel_of(tmp_path / "bad.whl", METADATA.replace(old, new)), "1.2.3")


def wheel_of(path: Path, metadata: str) -> Path:
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("tidegate-1.2.3.dist-info/METADATA", metadata)
    return path


@pytest.mark.parametrize(
    "spoil",
    [
        lambda bom: bom.update(bomFormat="SPDX"),
        lambda bom: bom["components"][0].pop("name"),
        lambda bom: bom["components"][0]["hashes"][0].update(content="short"),
        lambda bom: bom["components"].append(bom["components"][0]),
    ],
)
def test_a_bill_of_materials_that_does_not_fit_the_schema_is_refused(
    tmp_path: Path, spoil: Callable[[dict[str, object]], object]
) -> None:
    path = tmp_path / "a.cdx.json"
    bom = sbom.document(
        name="tidegate", version="1.2.3", licence="MIT", description="", pins=PINS, direct={"h11"}, epoch="1580601600"
    )
    path.write_text(json.dumps(bom))
    release.check_sbom(path)
    spoil(bom)
    path.write_text(json.dumps(bom))
    with pytest.raises(release.ReleaseError, match=r"^bill of materials: "):
        release.check_sbom(path)


def test_a_wheel_that_does_not_import_as_its_version_is_refused(project: Path) -> None:
    replace(project, "src/tidegate/__init__.py", "1.2.3", "1.2.4")
    wheel = release.build(project, project / "dist").wheel

    release.check_install(wheel, "1.2.4")
    with pytest.raises(release.ReleaseError, match=r"^install: "):
        release.check_install(wheel, "1.2.3")


def test_the_pins_of_this_repository_make_a_valid_bill_of_materials(tmp_path: Path) -> None:
    path = tmp_path / "a.cdx.json"
    pins = (ROOT / sbom.PINS).read_text()
    bom = sbom.document(
        name="tidegate", version="0", licence="MIT", description="", pins=pins, direct=set(), epoch=None
    )
    path.write_text(json.dumps(bom))

    release.check_sbom(path)
    assert len(bom["components"]) == len(re.findall(r"^\S+==", pins, re.MULTILINE))
    assert [each["name"] for each in bom["components"] if not each["hashes"]] == []
