"""One `moldau cluster` command at a time changes a cluster: two starts side by side would start all twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moldau.tools.shared.errors import CommandError

FILE = "cluster.lock"


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; CommandError if another command does. The lock ends with the process."""
    import fcntl

    file = os.open(folder / FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CommandError(
                f"another `moldau cluster` command works on {folder}: wait until it has ended"
            ) from None
        yield
    finally:
        os.close(file)
