"""Sends encoded batches to the partition leaders, each once and in order.

Each partition has a queue of batches with sequence numbers. A request takes the next batch of each queue that
one broker leads, up to a size; up to five requests are in flight to a broker, as many batches as a broker
remembers of a producer (KIP-98, KAFKA-5494). Acknowledged batches leave their queue. After a failure the next
attempt sends the rest with the same sequence numbers, so that a broker recognises batches that it has
appended already.

Not here: the producer id, and what to do when a broker does not know it any more (producer.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from moldau.client.cluster import Cluster, TopicPartition
from moldau.client.connection import Connection
from moldau.client.errors import ClientError, Retriable
from moldau.client.sealing import EncodedBatch, seal
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

IN_FLIGHT_MAX = 5
REQUEST_BYTES = 8 * 1024 * 1024
_ALL_REPLICAS = -1
_BY_NAME = 12
"""The last version of Produce that names topics instead of giving their ids."""
_LAST_WITH_DECLARED_PARTITIONS = 11
"""From version 12 on, a transactional produce adds its partition to the transaction (KIP-890)."""


class Producer(NamedTuple):
    """The producer id and epoch of the batches."""

    producer_id: int
    producer_epoch: int
    transactional_id: str | None = None
    adds_partitions: bool = False
    """Whether Produce itself adds partitions to the transaction (transactions v2)."""


class Failure(NamedTuple):
    """An error response to a batch."""

    error_code: int
    message: str | None


class Delivery:
    """Batches to send; `run` returns when all are acknowledged."""

    def __init__(
        self,
        cluster: Cluster,
        producer: Producer,
        batches: Iterable[EncodedBatch],
        next_sequences: dict[TopicPartition, int],
    ) -> None:
        """`next_sequences` is updated; partitions that are not in it start at 0."""
        self._cluster = cluster
        self._producer = producer
        self._queues: dict[TopicPartition, deque[tuple[EncodedBatch, int]]] = {}
        for batch in batches:
            place = (batch.topic, batch.partition)
            sequence = next_sequences.get(place, 0)
            self._queues.setdefault(place, deque()).append((batch, sequence))
            next_sequences[place] = (sequence + batch.record_count) & 0x7FFFFFFF

    def run(self) -> None:
        """Send everything. RequestRefused with the error code of a final error; ClusterTimeout."""
        if self._queues:
            names = sorted({topic for topic, _ in self._queues})
            self._cluster.persist(f"write to {', '.join(names)}", self.attempt)

    def undelivered(self) -> list[EncodedBatch]:
        """The batches without acknowledgement, in order."""
        return [batch for queue in self._queues.values() for batch, _ in queue]

    def attempt(self) -> None:
        """Send the rest, once."""
        shares: dict[Connection, list[TopicPartition]] = {}
        for place, queue in self._queues.items():
            if queue:
                shares.setdefault(self._cluster.leader(*place), []).append(place)
        windows = [(connection, self._requests(connection, places)) for connection, places in shares.items()]
        failures: dict[TopicPartition, Failure] = {}
        try:
            while windows:
                for connection, requests in windows:
                    self._fill(connection, requests, failures)
                windows = [each for each in windows if each[0].unanswered]
                for connection, _ in windows:
                    self._take(connection.receive(), failures)
        except OSError:
            for topic in {topic for topic, _ in self._queues}:
                self._cluster.forget_places(topic)
            raise
        finally:
            for connection in shares:
                if connection.unanswered:
                    connection.close()  # nobody would know whose the answers are
        if failures:
            # Not before: to judge them, the cluster may be asked where a partition is now.
            problems = [self._judged(*place, failure) for place, failure in failures.items()]
            raise next((one for one in problems if not isinstance(one, Retriable | OSError)), problems[0])

    def _fill(
        self,
        connection: Connection,
        requests: Iterator[ProduceRequest],
        failures: Mapping[TopicPartition, Failure],
    ) -> None:
        while connection.unanswered < IN_FLIGHT_MAX and not failures:
            request = next(requests, None)
            if request is None:
                return
            connection.send(request, at_most=self._version)

    @property
    def _version(self) -> int:
        if self._producer.transactional_id is not None and not self._producer.adds_partitions:
            return _LAST_WITH_DECLARED_PARTITIONS
        return _BY_NAME

    def _requests(self, connection: Connection, places: list[TopicPartition]) -> Iterator[ProduceRequest]:
        """The requests for one broker: each has at most one batch of a partition, as the protocol demands."""
        lists = {place: list(self._queues[place]) for place in places}
        for index in range(max(len(each) for each in lists.values())):
            share = [(place, each[index]) for place, each in lists.items() if index < len(each)]
            request, size = self._request(connection), 0
            for (topic, partition), (batch, sequence) in share:
                if size and size + len(batch.body) > REQUEST_BYTES:
                    yield request
                    request, size = self._request(connection), 0
                if not request.topic_data or request.topic_data[-1].name != topic:
                    request.topic_data.append(TopicProduceData(name=topic, partition_data=[]))
                records = self._sealed(batch, sequence)
                request.topic_data[-1].partition_data.append(
                    PartitionProduceData(index=partition, records=records)
                )
                size += len(records)
            yield request

    def _request(self, connection: Connection) -> ProduceRequest:
        return ProduceRequest(
            transactional_id=self._producer.transactional_id,
            acks=_ALL_REPLICAS,
            timeout_ms=int(connection.options.request_timeout_seconds * 1000),
            topic_data=[],
        )

    def _sealed(self, batch: EncodedBatch, sequence: int) -> bytes:
        producer = self._producer
        header = seal(
            batch,
            producer.producer_id,
            producer.producer_epoch,
            sequence,
            transactional=producer.transactional_id is not None,
        )
        return b"".join((header, batch.body))

    def _take(self, answer: ProduceResponse, failures: dict[TopicPartition, Failure]) -> None:
        """Record acknowledgements, and the first failure of each partition: later ones follow from it."""
        for topic in answer.responses:
            for each in topic.partition_responses:
                place = (topic.name, each.index)
                if place in failures:
                    continue
                if each.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self._queues[place].popleft()
                else:
                    failures[place] = Failure(each.error_code, each.error_message)

    def _judged(self, topic: str, partition: int, failure: Failure) -> Exception:
        try:
            self._cluster.check_partition(
                failure.error_code, topic, partition, f"write to {topic}-{partition}"
            )
        except (Retriable, OSError) as problem:
            return problem
        except ClientError as problem:
            if failure.message:
                problem.add_note(failure.message)
            return problem
        raise AssertionError(f"{failure} is none")
