"""Ends a transaction without its producer: an abort marker in one partition, or fencing its transactional id.

The marker is what a coordinator would write (WriteTxnMarkers); the leader accepts it if producer epoch and
coordinator epoch are not lower than those it knows. Fencing is an InitProducerId, as by a new producer: the
coordinator aborts the open transaction in all partitions and raises the epoch.
"""

from __future__ import annotations

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.common.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from moldau.tools.commands.transactions.routing import Place, Routing
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.raw_request import error_words

WRITE_MARKERS_VERSION = 1
INIT_PRODUCER_ID_VERSION = 4


def write_abort_marker(
    routing: Routing, place: Place, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> None:
    """Have the leader write an abort marker for the producer in one partition.

    A producer without an earlier marker has coordinator epoch -1 there; so 0 is never too low.
    """
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        coordinator_epoch=max(coordinator_epoch, 0),
        topics=[WritableTxnMarkerTopic(name=place[0], partition_indexes=[place[1]])],
    )
    answer = routing.ask(
        routing.leader(place), WriteTxnMarkersRequest(markers=[marker]), WRITE_MARKERS_VERSION
    )
    codes = [row.error_code for each in answer.markers for topic in each.topics for row in topic.partitions]
    if len(codes) != 1 or codes[0]:
        problem = error_words(codes[0]) if codes else "missing from the response"
        raise CommandError(f"{place[0]}-{place[1]}: {problem}")


def fence(routing: Routing, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
    """Call InitProducerId for the transactional id, which aborts what is open and fences its producer
    (KIP-98).

    Returns the new producer id and epoch once the abort is complete.
    """
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    coordinator = routing.coordinator(transactional_id)
    soon = (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
    answer = routing.retry(
        lambda: routing.ask(coordinator, request, INIT_PRODUCER_ID_VERSION),
        lambda answer: [answer.error_code],
        soon,
    )
    if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        raise CommandError(
            f"transactional id {transactional_id!r} is being aborted, but not yet in every partition "
            f"(CONCURRENT_TRANSACTIONS): `moldau transactions describe {transactional_id}` names those left"
        )
    if answer.error_code:
        raise CommandError(f"transactional id {transactional_id!r}: {error_words(answer.error_code)}")
    return answer.producer_id, answer.producer_epoch
