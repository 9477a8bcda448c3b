"""A file that was read to its end is moved or deleted, and only if it is still as it was read.

    1  it is renamed beside itself (.NAME.moldau-finished): nobody opens it any more
    2  nobody has it open for writing (a lease of Linux's, where there are any), and its size is what was
       read; otherwise it is put back, and read on
    3  it is moved to its place, or deleted

Without 1 and 2, what a program writes between the look at the size and the deletion would be lost. A crash
after 1 leaves the file aside; `put_back` at the next start.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from moldau.connect.connectors.files.durable import sync_file, sync_folder

log = logging.getLogger("moldau.connect")
_ASIDE = ".moldau-finished"


def finish(path: Path, size_bytes: int, target: Path | None) -> bool:
    """Move it to `target`, or delete it (None). False: it is written to, and stays. OSError."""
    aside = path.with_name(f".{path.name}{_ASIDE}")
    path.rename(aside)
    try:
        is_over = _is_at_rest(aside, size_bytes)
        if is_over and target is not None:
            _move(aside, target)
        elif is_over:
            aside.unlink()
    except OSError:
        _restore(aside, path)
        raise
    if not is_over:
        _restore(aside, path)
    return is_over


def put_back(folder: Path, name: str) -> None:
    """What a crash has left aside of a file whose end was not seen. OSError."""
    path = folder / name
    aside = path.with_name(f".{path.name}{_ASIDE}")
    if aside.exists():
        _restore(aside, path)


def _restore(aside: Path, path: Path) -> None:
    with suppress(FileNotFoundError):
        try:
            os.link(aside, path)
        except FileExistsError:
            log.error(
                "%s was written to while it was finished, and another file has its name: look at it", aside
            )
            return
        except OSError as problem:
            if problem.errno not in (errno.EPERM, errno.ENOTSUP) or path.exists():
                raise
            aside.rename(path)  # a file system without links
            return
        aside.unlink()


def _is_at_rest(path: Path, size_bytes: int) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return not _has_writer(descriptor) and os.fstat(descriptor).st_size == size_bytes
    finally:
        os.close(descriptor)


def _has_writer(descriptor: int) -> bool:
    """Whether the file is open for writing somewhere; False where the system does not say."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        # Whoever opens it while the lease is held is announced by a signal, which must not be SIGIO: that
        # ends a process.
        fcntl.fcntl(descriptor, 10, signal.SIGURG)  # F_SETSIG
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as problem:
        return problem.errno == errno.EAGAIN
    return False


def _move(path: Path, target: Path) -> None:
    """To a place where no other file is."""
    target.parent.mkdir(parents=True, exist_ok=True)
    wanted, number = target, 0
    while target.exists():
        number += 1
        target = wanted.with_name(f"{wanted.name}.{number}")
    try:
        path.rename(target)
    except OSError as problem:
        if problem.errno != errno.EXDEV:
            raise
        beside = target.with_name(f".{target.name}.part")  # another file system
        shutil.copy2(path, beside)
        sync_file(beside)
        beside.rename(target)
        sync_folder(target.parent)
        path.unlink()
