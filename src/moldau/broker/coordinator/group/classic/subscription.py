"""Reading which topics a classic member subscribes to.

The members' metadata is opaque to the classic protocol, but consumers use one form for it, and its first
field in every version is the list of topics:

    | version 2 | topic count 4 | (length 2, name) ... | user data ... and what later versions added |

So the topics can be read without knowing the rest.
"""

import struct
from collections.abc import Iterable

TOPICS_MAX = 10_000
"""Of one member: they are read in one turn of the loop. A member with more counts as reading any topic."""

_COUNT = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all `subscriptions` together; None if one of them is not what consumers send,
    or names too many."""
    topics: set[str] = set()
    for data in subscriptions:
        try:
            version, count = _COUNT.unpack_from(data)
            position = _COUNT.size
            if version < 0 or not 0 <= count <= TOPICS_MAX:
                return None
            for _ in range(count):
                (size_bytes,) = _LENGTH.unpack_from(data, position)
                position += _LENGTH.size
                name = data[position : position + size_bytes]
                if size_bytes < 0 or len(name) != size_bytes:
                    return None
                topics.add(name.decode())
                position += size_bytes
        except (struct.error, UnicodeDecodeError):
            return None
    return frozenset(topics)
