"""The two interfaces of a shard: the state machine that decides, and the replicated log that it writes to.

`GroupShard` and `TransactionShard` are such machines, `ReplicaManager` is such a log.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from moldau.broker.coordinator.deadlines import Deadlines
from moldau.broker.coordinator.journal import Journal
from moldau.broker.coordinator.markers import Marker
from moldau.broker.coordinator.result import ParkedAnswer, Producer, Result

KeyValue = tuple[bytes, bytes | None]


class TransactionalRecord(NamedTuple):
    """A record of the log that counts once its producer's transaction commits."""

    producer: Producer
    key: bytes | None
    value: bytes | None


class EndedTransaction(NamedTuple):
    """A marker of the log: its producer's transaction ends here."""

    producer_id: int
    committed: bool


Loaded: TypeAlias = tuple[bytes | None, bytes | None] | TransactionalRecord | EndedTransaction
"""One record as it is read back. Nearly all are `(key, value)`, a plain tuple, which is cheapest."""


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

    def unloaded(self, error_code: int) -> list[ParkedAnswer]:
        """The shard is given up: answers for all who are parked."""

    def rolled_back(self, error_code: int) -> list[ParkedAnswer]:
        """An append failed and was undone: answers for those who were parked on what no longer exists."""

    def due(self, key: Any, now_ms: int) -> Result[None]:
        """A deadline has passed."""


@runtime_checkable
class TransactionalMachine(Machine, Protocol):
    """A machine whose records may be part of a producer's transaction."""

    def replay_pending(self, record: Any, producer: Producer) -> None:
        """Keep one record until its transaction ends."""

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Apply what the producer's transaction has left here, or forget it. It may be nothing."""

    def load_pending(self, producer: Producer, key: bytes, value: bytes | None) -> None:
        """A record of a transaction that is open at the end of the log. None: something later is committed
        under its key, so that it will never count."""


@runtime_checkable
class SequentialMachine(Machine, Protocol):
    """A machine whose records build on those before, in a log that is not compacted: `load` gets all of them
    in their order, tombstones too (the value None)."""

    loads_in_order: bool

    def load(self, key: bytes, value: bytes | None) -> None:
        """Decode and apply one record of the log."""


class Appended(Protocol):
    """A future append, as `asyncio.Future` has it."""

    def add_done_callback(self, callback: Callable[[Any], Any], /) -> None: ...

    def cancelled(self) -> bool: ...

    def exception(self) -> BaseException | None: ...


class CoordinatorLog(Protocol):
    """Where the records go, and where they come from when a shard is loaded.

    All calls name the leader epoch in which the caller was elected. If this broker does not lead in that
    epoch, they fail with an exception that carries an `error_code`: another broker may have written records
    that the caller's state lacks.
    """

    def append_records(
        self,
        topic: str,
        index: int,
        leader_epoch: int,
        records: Sequence[KeyValue],
        producer: Producer | None = None,
    ) -> Appended:
        """Append as one batch, part of the producer's transaction if there is one; done when committed. Fails
        with an exception that carries an `error_code`."""

    def append_marker(self, topic: str, index: int, leader_epoch: int, marker: Marker) -> Appended:
        """Append the end of a producer's transaction; done when committed, fails as `append_records` does."""

    def committed_records(self, topic: str, index: int, leader_epoch: int) -> Iterator[Loaded]:
        """All committed records in order. OFFSET_NOT_AVAILABLE as long as something in the log is not
        committed: it may have been acknowledged by an earlier leader, or be this caller's own append whose
        outcome it does not know."""

    def all_committed(self, topic: str, index: int, leader_epoch: int) -> Appended:
        """Done when everything that is in the log now is committed; fails as `append_records` does."""
