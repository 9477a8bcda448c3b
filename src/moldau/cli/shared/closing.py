"""Ends a consumer within bounded time: a command that was told to stop must not stand there.

librdkafka's `close` leaves the group and waits for whatever it waits for: it was seen to hang for more than
a minute after Ctrl-C (once in thousands of runs, on a busy machine). So offsets are committed first, and the
rest gets a few seconds.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import Any

CLOSE_SECONDS = 5.0


def close(consumer: Any, *, commits: bool, seconds: float = CLOSE_SECONDS) -> bool:
    """Commit what was stored, if the group commits, leave the group and close; whether that was in time."""
    thread = threading.Thread(target=_close, args=(consumer, commits), daemon=True, name="closing")
    thread.start()
    thread.join(seconds)
    if not thread.is_alive():
        return True
    print(
        f"the group could not be left within {seconds:g} s: its member stays until its session ends",
        file=sys.stderr,
    )
    return False


def _close(consumer: Any, commits: bool) -> None:
    from confluent_kafka import KafkaException

    if commits:
        # Nothing was stored, or the group is another's by now: what can be done, `close` does.
        with contextlib.suppress(KafkaException):
            consumer.commit(asynchronous=False)
    consumer.close()
