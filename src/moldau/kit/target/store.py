"""What a target consumer asks of a store: offsets beside the data, and a claim that fences older owners.

A row a partition and group:

    | consumer_group | topic | partition | next_offset | claim | topic_id |

`claim` counts the owners. Who gets a partition raises it, in a transaction of its own, and reads
`next_offset`. Each write checks in its transaction that the claim is still the one it took: an older owner,
however late it wakes up, changes nothing any more. This needs nothing of the group's generation, which a
client does not tell.

Invariant: next_offset changes only together with the data of the records before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from moldau.kit.group_reader import Partition

FIRST_CLAIM = 1


class Claim(NamedTuple):
    """A partition as its new owner finds it."""

    next_offset: int
    number: int
    topic_id: str
    """"" if it is not known."""


class OffsetRow(NamedTuple):
    """What a write sets, if the claim is still the same."""

    topic: str
    partition: int
    next_offset: int
    claim: int


class SeenRow(NamedTuple):
    """A record's id, and where it was seen."""

    record_id: str
    topic: str
    partition: int
    offset: int


class Store(Protocol):
    """A transactional store. Its methods may be coroutine functions for a loop that runs in asyncio."""

    def claim(self, group: str, first: dict[Partition, Callable[[], Claim]]) -> dict[Partition, Claim]:
        """Take partitions, in one transaction: raise each row's claim, and return it.

        A partition without a row gets the one that its function returns (claim number 1).
        """

    def write(self, group: str, rows: list[OffsetRow], work: Callable[[Any], Any]) -> None:
        """In one transaction: check the claims, call `work` with what it needs to write, set the offsets.

        Raises moldau.kit.errors.Fenced, and changes nothing, if a row's claim is another.
        """

    def may_pass(self, error: BaseException) -> bool:
        """Whether an error is the store's (away, busy, full) and not the records'."""


class RemembersIds(Protocol):
    """A store that keeps the ids of records; called inside `write`, with what `work` got."""

    def seen(self, handle: Any, group: str, ids: list[str]) -> set[str]:
        """Those of the ids that it knows."""

    def remember(self, handle: Any, group: str, rows: list[SeenRow], window: int) -> None:
        """Keep ids, and forget those more than `window` offsets behind in their partition."""
