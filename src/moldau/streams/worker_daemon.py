"""Spark's own daemon of Python workers, except that a worker whose reader has gone leaves without a word.

Spark hangs up on a worker that it needs no more: one that was idle for a minute, or whose task was cancelled.
The worker then fails at its last write, and the daemon prints a traceback of a BrokenPipeError for every one.
Nothing is wrong, nobody waits for the answer, and what went wrong before that has been sent or logged; so
here this one error, from this one place, ends the worker with the same exit code and no traceback.

Spark's Python (interpreter.py) runs this where Spark asks for `-m pyspark.daemon`. Nothing may be imported
here that starts a thread: the daemon forks.
"""

from __future__ import annotations

import os
from typing import Any

from pyspark import daemon

_worker = daemon.worker


def worker(sock: Any, authenticated: Any) -> int:
    """Serve a connection until it ends."""
    try:
        return _worker(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        os._exit(1)  # what the daemon does after its traceback


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
