"""Finds, for each partition, the open transaction that holds back the last stable offset, its age, and its
coordinator's view.

Of a partition's open transactions the first alone holds consumers back: they read up to its first offset.
The log knows its producer id; the coordinator knows the transactional id, its beginning and its timeout.
Both are on this broker's event loop, so one look sees both at the same moment: a transaction that is open in
a log and that no coordinator knows there is *hanging*, and nobody will ever end it.

    log of orders-0      producer 7 has one open from offset 120 on
    coordinator          7 is "billing", ongoing, partitions orders-0, orders-1          well
                         7 is "billing", but orders-0 is not among its partitions        hanging
                         nobody has producer 7                                           hanging
                         another broker's coordinator may                                not said

A log does not say when its transaction began. What no coordinator knows is as old as this watch has seen it,
or as the producer's last record, whichever is longer. Not here: what is too long (transaction_probe.py).
"""

from typing import NamedTuple

from moldau.broker.monitor.sources import PartitionSource, Sources, TransactionSource
from moldau.common.core.clock import Clock

HANGING_SEEN_MS = 10_000
"""How long it must have been seen before it is called hanging: no need to alarm anybody at once."""

_Key = tuple[str, int, int, int]


class HeldBack(NamedTuple):
    """A partition whose read_committed consumers wait at `first_offset`."""

    topic: str
    partition: int
    first_offset: int
    producer_id: int
    age_ms: int
    owner: TransactionSource | None
    hanging: bool


class OpenTransactionWatch:
    """Checks the partitions that this broker leads; called every few seconds, to measure ages."""

    def __init__(self, sources: Sources, clock: Clock) -> None:
        self._sources = sources
        self._clock = clock
        self._first_seen_ms: dict[_Key, float] = {}

    def look(self) -> list[HeldBack]:
        """Every partition whose last stable offset is held back now, the longest first."""
        found = self._open_now()
        if not found:
            return []
        transactions = self._sources.transactions
        owners: dict[int, TransactionSource] = {}
        if transactions is not None:
            owners = {each.producer_id: each for each in transactions.undecided()}
        all_known = transactions is not None and transactions.knows_all()
        held = [
            self._judge(key, partition, owners.get(key[3]), all_known) for key, partition in found.items()
        ]
        return sorted(held, key=lambda each: -each.age_ms)

    def _open_now(self) -> dict[_Key, PartitionSource]:
        replicas = self._sources.replicas
        found: dict[_Key, PartitionSource] = {}
        for partition in () if replicas is None else replicas.partitions():
            ongoing = partition.log.producers.ongoing
            if ongoing and partition.online and partition.leader == self._sources.node_id:
                first_offset, producer_id = next(iter(ongoing.items()))
                found[(partition.topic, partition.index, first_offset, producer_id)] = partition
        now_ms = self._clock.monotonic_ms()
        self._first_seen_ms = {key: self._first_seen_ms.get(key, now_ms) for key in found}
        return found

    def _judge(
        self, key: _Key, partition: PartitionSource, owner: TransactionSource | None, all_known: bool
    ) -> HeldBack:
        topic, index, first_offset, producer_id = key
        seen_ms = int(self._clock.monotonic_ms() - self._first_seen_ms[key])
        if owner is not None and (topic, index) in owner.partitions:
            age_ms = max(self._clock.now_ms() - owner.start_ms, 0)
            return HeldBack(topic, index, first_offset, producer_id, age_ms, owner, hanging=False)
        hanging = all_known and seen_ms >= HANGING_SEEN_MS
        state = partition.log.producers.states.get(producer_id)
        silent_ms = 0 if state is None else self._clock.now_ms() - state.last_timestamp_ms
        age_ms = max(seen_ms, silent_ms)
        return HeldBack(topic, index, first_offset, producer_id, age_ms, None, hanging)
