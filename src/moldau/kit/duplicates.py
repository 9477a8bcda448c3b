"""A filter for records that come twice, by an id of their own (an order's number, a header).

A producer without idempotence, or one that starts again from an older position, writes a record twice; no
offset tells. The ids of the last `window` records are remembered. Where they lie decides what survives:

    Duplicates(id)              in memory, of this process: after a restart it knows nothing
    TargetLoop(duplicates=...)  in the target's store, written with the data: exact across restarts and owners

Invariant: an id is remembered only when its record was handled; a batch that failed comes again in full.
Records whose id is None pass. Not here: ids older than the window; choose it above what a producer repeats.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from confluent_kafka import Message

from moldau.common.core.message_headers import message_headers
from moldau.kit.client_config import positive
from moldau.kit.errors import BadCall

RecordId = bytes | str | int | None
_DIGEST_BYTES = 16


def header(name: str) -> Callable[[Message], RecordId]:
    """The id is a header's value."""

    def value(record: Message) -> RecordId:
        given: Any = message_headers(record)
        found = [content for key, content in given if key == name]
        return found[-1] if found else None

    return value


def digest(value: RecordId, record: Message) -> str | None:
    """An id of any length as 32 characters; raises BadCall for what is no id."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, bytes | str | int):
        raise BadCall(
            f"the id of {record.topic()}[{record.partition()}]@{record.offset()} is of type "
            f"{type(value).__name__}: id() must return bytes, a string, a whole number, or None"
        )
    kind = type(value).__name__[:1].encode()
    content = value if isinstance(value, bytes) else str(value).encode()
    return blake2b(kind + content, digest_size=_DIGEST_BYTES).hexdigest()


class Duplicates:
    """The ids of the last `window` records, in memory (about 150 bytes each)."""

    def __init__(self, id: Callable[[Message], RecordId], window: int = 100_000) -> None:
        self.id = id
        self.window = int(positive(window, "window"))
        self._known: OrderedDict[str, None] = OrderedDict()
        self.dropped_count = 0

    def digests(self, records: list[Message]) -> list[str | None]:
        """The id of each record as text of fixed length."""
        return [digest(self.id(record), record) for record in records]

    @contextmanager
    def filter(self, records: list[Message]) -> Iterator[list[Message]]:
        """The records that did not come before; they are remembered if the block ends without an error."""
        ids = self.digests(records)
        kept = unseen(ids, self._known.keys())
        yield [records[index] for index in kept]
        self.dropped_count += len(records) - len(kept)
        for one in ids:
            if one is not None:
                self._known[one] = None
                self._known.move_to_end(one)
        while len(self._known) > self.window:
            self._known.popitem(last=False)


def unseen(ids: list[str | None], known: object) -> list[int]:
    """The indexes of those that are not known, and not earlier in the list."""
    here: set[str] = set()
    kept = []
    for index, one in enumerate(ids):
        if one is not None:
            if one in here or one in known:  # type: ignore[operator]
                continue
            here.add(one)
        kept.append(index)
    return kept
