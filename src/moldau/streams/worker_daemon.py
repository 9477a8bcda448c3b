"""Spark's daemon of Python workers, without a traceback when a worker's connection was closed by Spark.

Spark closes the connection of a worker that it needs no more: one that was idle for a minute, or whose task
was cancelled. The worker's last write then fails, and the daemon prints a traceback of a BrokenPipeError.
Nothing is wrong: earlier failures have been sent or logged. So this one error, from this one place, ends the
worker with the same exit code and no traceback.

Spark's Python (interpreter.py) runs this where Spark asks for `-m pyspark.daemon`. Nothing imported here may
start a thread: the daemon forks.
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
