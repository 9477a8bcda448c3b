"""Small files that are there whole, or as they were before."""

from __future__ import annotations

import os
from pathlib import Path


def replace_durably(path: Path, content: bytes) -> None:
    """Write beside, flush, rename, flush the folder. OSError: the file is as it was."""
    beside = path.with_name(f"{path.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    beside.replace(path)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """What is in it survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """So do its names."""
    sync_file(folder)
