"""The headers of a record that was read. Kafka's brokers do not look whether their names are UTF-8.

Where one is not, the client's list of headers has a hole, and comes with an exception beside it: whoever
walks it ends the process. An ordinary call may miss the exception (the interpreter's shortcut for methods
without arguments does not look), `methodcaller` does not. The message keeps the list, so it is replaced: by
the same headers, with a name of their own for those that have none.

    ("trace", b"7")  (NULL, b"v")    ->    ("trace", b"7")  ("\N{REPLACEMENT CHARACTER}", b"v")

A tuple with a hole must not be indexed. Its garbage collector's view is safe: it leaves holes out.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from operator import methodcaller
from typing import Any

NO_NAME = "\ufffd"
"""The name of a header whose own is not UTF-8; the client does not give its bytes."""
UNREADABLE = ((NO_NAME, None),)
"""Instead of headers that the client does not give at all."""
_CALL = methodcaller("headers")


def message_headers(message: Any) -> Sequence[tuple[str, bytes | None]]:
    """Names and values of a `confluent_kafka.Message`, or of what looks like one."""
    try:
        return _CALL(message) or ()
    except (SystemError, UnicodeDecodeError):
        found = _without_holes(message)
        message.set_headers(list(found))
        return found


def _without_holes(message: Any) -> Sequence[tuple[str, bytes | None]]:
    """What the message kept when its headers were asked for first."""
    try:
        kept = _CALL(message)
    except (SystemError, UnicodeDecodeError):
        return UNREADABLE
    return [_whole(gc.get_referents(each)) for each in kept or ()]


def _whole(parts: list[Any]) -> tuple[str, bytes | None]:
    name = next((each for each in parts if isinstance(each, str)), NO_NAME)
    return name, next((each for each in parts if isinstance(each, bytes)), None)
