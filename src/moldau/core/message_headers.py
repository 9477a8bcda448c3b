"""The headers of a record that was read. Kafka's brokers do not look whether their names are UTF-8.

Where one is not, the client's list of headers has a hole, and comes with an exception beside it: whoever
walks it ends the process. An ordinary call may miss the exception (the interpreter's shortcut for methods
without arguments does not look), `methodcaller` does not. The message keeps the list, so it is replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller
from typing import Any

UNREADABLE = (("\ufffd", None),)
"""Instead of headers of which one has a name that is not UTF-8: the client cannot give any of them."""
_CALL = methodcaller("headers")


def message_headers(message: Any) -> Sequence[tuple[str, bytes | None]]:
    """Names and values of a `confluent_kafka.Message`, or of what looks like one."""
    try:
        return _CALL(message) or ()
    except (SystemError, UnicodeDecodeError):
        message.set_headers(list(UNREADABLE))
        return UNREADABLE
