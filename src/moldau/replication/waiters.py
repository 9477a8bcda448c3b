"""Who waits for a partition: a Produce request for its records' fate, a Fetch request for records."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from moldau.replication.partition import Partition

UNKNOWN_BYTES = -1
"""As many as a marker has set free."""


class Waiter(Protocol):
    """Somebody whose answer depends on an offset of this partition."""

    def settle(self, error_code: int, partition: "Partition") -> None:
        """The records are as safe as was asked for (0), or the wait has ended otherwise (an error code)."""


class FetchWaiter(Protocol):
    """A parked Fetch request."""

    def more(self, bytes_added: int, stable_bytes: int) -> None:
        """`bytes_added` more bytes can be read now; 0: something else changed. Of them, or of what was
        there before, `stable_bytes` by those who read committed records only (perhaps UNKNOWN_BYTES)."""
