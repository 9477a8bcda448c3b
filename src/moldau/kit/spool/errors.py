"""What a spool refuses, each with a sentence that says what to do. Errors of the disk itself stay OSError."""

from __future__ import annotations


class SpoolError(Exception):
    """The spool cannot do what was asked; the text says why and what to do."""


class SpoolLocked(SpoolError):
    """Another process (or another `Spool` of this one) has the folder open."""


class SpoolFull(SpoolError):
    """The records would take the spool beyond its capacity; nothing was written."""


class SpoolDamaged(SpoolError):
    """A file was changed by something else than a crash; nothing was skipped, nothing was changed."""

    def __init__(self, path: str, offset_bytes: int, what: str) -> None:
        folder = path.rpartition("/")[0]
        super().__init__(
            f"{path} is damaged at byte {offset_bytes} ({what}): restore the file from a copy, "
            f"or move the folder {folder} aside to begin with an empty spool"
        )
        self.path = path
        self.offset_bytes = offset_bytes
