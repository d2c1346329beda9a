"""Builds and checks the files of a release.

``python -m tools.release`` builds the sdist, the wheel and its bill of materials into ``dist/``.
``python -m tools.release VERSION`` also checks that this commit may be released as that version, that a second build
gives the same bytes, and that the wheel works in an empty environment. It then prints the command that tags the commit.
It exits 1 with every problem that it found.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.metadata import Metadata
from readme_renderer import markdown

from tools.sbom import NAME as SBOM

VERSION_FILE = "src/tidegate/__init__.py"


class ReleaseError(Exception):
    """The release must not be made; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    sdist: Path
    wheel: Path
    sbom: Path

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.sdist, self.wheel, self.sbom)


def main(argv: list[str], root: Path = Path()) -> int:
    try:
        show(release(root, argv[0]) if argv else build(root, root / "dist"))
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    if argv:
        version = argv[0]
        if "unreleased" in heading(root, version):
            print(f"First write the date into the heading of {version} in CHANGELOG.md, commit, and run this again.")
        print(f"To release it: git tag -a v{version} -m 'Tidegate {version}' && git push origin v{version}")
    return 0


def release(root: Path, version: str) -> Built:
    """Builds and checks *version* in ``dist/``. Raises ReleaseError if this commit must not be released as that."""
    if problems := list(reasons_against(root, version)):
        raise ReleaseError("\n".join(problems))
    built = build(root, root / "dist")
    with tempfile.TemporaryDirectory() as folder:
        compare(built, build(root, Path(folder)))
    check_metadata(built.wheel, version)
    check_sbom(built.sbom)
    check_install(built.wheel, version)
    return built


def reasons_against(root: Path, version: str) -> Iterator[str]:
    """Why this commit must not be released as *version*: one line for each reason, none if it may be."""
    declared = run(sys.executable, "-m", "hatchling", "version", folder=root).strip()
    if declared != version:
        yield f"version: {VERSION_FILE} says {declared}, VERSION is {version}; make them equal"
    found = heading(root, version)
    if not found:
        yield f"changelog: CHANGELOG.md has no section '## {version} (DATE)' with entries; write it"
    commit = subprocess.run(["git", "rev-parse", "-q", "--verify", "HEAD"], cwd=root, check=False, capture_output=True)
    if commit.returncode:
        yield "commit: there is no commit to release; commit first"
    elif "unreleased" in found and f"v{version}" in run("git", "tag", "--points-at", "HEAD", folder=root).split():
        yield f"changelog: this commit is tagged v{version}, but says '{found}'; tag a commit that says the date"
    if commit.returncode == 0:
        yield from changed_migrations(root)
    changed = run("git", "status", "--porcelain", folder=root).splitlines()
    if changed:
        yield f"tree: {changed[0][3:]} is not committed ({len(changed)} in all); commit or remove what is not"


def changed_migrations(root: Path) -> Iterator[str]:
    """Migrations of the last release that this commit changed or removed: databases out there have applied them."""
    last = run("git", "tag", "--merged", "HEAD", "--sort=-v:refname", "--list", "v*", folder=root).split()[:1]
    for tag in last:
        files = ("--diff-filter=a", tag, "HEAD", "--", "*/migrations/*.sql")
        for path in run("git", "diff", "--name-only", *files, folder=root).splitlines():
            yield f"migrations: {path} is part of {tag} and was changed; add a migration instead"


def heading(root: Path, version: str) -> str:
    """The heading of the version's section in CHANGELOG.md, or nothing if there is no such section with entries."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        first, _, rest = section.partition("\n")
        if re.match(rf"## \[?{re.escape(version)}\]?(?=\s|$)", first) and re.search(r"^- \S", rest, re.MULTILINE):
            return first
    return ""


def build(root: Path, into: Path) -> Built:
    """The sdist of *root*, the wheel made from that sdist, and a copy of the wheel's bill of materials."""
    into = into.resolve()
    for old in into.glob("tidegate-*"):
        old.unlink()
    epoch = run("git", "log", "-1", "--format=%ct", folder=root).strip()
    made = {"SOURCE_DATE_EPOCH": epoch}
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(into), folder=root, **made)
    (sdist,) = into.glob("tidegate-*.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as packed:
            packed.extractall(folder, filter="data")
        source = Path(folder) / sdist.name.removesuffix(".tar.gz")
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into), folder=source, **made)
    (wheel,) = into.glob("tidegate-*.whl")
    sbom = sdist.with_name(sdist.name.removesuffix(".tar.gz") + ".cdx.json")
    sbom.write_text(read(wheel, f"sboms/{SBOM}"), encoding="utf-8")
    return Built(sdist=sdist, wheel=wheel, sbom=sbom)


def compare(first: Built, second: Built) -> None:
    """Raises ReleaseError if two builds of one commit differ."""
    for one, other in zip(first.files, second.files, strict=True):
        if digest(one) != digest(other):
            raise ReleaseError(f"build: {one.name} has other bytes when it is built again; compare the two archives")


def check_metadata(wheel: Path, version: str) -> None:
    """Raises ReleaseError unless a package index would take the metadata and could show the README."""
    try:
        about = Metadata.from_email(read(wheel, "METADATA"), validate=True)
    except ExceptionGroup as invalid:
        raise ReleaseError(f"metadata: {'; '.join(str(each) for each in invalid.exceptions)}") from invalid
    if str(about.version) != version:
        raise ReleaseError(f"metadata: the wheel says version {about.version}, not {version}")
    if about.description_content_type != "text/markdown" or not markdown.render(about.description or ""):
        raise ReleaseError("metadata: the description is missing or is not Markdown; set readme in pyproject.toml")


def check_sbom(sbom: Path) -> None:
    """Raises ReleaseError unless the document fits the schema of CycloneDX."""
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sbom.read_text(encoding="utf-8"))
    if wrong is not None:
        raise ReleaseError(f"bill of materials: {sbom.name} is not valid CycloneDX 1.6: {wrong}")


def check_install(wheel: Path, version: str) -> None:
    """Raises ReleaseError unless the wheel can be installed and imported where nothing else is installed."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=False, symlinks=True)
        python = str(home / "venv" / "bin" / "python")
        pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps")
        run(*pip, str(wheel.resolve()), folder=home)
        program = "import tidegate, importlib.metadata as m; print(tidegate.__version__, m.version('tidegate'))"
        printed = run(python, "-I", "-c", program, folder=home).split()
    if printed != [version, version]:
        raise ReleaseError(f"install: the installed package says version {' and '.join(printed)}, not {version}")


def show(built: Built) -> None:
    for each in built.files:
        print(f"{digest(each)}  {each.name}")
    listed = json.loads(built.sbom.read_text(encoding="utf-8"))["components"]
    licensed = sum("licenses" in each for each in listed)
    print(f"The bill of materials lists {len(listed)} packages, {licensed} of them with a licence.")


def read(wheel: Path, name: str) -> str:
    """A file of the wheel's ``.dist-info``."""
    with zipfile.ZipFile(wheel) as packed:
        (found,) = (each for each in packed.namelist() if each.endswith(f".dist-info/{name}"))
        return packed.read(found).decode()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(*command: str, folder: Path, **environment: str) -> str:
    """What the command printed. Raises ReleaseError if it failed."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ReleaseError(f"{' '.join(command[:4])} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
