"""A file for what Spark's processes write to standard error, so that the terminal stays the app's.

Java and the Python processes that it starts share one standard error: warnings of Java, log lines of Spark,
traces of tasks that were cancelled. In trouble those are thousands of lines, and the one sentence that says
what happened is lost among them. They are kept here, to be looked up; Java writes to the file itself, so that
nothing stands between it and the disk.

What our own code says in those processes ("moldau: ...", such as records that are gone) is meant for the
person at the terminal: `own_lines` gives it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

OWN = b"moldau: "
READ_BYTES = 1 << 20


class SparkLog:
    """A new file, which stays until `remove`."""

    def __init__(self, name: str) -> None:
        descriptor, path = tempfile.mkstemp(prefix=f"moldau-{name}-spark-", suffix=".log")
        self.path = Path(path)
        self.writing = descriptor
        """The descriptor to write to, for a process that is started with it."""
        self._reading = open(path, "rb")  # noqa: SIM115
        self._rest = b""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written, as where Spark was not started here."""
        return os.fstat(self.writing).st_size == 0

    def own_lines(self) -> list[str]:
        """What our code has said since the last call, without the mark."""
        data = self._reading.read(READ_BYTES)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-READ_BYTES:]
        return [line.removeprefix(OWN).decode(errors="replace") for line in lines if line.startswith(OWN)]

    def close(self) -> None:
        """Let go of the file."""
        if not self._reading.closed:
            self._reading.close()
            os.close(self.writing)

    def remove(self) -> None:
        """Let go of the file, and remove it."""
        self.close()
        self.path.unlink(missing_ok=True)
