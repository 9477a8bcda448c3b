"""The cluster's form of `TransactionVerifier`: asks the broker that coordinates the transactional id.

    verify ──┬── coordinated here ──> LocalTransactionVerifier
             └── elsewhere ──> queue of that broker ──> AddPartitionsToTxn v4+, for many producers (KIP-890)

A coordinator that moves away while it is asked is answered for: NOT_COORDINATOR, after which the producer
comes again. It may have added the partitions, or the next one may not know of them: asking again is safe.

Not here: a time limit and the producer's error codes (transaction_verifier.py); one request at a time to each
broker (coordinator/request_queue.py).
"""

import asyncio
from collections import deque
from collections.abc import Callable

from moldau.broker.coordinator.coordinator import partition_of
from moldau.broker.coordinator.request_queue import RequestQueue
from moldau.broker.handlers.apis.transactions.transaction_verifier import Codes, Question, TransactionVerifier
from moldau.broker.metadata.image import TRANSACTION_STATE_TOPIC, Image
from moldau.broker.metadata.leaders import leading_broker
from moldau.broker.peers.peers import Peers
from moldau.common.core.waiting import Answer
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

REQUEST_TIMEOUT_MS = 10_000

REQUEST_PARTITIONS_MAX = 1000
"""Partitions of one request: a millisecond or two to encode."""


class ClusterTransactionVerifier:
    """Asks coordinators anywhere in the cluster."""

    def __init__(
        self, node_id: int, image: Callable[[], Image], local: TransactionVerifier, peers: Peers
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._local = local
        self._peers = peers
        self._queues: dict[int, RequestQueue[_Asked]] = {}
        self._closed = False

    def verify(self, question: Question) -> Answer[Codes]:
        """An error code for each partition."""
        node_id = _coordinator(self._image(), question.transactional_id)
        if node_id is None or self._closed:
            return dict.fromkeys(question.partitions, int(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        if node_id == self._node_id:
            return self._local.verify(question)
        queue = self._queues.get(node_id)
        if queue is None:
            queue = self._queues[node_id] = RequestQueue(node_id, self._peers, _QUESTIONS)
        asked = _Asked(question)
        queue.add(asked)
        return asked.codes

    def image_changed(self, image: Image) -> None:
        """The metadata changed: wait no longer for brokers that do not coordinate any more."""
        for node_id, queue in self._queues.items():
            for asked in queue.under_way():
                now = None if asked.codes.done() else _coordinator(image, asked.question.transactional_id)
                if now != node_id:
                    asked.settle(ErrorCode.NOT_COORDINATOR)

    def close(self) -> None:
        """The broker stops: ask nothing more."""
        self._closed = True
        for queue in self._queues.values():
            queue.close()


def _coordinator(image: Image, transactional_id: str) -> int | None:
    """The broker that coordinates the id, if there is one now."""
    topic = TRANSACTION_STATE_TOPIC
    if topic not in image.topics:
        return None
    broker = leading_broker(image, topic, partition_of(transactional_id, topic, image, 1))
    return None if broker is None else broker.node_id


class _Asked:
    """A question on its way. Who asked and waits no longer has cancelled the future."""

    __slots__ = ("codes", "question")

    def __init__(self, question: Question) -> None:
        self.question = question
        self.codes: asyncio.Future[Codes] = asyncio.get_running_loop().create_future()

    def settle(self, error_code: int) -> None:
        """One answer for all partitions, unless there is one already."""
        self.answer(dict.fromkeys(self.question.partitions, int(error_code)))

    def answer(self, codes: Codes) -> None:
        if not self.codes.done():
            self.codes.set_result(codes)


class _Questions:
    """AddPartitionsToTxn between brokers: a `Kind` of request."""

    name = "transactions could not be verified with their coordinator"
    timeout_ms = REQUEST_TIMEOUT_MS
    version_min = 4

    def next_due(self, queued: deque[_Asked]) -> list[_Asked]:
        """Of one transactional id only one transaction, since the response tells them apart by the id."""
        due: list[_Asked] = []
        deferred: list[_Asked] = []
        rows: dict[str, tuple[int, int, bool]] = {}
        count = 0
        while queued and count < REQUEST_PARTITIONS_MAX:
            asked = queued.popleft()
            if asked.codes.done():
                continue
            row = _row_of(asked.question)
            if rows.setdefault(asked.question.transactional_id, row) == row:
                due.append(asked)
                count += len(asked.question.partitions)
            else:
                deferred.append(asked)
        queued.extendleft(reversed(deferred))
        return due

    def request(self, due: list[_Asked]) -> AddPartitionsToTxnRequest:
        """One row a transaction, with all partitions that were asked about."""
        rows: dict[str, dict[str, dict[int, None]]] = {}
        identities = {}
        for question in (asked.question for asked in due):
            identities[question.transactional_id] = _row_of(question)
            topics = rows.setdefault(question.transactional_id, {})
            for topic, index in question.partitions:
                topics.setdefault(topic, {})[index] = None
        transactions = []
        for transactional_id, (producer_id, producer_epoch, add) in identities.items():
            topics = rows[transactional_id]
            transactions.append(
                AddPartitionsToTxnTransaction(
                    transactional_id=transactional_id,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    verify_only=not add,
                    topics=[
                        AddPartitionsToTxnTopic(name=name, partitions=list(indexes))
                        for name, indexes in topics.items()
                    ],
                )
            )
        return AddPartitionsToTxnRequest(transactions=transactions)

    def answered(self, due: list[_Asked], response: AddPartitionsToTxnResponse | None) -> None:
        """A partition that is missing in the response stays missing: `ask` says what that means."""
        if response is None or response.error_code:
            error_code = ErrorCode.NETWORK_EXCEPTION if response is None else response.error_code
            for asked in due:
                asked.settle(error_code)
            return
        codes = {
            row.transactional_id: {
                (topic.name, partition.partition_index): partition.partition_error_code
                for topic in row.topic_results
                for partition in topic.results_by_partition
            }
            for row in response.results_by_transaction
        }
        for asked in due:
            asked.answer(codes.get(asked.question.transactional_id, {}))


_QUESTIONS = _Questions()


def _row_of(question: Question) -> tuple[int, int, bool]:
    return question.producer_id, question.producer_epoch, question.add
