"""Asks a transaction's coordinator whether partitions take part in it (KIP-890).

The leader of a partition asks before it appends the first batch of a transaction (produce_transactional.py);
a group coordinator asks before it keeps offsets for one (txn_offset_commit.py). The coordinator leads the
transactional id's partition of __transaction_state:

    on this broker    LocalTransactionVerifier calls it
    on any            ClusterTransactionVerifier calls it, or sends AddPartitionsToTxn (cluster_verifier.py)

Contract: an error code for each partition that was asked about. Without an answer it is NETWORK_EXCEPTION
(disconnected, timed out) or COORDINATOR_NOT_AVAILABLE (no leader known); the partitions may or may not have
been added then, and asking again is safe.

Handlers call `ask`, which maps whatever a verifier does to codes that a producer knows, and waits for
`ASK_TIMEOUT_MS` at most.

Not here: what a coordinator decides (coordinator/transaction/), the guard in the log against a marker that
comes while it is asked (appending/verification.py).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from moldau.broker.coordinator.markers import TopicPartition
from moldau.broker.coordinator.transaction.error_mapping import producer_error_mapping
from moldau.common.core.waiting import Answer, is_later
from moldau.common.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.coordinator.transaction.service import TransactionCoordinator

log = logging.getLogger("moldau.handlers")

ASK_TIMEOUT_MS = 10_000
"""Then the producer is told to come again. Its batches wait all the while, and their bytes with them."""

Codes = dict[TopicPartition, int]

PARTITION_ERRORS: dict[int, int] = {
    # The asker leads the partition, so it is the coordinator's metadata that lag behind.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.OPERATION_NOT_ATTEMPTED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # A fault between brokers, which says nothing about the client (as in Kafka).
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorCode.INVALID_TXN_STATE,
}
"""Answers that concern brokers, and what stands for them in an answer to a producer."""


class Question(NamedTuple):
    """Whether these partitions take part in the producer's transaction; with `add`: make them.

    `supports_abortable`: the producer knows TRANSACTION_ABORTABLE.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    add: bool
    supports_abortable: bool


class TransactionVerifier(Protocol):
    """Asks coordinators of transactions."""

    def verify(self, question: Question) -> Answer[Codes]:
        """An error code for each partition: NONE if it takes part."""


class LocalTransactionVerifier:
    """Asks the coordinator of this broker, which says NOT_COORDINATOR for ids that another one has."""

    def __init__(self, coordinator: "Callable[[], TransactionCoordinator]") -> None:
        self._coordinator = coordinator

    def verify(self, question: Question) -> Answer[Codes]:
        """An error code for each partition."""
        answer: Answer[Codes] = self._coordinator().verify(
            question.transactional_id,
            question.producer_id,
            question.producer_epoch,
            question.partitions,
            add=question.add,
            supports_abortable=question.supports_abortable,
        )
        return answer


def ask(verifier: TransactionVerifier, question: Question) -> Answer[Codes]:
    """An error code for each partition, in the producer's terms; never an exception.

    A verifier that fails, or leaves a partition out, gives COORDINATOR_NOT_AVAILABLE, and one that does not
    answer in time NETWORK_EXCEPTION: without a clear answer nothing may be appended.
    """
    try:
        answer = verifier.verify(question)
    except Exception:
        return _failed(question)
    if is_later(answer):
        return _wait(answer, question)
    return _in_producers_terms(answer, question)  # type: ignore[arg-type]  # it is no awaitable


async def _wait(answer: Awaitable[Codes], question: Question) -> Codes:
    try:
        codes = await asyncio.wait_for(answer, ASK_TIMEOUT_MS / 1000)
    except TimeoutError:
        codes = dict.fromkeys(question.partitions, int(ErrorCode.NETWORK_EXCEPTION))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # it is the asker that was called off
        return _failed(question)
    except Exception:
        return _failed(question)
    return _in_producers_terms(codes, question)


def _failed(question: Question) -> Codes:
    log.exception("the coordinator of the transactional id %r could not be asked", question.transactional_id)
    return dict.fromkeys(question.partitions, int(ErrorCode.COORDINATOR_NOT_AVAILABLE))


def _in_producers_terms(codes: Codes, question: Question) -> Codes:
    mapping: dict[int, int] = {
        **PARTITION_ERRORS,
        **producer_error_mapping(supports_abortable=question.supports_abortable),
    }
    found = {each: codes.get(each, ErrorCode.COORDINATOR_NOT_AVAILABLE) for each in question.partitions}
    return {each: int(mapping.get(code, code)) for each, code in found.items()}
