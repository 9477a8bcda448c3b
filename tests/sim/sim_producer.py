"""A producer: plain, idempotent or transactional, in the way of Kafka's own clients.

Batches go out up to five requests at a time, without waiting. What was not acknowledged is sent again, in the
same order and with the same sequence numbers, after a lost connection or an error that passes. What does not
pass is `Fatal`: the producer must be initialised anew, which ends its transaction on the broker.

Transactions are those of KIP-98 (`transactions=1`: partitions are added first) or of KIP-890 (2: a Produce
request adds its partitions, and every end of a transaction gives the next epoch).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim_admin import TRANSACTION, find_coordinator
from sim_client import RETRIABLE, Disconnected, SimClient
from sim_host import EPOCH_MS

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.common.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from moldau.common.protocol.messages.end_txn import EndTxnRequest
from moldau.common.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.common.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.common.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

IN_FLIGHT_MAX = 5
Place = tuple[str, int]
KeyValue = tuple[bytes | None, bytes | None]


class Fatal(Exception):
    """The producer cannot go on as it is."""


class Sent:
    """One batch on its way."""

    def __init__(self, place: Place, batch: bytes, count: int) -> None:
        self.place, self.batch, self.count = place, batch, count
        self.base_offset: int | None = None
        """Where it was acknowledged."""
        self.tries = 0
        """How often it was sent, without the times when it was refused before the append."""


class SimProducer:
    """No `transactional_id`: no transactions. Not `idempotent`: no producer id, and nothing is sent twice."""

    def __init__(
        self,
        client: SimClient,
        *,
        transactional_id: str = "",
        idempotent: bool = True,
        transactions: int = 2,
        timeout_ms: int = 60_000,
        compression: str = "none",
        acks: int = -1,
        resends: bool = False,
    ) -> None:
        """`resends`: also without idempotence, as clients do whose enable.idempotence is off."""
        self._resends = resends
        self.client = client
        self.transactional_id = transactional_id
        self.idempotent = idempotent
        self.compression = compression
        self.acks = acks
        self._version = transactions
        self._timeout_ms = timeout_ms
        self._producer_id, self._producer_epoch = -1, -1
        self._sequences: dict[Place, int] = {}
        self._added: set[Place] = set()
        self._used = False

    async def initialise(self) -> None:
        """Get an identity; ends whatever transaction an earlier one of this id has left."""
        if not self.idempotent:
            return
        if self.transactional_id:
            await find_coordinator(self.client, self.transactional_id, TRANSACTION)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id or None, transaction_timeout_ms=self._timeout_ms
        )
        while True:
            answer = await self.client.persist(request, 4)
            if not answer.error_code:
                break
            if answer.error_code not in RETRIABLE:
                raise Fatal(f"InitProducerId: {ErrorCode(answer.error_code)!r}")
            await self.client.pause()
        self._became(answer.producer_id, answer.producer_epoch)

    def _became(self, producer_id: int, producer_epoch: int) -> None:
        if (producer_id, producer_epoch) != (self._producer_id, self._producer_epoch):
            self._sequences.clear()
        self._producer_id, self._producer_epoch = producer_id, producer_epoch

    # Records

    def batch(self, place: Place, key_values: Sequence[KeyValue]) -> Sent:
        """A batch with the partition's next sequence numbers."""
        now_ms = EPOCH_MS + int(self.client.world.loop.time() * 1000)
        records = [Record(index, now_ms, key, value, ()) for index, (key, value) in enumerate(key_values)]
        sequence = self._sequences.get(place, 0)
        if self.idempotent:
            self._sequences[place] = sequence + len(records)
        batch = build_batch(
            records,
            compression=self.compression,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence if self.idempotent else -1,
            transactional=bool(self.transactional_id),
        )
        return Sent(place, batch, len(records))

    async def deliver(self, batches: Sequence[Sent]) -> None:
        """Return when each is acknowledged. Fatal: it cannot be; without idempotence, after one attempt."""
        if self.transactional_id:
            await self._add_partitions({each.place for each in batches})
        while todo := [each for each in batches if each.base_offset is None]:
            error = await self._send_all(todo)
            if error is not None:
                raise Fatal(error)
            if not (self.idempotent or self._resends) and any(each.base_offset is None for each in batches):
                raise Fatal("not acknowledged, and without a producer id it cannot be sent again")
            if any(each.base_offset is None for each in batches):
                await self.client.pause()

    async def _send_all(self, todo: Sequence[Sent]) -> str | None:
        """Send once, and take what answers come; what cannot be healed by sending again, if anything.

        All go over one connection: on another, a later batch could arrive first.
        """
        try:
            channel = await self.client.connect()
        except Disconnected:
            return None
        flying: list[tuple[list[Sent], Any]] = []
        troubled: set[Place] = set()
        error = None
        for group in self._requests(todo):
            if len(flying) == IN_FLIGHT_MAX:
                error = error or await self._take(flying.pop(0), troubled)
            flying.append(
                (group, channel.send(self._request(group), self._produce_version, self.client.name))
            )
        for each in flying:
            error = error or await self._take(each, troubled)
        return error

    @property
    def _produce_version(self) -> int:
        return 12 if self.transactional_id and self._version == 2 else 9

    def _requests(self, todo: Sequence[Sent]) -> list[list[Sent]]:
        """At most one batch a partition in each request, all in order."""
        groups: list[list[Sent]] = []
        for each in todo:
            together = self.client.random.random() < 0.6
            if not groups or not together or any(other.place == each.place for other in groups[-1]):
                groups.append([])
            groups[-1].append(each)
        return groups

    def _request(self, group: Sequence[Sent]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for each in group:
            each.tries += 1
            topics.setdefault(each.place[0], []).append(
                PartitionProduceData(index=each.place[1], records=each.batch)
            )
        return ProduceRequest(
            transactional_id=self.transactional_id or None,
            acks=self.acks,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=name, partition_data=rows) for name, rows in topics.items()],
        )

    async def _take(self, sent: tuple[list[Sent], Any], troubled: set[Place]) -> str | None:
        group, future = sent
        try:
            answer = await future
        except Disconnected:
            troubled |= {each.place for each in group}
            return None
        return self._taken(group, answer, troubled)

    def _taken(self, group: list[Sent], answer: Any, troubled: set[Place]) -> str | None:
        rows = {
            (topic.name, row.index): row for topic in answer.responses for row in topic.partition_responses
        }
        error = None
        for each in group:
            row = rows[each.place]
            code = row.error_code
            each.tries -= code == ErrorCode.NOT_ENOUGH_REPLICAS
            if not code:
                assert each.place not in troubled or not self.idempotent, (
                    f"{each.place} took a batch although one before it was refused"
                )
                each.base_offset = row.base_offset
            elif code in RETRIABLE or (
                code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and each.place in troubled
            ):
                troubled.add(each.place)
            else:
                error = f"Produce to {each.place}: {ErrorCode(code)!r}"
        return error

    # Transactions

    async def _add_partitions(self, places: set[Place]) -> None:
        new = sorted(places - self._added)
        if self._version == 2 or not new:
            self._used = self._used or bool(places)
            return
        topics: dict[str, list[int]] = {}
        for topic, index in new:
            topics.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()
            ],
        )
        while True:
            answer = await self.client.persist(request, 3)
            codes = [
                row.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for row in topic.results_by_partition
            ]
            if not any(codes):
                break
            self._must_pass("AddPartitionsToTxn", [code for code in codes if code])
            await self.client.pause()
        self._added |= places
        self._used = True

    async def commit_offsets(
        self, group_id: str, generation: int, member_id: str, offsets: dict[Place, int]
    ) -> None:
        """The group's offsets become part of the transaction."""
        if self._version == 1:
            add = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self._producer_id,
                producer_epoch=self._producer_epoch,
                group_id=group_id,
            )
            while code := (await self.client.persist(add, 3)).error_code:
                self._must_pass("AddOffsetsToTxn", [code])
                await self.client.pause()
        self._used = True
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, index), offset in sorted(offsets.items()):
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            generation_id=generation,
            member_id=member_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )
        while True:
            answer = await self.client.persist(request, 3 if self._version == 1 else 5)
            codes = [row.error_code for topic in answer.topics for row in topic.partitions if row.error_code]
            if not codes:
                return
            self._must_pass("TxnOffsetCommit", codes)
            await self.client.pause()

    async def end(self, *, commit: bool) -> None:
        """Commit or abort; returns when it is decided. Fatal: nobody knows here."""
        if self._version == 1 and not self._used:
            return  # a client that has added nothing has nothing to end
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            committed=commit,
        )
        while True:
            answer = await self.client.persist(request, 3 if self._version == 1 else 5)
            if not answer.error_code:
                break
            self._must_pass("EndTxn", [answer.error_code])
            await self.client.pause()
        self._added.clear()
        self._used = False
        if self._version == 2:
            self._became(answer.producer_id, answer.producer_epoch)

    @staticmethod
    def _must_pass(what: str, codes: Sequence[int]) -> None:
        lasting = [ErrorCode(code) for code in codes if code not in RETRIABLE]
        if lasting:
            raise Fatal(f"{what}: {lasting}")
