"""What kind of file system a path lies on."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import psutil

NETWORK: Final = frozenset(
    {
        "nfs",
        "nfs3",
        "nfs4",
        "cifs",
        "smb",
        "smb2",
        "smb3",
        "smbfs",
        "afpfs",
        "webdav",
        "davfs",
        "ceph",
        "glusterfs",
        "lustre",
    }
    | {"beegfs", "afs", "drvfs", "fuse.sshfs", "fuse.rclone", "fuse.glusterfs", "fuse.davfs2", "fuse.s3fs", "macfuse"}
)


def network_file_system(path: Path) -> str:
    """Name the network file system a path lies, or would lie, on, with its mount point; empty for a local one."""
    real = path.resolve()
    holding = [one for one in psutil.disk_partitions(all=True) if real.is_relative_to(one.mountpoint)]
    mount = max(holding, key=lambda one: len(one.mountpoint), default=None)
    if mount is None or mount.fstype.lower() not in NETWORK:
        return ""
    return f"{mount.fstype}, mounted at {mount.mountpoint}"


def nearest_that_exists(path: Path) -> Path:
    """The path, or the first of its parents that is there."""
    return next(one for one in (path, *path.parents) if one.exists())
