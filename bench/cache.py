"""Fetched and compiled things, made once and then shared: also by two test workers that ask at the same
moment.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def made_once(folder: Path) -> Iterator[bool]:
    """Hold a lock on the folder; True when the caller has to fill it, which counts if it does not raise."""
    folder.mkdir(parents=True, exist_ok=True)
    complete = folder / ".complete"
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = not complete.exists()
        yield missing
        complete.touch()
