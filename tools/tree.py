"""Says which tracked files carry something of one machine: a package index, an absolute path, a lock with hosts.

``python -m tools.tree [DIRECTORY]`` prints each finding as ``file:line: what`` and exits 1 when there is one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# The patterns are written so that none of them matches its own source.
PATTERNS = {
    "names a package index": re.compile(
        r"""https?://[^\s"'<>]+/(?:simple|packages)/|index[-_]url|find[-_]links|"resolved":\s*"http|\b(?:pypi\.org|pythonhosted\.org|npmjs\.org)\b""",
        re.IGNORECASE,
    ),
    "names a path of one machine": re.compile(r"(?:^|[^A-Za-z0-9_.])/(?:work|root|farm)/[A-Za-z0-9_.]"),
}
FORBIDDEN_NAMES = {"uv.lock": "is a lock file that names package hosts"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def tracked(root: Path) -> list[str]:
    """Paths that git tracks below *root*, relative to it."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True).stdout
    return [name for name in listed.decode().split("\0") if name]


def findings(root: Path) -> Iterator[Finding]:
    for name in tracked(root):
        path = root / name
        if path.name in FORBIDDEN_NAMES:
            yield Finding(path=name, line=1, what=FORBIDDEN_NAMES[path.name])
        # A deleted file may still be tracked; a link is checked where it points to.
        if path.is_file() and not path.is_symlink():
            yield from in_content(name, path.read_bytes())


def in_content(name: str, content: bytes) -> Iterator[Finding]:
    if b"\0" in content:
        return
    for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
        for what, pattern in PATTERNS.items():
            if pattern.search(line):
                yield Finding(path=name, line=number, what=what)


def main(argv: list[str]) -> int:
    root = Path(argv[0]) if argv else Path()
    found = list(findings(root))
    for finding in found:
        print(finding)
    print(f"tree: {len(tracked(root))} tracked files, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
