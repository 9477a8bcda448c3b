"""Ends a consumer within bounded time: a command that was told to stop must not stand there.

librdkafka's `close` commits, leaves the group, and waits for whatever it waits for: it was seen to hang for
more than a minute after Ctrl-C (once in thousands of runs, on a busy machine). Committing by ourselves before
would write every offset twice.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

CLOSE_SECONDS = 5.0


def close(consumer: Any, *, seconds: float = CLOSE_SECONDS) -> bool:
    """Close the consumer; whether that was done in time."""
    thread = threading.Thread(target=consumer.close, daemon=True, name="closing")
    thread.start()
    thread.join(seconds)
    if not thread.is_alive():
        return True
    print(
        f"the group could not be left within {seconds:g} s: its member stays until its session ends, and the "
        "last offsets may not be committed",
        file=sys.stderr,
    )
    return False
