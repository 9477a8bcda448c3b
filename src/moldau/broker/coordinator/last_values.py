"""Reduces a log to what loading needs: the last value of every key, and the transactions open at its end.

The topic is compacted, so the state of a shard must not depend on anything but the last values, in the order
of the last writes. A record of a transaction counts from its commit marker on, but its place in the order is
its own: if something else was committed under its key after it, that stays.

    offset   10          20          30          40
             K=a (tx 7)  K=b         commit 7                 K is b, before and after compaction, which
             K=a (tx 7)  K=b (tx 8)  commit 8    commit 7     keeps the record that stands last

So a transaction's record is superseded by any later record of its key that is committed before the marker
comes. Superseded ones are kept until then, because the transaction is still open for their keys. A tombstone
removes the records of open transactions too, as in Kafka.

Not here: reading the log (loading.py), what keys and values mean (the machine), the same rule on live state
(group/offsets/pending.py).
"""

from collections.abc import Iterable, Iterator

from moldau.broker.coordinator.machine import EndedTransaction, Loaded, TransactionalRecord
from moldau.broker.coordinator.result import Producer

_Pending = tuple[int, Producer, bytes | None, bool]
"""Place in the order, producer, value, and whether something later is committed under the key."""


class LastValues:
    """Collects both from the records of a log, taken in order."""

    __slots__ = ("_open", "_order", "_writers", "latest")

    def __init__(self) -> None:
        self.latest: dict[bytes, bytes] = {}
        """The last value of every key, in the order of the last writes."""
        self._open: dict[int, dict[bytes, _Pending]] = {}
        self._writers: dict[bytes, set[int]] = {}
        self._order = 0

    def add(self, items: Iterable[Loaded]) -> None:
        """Add the next records."""
        latest, writers = self.latest, self._writers
        for item in items:
            if item.__class__ is tuple:
                pair: tuple[bytes | None, bytes | None] = item  # type: ignore[assignment]
                key, value = pair
                if key is not None:
                    latest.pop(key, None)
                    if value is not None:
                        latest[key] = value
                    if writers and key in writers:
                        self._overwritten(key, value)
            elif isinstance(item, TransactionalRecord):
                self._pend(item)
            elif isinstance(item, EndedTransaction):
                self._end(item)

    def pending(self) -> Iterator[tuple[Producer, bytes, bytes | None]]:
        """The records of transactions that are open, in order; the value of a superseded one is None."""
        rows = [(row, key) for records in self._open.values() for key, row in records.items()]
        for (_, producer, value, superseded), key in sorted(rows, key=lambda row: row[0][0]):
            yield producer, key, None if superseded else value

    def _pend(self, item: TransactionalRecord) -> None:
        if item.key is None:
            return
        self._order += 1
        producer_id = item.producer.producer_id
        records = self._open.setdefault(producer_id, {})
        records[item.key] = (self._order, item.producer, item.value, False)
        self._writers.setdefault(item.key, set()).add(producer_id)

    def _end(self, item: EndedTransaction) -> None:
        records = self._open.pop(item.producer_id, {})
        for key in records:
            self._forget(key, item.producer_id)
        if not item.committed:
            return
        for key, (order, _, value, superseded) in records.items():
            if superseded:
                continue
            self.latest.pop(key, None)
            if value is not None:
                self.latest[key] = value
            self._supersede(key, order)

    def _overwritten(self, key: bytes, value: bytes | None) -> None:
        if value is not None:
            self._supersede(key, self._order + 1)
            return
        for producer_id in self._writers.pop(key):
            records = self._open[producer_id]
            del records[key]
            if not records:
                del self._open[producer_id]

    def _supersede(self, key: bytes, before: int) -> None:
        for producer_id in self._writers.get(key, ()):
            order, producer, value, _ = self._open[producer_id][key]
            if order < before:
                self._open[producer_id][key] = (order, producer, value, True)

    def _forget(self, key: bytes, producer_id: int) -> None:
        writers = self._writers[key]
        writers.discard(producer_id)
        if not writers:
            del self._writers[key]
