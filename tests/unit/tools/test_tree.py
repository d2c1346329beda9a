"""The tree check finds what belongs to one machine. Bad lines are put together here, so that this file passes it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import tree

ROOT = Path(__file__).parents[3]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def track(repository: Path, name: str, content: bytes) -> None:
    path = repository / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    subprocess.run(["git", "add", "-f", name], cwd=repository, check=True)


def whats(repository: Path) -> list[tuple[str, int, str]]:
    return [(finding.path, finding.line, finding.what) for finding in tree.findings(repository)]


@pytest.mark.parametrize(
    "line",
    [
        "https://pypi.example.org" + "/simple/httpx2/",
        "see http://files.example.org/a/b" + "/packages/ab/cd/x.whl",
        "--extra-index" + "-url wherever",
        "INDEX" + "_URL=wherever",
        "--find" + "-links wheels",
        "see https://pypi" + ".org/project/tidegate",
        '      "resolved"' + ': "https://registry.example.org/x.tgz",',
    ],
)
def test_a_package_index_is_found(repository: Path, line: str) -> None:
    track(repository, "docs/notes.md", f"first\n{line}\n".encode())

    assert whats(repository) == [("docs/notes.md", 2, "names a package index")]
    assert tree.main([str(repository)]) == 1


@pytest.mark.parametrize("top", ["work", "root", "farm"])
@pytest.mark.parametrize("before", ["", "cd ", '"', "file://"])
def test_a_path_of_one_machine_is_found(repository: Path, top: str, before: str) -> None:
    track(repository, "run.sh", f"{before}/{top}/.cache/thing".encode())

    assert whats(repository) == [("run.sh", 1, "names a path of one machine")]


def test_a_tracked_uv_lock_is_found_even_when_empty(repository: Path) -> None:
    track(repository, "sub/uv.lock", b"")

    assert [finding.path for finding in tree.findings(repository)] == ["sub/uv.lock"]


def test_untracked_binary_and_innocent_files_pass(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "scratch").write_text("/root" + "/x")
    track(repository, "picture.png", b"\0 /root" + b"/x")
    track(
        repository, "page.md", b"https://example.org/work/items, src/root/x, ./work/, and/or; a simple/packages/ folder"
    )
    track(repository, "gone.txt", b"/root" + b"/x")
    (repository / "gone.txt").unlink()

    assert whats(repository) == []
    assert tree.main([str(repository)]) == 0
    assert "3 tracked files, 0 findings" in capsys.readouterr().out


def test_the_check_does_not_trip_over_itself() -> None:
    for path in (Path(tree.__file__), Path(__file__), ROOT / "Makefile"):
        assert list(tree.in_content(path.name, path.read_bytes())) == []
