"""What the runtime stands between: a state machine above it, a replicated log below it.

The machine knows what records mean and does nothing; the log keeps bytes and knows nothing. `GroupShard` is
such a machine, `ReplicaManager` such a log.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from moldau.coordinator.deadlines import Deadlines
from moldau.coordinator.journal import Journal
from moldau.coordinator.result import Answer, Result

KeyValue = tuple[bytes, bytes | None]


class Machine(Protocol):
    """The state of one shard, and what its records do to it."""

    journal: Journal
    deadlines: Deadlines

    def encode(self, record: Any) -> KeyValue:
        """The bytes of a record as they stand in the log."""

    def replay(self, record: Any) -> None:
        """Apply one record: the only way in which persisted state changes."""

    def load(self, key: bytes, value: bytes) -> None:
        """Decode and apply one record of the log (never a tombstone)."""

    def loaded(self, now_ms: int) -> Result[None]:
        """All records are applied: start the timers."""

    def unloaded(self, error_code: int) -> list[Answer]:
        """The shard is given up: answers for all who are parked."""

    def rolled_back(self, error_code: int) -> list[Answer]:
        """An append failed and was undone: answers for those who were parked on what no longer exists."""

    def due(self, key: Any, now_ms: int) -> Result[None]:
        """A deadline has passed."""


class Appended(Protocol):
    """A future append, as `asyncio.Future` has it."""

    def add_done_callback(self, callback: Callable[[Any], Any], /) -> None: ...

    def cancelled(self) -> bool: ...

    def exception(self) -> BaseException | None: ...


class CoordinatorLog(Protocol):
    """Where the records go, and where they come from after a restart."""

    def append_records(self, topic: str, index: int, records: Sequence[KeyValue]) -> Appended:
        """Append as one batch; done when committed. Fails with an exception that carries an `error_code`."""

    def committed_records(self, topic: str, index: int) -> Iterator[tuple[bytes | None, bytes | None]]:
        """All committed records in order. Raises an exception with an `error_code` if this broker does not
        lead."""
