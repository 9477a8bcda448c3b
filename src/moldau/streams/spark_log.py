"""A file for the standard error of Spark's processes, so that the terminal shows the app only.

Java and its Python processes share one standard error: Java's warnings, Spark's log lines, traces of
cancelled tasks. On a failure those are thousands of lines that bury the reason. They are kept in this file;
Java writes to it directly.

Lines of our own code in those processes ("moldau: ...", such as lost records) are for the terminal:
`own_lines` returns them.
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
        """Whether nothing was written, as when Spark was not started here."""
        return os.fstat(self.writing).st_size == 0

    def own_lines(self) -> list[str]:
        """Our code's lines since the last call, without the prefix."""
        data = self._reading.read(READ_BYTES)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-READ_BYTES:]
        return [line.removeprefix(OWN).decode(errors="replace") for line in lines if line.startswith(OWN)]

    def close(self) -> None:
        """Close the file."""
        if not self._reading.closed:
            self._reading.close()
            os.close(self.writing)

    def remove(self) -> None:
        """Close and remove the file."""
        self.close()
        self.path.unlink(missing_ok=True)
