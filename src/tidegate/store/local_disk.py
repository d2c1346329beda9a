"""SQLite needs a local disk, since its locks do not hold on network file systems; and it must be allowed to write."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.errors import StoreError

# fmt: off
_NETWORK = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.davfs2", "fuse.glusterfs", "fuse.rclone",
    "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
})
# fmt: on


def require(path: str, mounts: str = "/proc/self/mounts") -> None:
    """StoreError when *path* lies on a network file system; says nothing where that cannot be found out."""
    kind = _file_system(Path(path).resolve().parent, Path(mounts))
    if kind in _NETWORK:
        raise StoreError(f"the database lies on a network file system ({kind}); SQLite needs a local disk")


def require_writable(path: str) -> None:
    """Makes the folder of *path* where there is none; StoreError when either may not be written."""
    folder = Path(path).absolute().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise StoreError(f"the database cannot be opened: its folder {folder} cannot be made ({why})") from error
    why = refusal(Path(path))
    if why:
        raise StoreError(f"the database cannot be opened: {why}")


def refusal(path: Path) -> str:
    """Why a file cannot be written; its folder counts, too: the journal lies beside it."""
    folder = path.absolute().parent
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"its folder {folder} may not be written by this user"
    if path.exists() and not os.access(path, os.W_OK):
        return f"the file {path} may not be written by this user"
    return ""


def _file_system(folder: Path, mounts: Path) -> str:
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    for line in lines:
        fields = line.split()
        point = fields[1].replace("\\040", " ") if len(fields) > 2 else ""
        if point and (str(folder) + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind
