"""A file's rights, given to the one that takes its place."""

import os
import stat
from contextlib import suppress
from typing import Final

_KEPT_ATTRIBUTES: Final = ("user.", "system.posix_acl_access")
"""Beginnings of extended attributes that belong to the content's meaning."""
_GROUP_BITS: Final = 0o070
_NO_SET_ID: Final = ~0o6000
"""A program that runs as its owner does not stay one when an agent rewrote it."""


def keep_rights(old: int, new: int) -> list[str]:
    """Give owner, group, mode and attributes of one open file to another; tell what could not be kept."""
    if not hasattr(os, "fchown"):  # Windows: a new file has the rights of its folder
        return []
    notes: list[str] = []
    was, now = os.fstat(old), os.fstat(new)
    mode = stat.S_IMODE(was.st_mode) & _NO_SET_ID
    if was.st_gid != now.st_gid and not _can_own(new, -1, was.st_gid):
        notes.append("its group could not be kept")
        mode = mode & ~_GROUP_BITS | (mode & 0o007) << 3 & mode
    if was.st_uid != now.st_uid and not _can_own(new, was.st_uid, -1):
        notes.append("it now belongs to this account")
    os.fchmod(new, mode)
    with suppress(OSError):
        _keep_attributes(old, new)
    return notes


def _can_own(descriptor: int, user: int, group: int) -> bool:
    try:
        os.fchown(descriptor, user, group)
    except OSError:
        return False
    return True


def _keep_attributes(old: int, new: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    for name in os.listxattr(old):
        if name.startswith(_KEPT_ATTRIBUTES):
            with suppress(OSError):
                os.setxattr(new, name, os.getxattr(old, name))
