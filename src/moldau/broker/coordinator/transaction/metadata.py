"""The state of one transactional id, and how each transition changes it.

A `Transaction` is a value: a transition makes the next one, and the shard's dict holds the current one. Its
fields are those of the record (protocol/messages/transaction_records.py) and one more that Kafka's records
lack, `last_producer_epoch`.

    producer id, epoch        what partitions accept writes of; a higher epoch fences the lower
    previous_producer_id      the producer id before the last transition: tells a repeated request of a
                              producer whose id was replaced
    next_producer_id          while Prepare lasts: the id that takes over with Complete, because the epochs of
                              this one are used up
    last_producer_epoch       the epoch that the last InitProducerId or EndTxn was sent with: tells its repeat
                              (KIP-360). After a restart it is known of an EndTxn only, as that of every end
                              which gives a new epoch

An epoch has 15 bits. The highest, 32767, is never given to a client, so that there is always one left to
fence with.

Invariant: `moved` makes only the transitions of the table in states.py.
"""

from typing import Any, NamedTuple

from moldau.broker.coordinator.markers import TopicPartition
from moldau.broker.coordinator.transaction.states import FOLLOWERS, TransactionState

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_START_MS = -1

PRODUCER_EPOCH_MAX = 32767

EPOCH_BUMPING_VERSION = 2
"""From this version of transactions on, every end of one gives the producer a new epoch (KIP-890)."""


def epoch_is_exhausted(producer_epoch: int) -> bool:
    """Whether no higher epoch may be given to a client."""
    return producer_epoch >= PRODUCER_EPOCH_MAX - 1


class Transaction(NamedTuple):
    """One transactional id. Times are wall-clock milliseconds; `client_version` is the transaction version
    that the producer used in its last transition.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_START_MS
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    client_version: int = 0

    @property
    def deadline_ms(self) -> int:
        """When an ongoing transaction has lasted too long."""
        return self.start_ms + self.timeout_ms

    @property
    def needs_producer_id(self) -> bool:
        """Whether an end that gives a new epoch needs a new producer id to do so."""
        return epoch_is_exhausted(self.producer_epoch)

    def moved(self, state: TransactionState, now_ms: int, **changes: Any) -> "Transaction":
        """The next value, in `state`."""
        if state not in FOLLOWERS[self.state]:
            raise AssertionError(f"{self.transactional_id!r} cannot go from {self.state!r} to {state!r}")
        return self._replace(state=state, updated_ms=now_ms, previous_producer_id=self.producer_id, **changes)

    def extended(
        self, partitions: frozenset[TopicPartition], client_version: int, now_ms: int
    ) -> "Transaction":
        """`partitions` take part too; the first ones begin the transaction."""
        start_ms = self.start_ms if self.state is TransactionState.ONGOING else now_ms
        return self.moved(
            TransactionState.ONGOING,
            now_ms,
            partitions=self.partitions | partitions,
            start_ms=start_ms,
            client_version=client_version,
        )

    def decided(
        self, committed: bool, client_version: int, now_ms: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> "Transaction":
        """Commit or abort is decided; with `client_version` 2 the producer gets the next epoch by it."""
        changes: dict[str, Any] = {"client_version": client_version, "next_producer_id": next_producer_id}
        if client_version >= EPOCH_BUMPING_VERSION:
            changes["last_producer_epoch"] = self.producer_epoch
            changes["producer_epoch"] = min(self.producer_epoch + 1, PRODUCER_EPOCH_MAX)
        if self.state is not TransactionState.ONGOING:
            changes["start_ms"] = now_ms  # an abort with nothing open; the record has a start all the same
        state = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
        return self.moved(state, now_ms, **changes)

    def fenced(
        self, server_version: int, now_ms: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> "Transaction":
        """Aborted without its producer, whose epoch is fenced by that."""
        if server_version >= EPOCH_BUMPING_VERSION:
            return self.decided(False, server_version, now_ms, next_producer_id)
        fenced = self._replace(
            producer_epoch=min(self.producer_epoch + 1, PRODUCER_EPOCH_MAX),
            last_producer_epoch=NO_PRODUCER_EPOCH,
        )
        return fenced.decided(False, 0, now_ms)

    def completed(self, now_ms: int) -> "Transaction":
        """Every partition has its marker."""
        committed = self.state is TransactionState.PREPARE_COMMIT
        state = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        producer_id, producer_epoch = self.identity_when_complete
        return self.moved(
            state,
            now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
        )

    @property
    def identity_when_complete(self) -> tuple[int, int]:
        """The producer id and epoch for the next transaction, once a decided one is complete."""
        if self.client_version >= EPOCH_BUMPING_VERSION and self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch


class Decision(NamedTuple):
    """The outcome of a request: an error or an answer, and the transaction's next value if it changes.

    `needs_producer_id` asks to be decided again with a new producer id; nothing is changed then.
    """

    error_code: int = 0
    next: Transaction | None = None
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    needs_producer_id: bool = False


NEEDS_PRODUCER_ID = Decision(needs_producer_id=True)
