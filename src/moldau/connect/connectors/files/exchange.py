"""Two folders change names in one step (Linux, renameat2 with RENAME_EXCHANGE): whoever lists a name sees the
one folder or the other, whole."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_AT_FDCWD, _EXCHANGE = -100, 2
_NOT_THERE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EXDEV, errno.EPERM)


class NoExchange(OSError):
    """The file system or the system cannot."""


def exchange(one: Path, other: Path) -> None:
    """Both are there. OSError; NoExchange where it cannot be had at all."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        raise NoExchange(errno.ENOSYS, "the system's C library has no renameat2")
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE):
        number = ctypes.get_errno()
        kind = NoExchange if number in _NOT_THERE else OSError
        raise kind(number, os.strerror(number), str(other))
