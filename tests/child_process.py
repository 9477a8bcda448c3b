"""Programs that a test starts end with it."""

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def child(words: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """As `with subprocess.Popen(...)`, which waits for the process; this one kills what still runs. A test
    that fails in between would else wait for ever for a program that nobody has told to end.
    """
    with subprocess.Popen(words, **options) as process:
        try:
            yield process
        finally:
            process.kill()
