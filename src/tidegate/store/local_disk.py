"""SQLite needs a local disk: its locks do not hold on network file systems."""

from __future__ import annotations

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
