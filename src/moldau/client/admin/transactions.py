"""Transactions as coordinators and partition leaders know them (KIP-664); aborting and fencing by an
administrator.

    the coordinator of a transactional id     its state, and the transaction's partitions
    the leader of a partition                 its producers, and where an open transaction begins

A transaction is ended by an abort marker in one partition, as its coordinator would write it: the leader
takes it if producer epoch and coordinator epoch are not below those that it knows. Or by fencing:
InitProducerId, as by a new producer; the coordinator aborts what is open in all partitions and raises the
epoch (KIP-98).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from moldau.client.admin.layout import Layout, Place
from moldau.client.admin.problem import KafkaProblem, check
from moldau.client.admin.routing import COORDINATOR_MOVES, ask_broker, with_coordinator
from moldau.client.cluster import TRANSACTION, Cluster
from moldau.client.errors import OptionError, Retriable, error_words
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from moldau.common.protocol.messages.describe_transactions import DescribeTransactionsRequest
from moldau.common.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.common.protocol.messages.list_transactions import ListTransactionsRequest
from moldau.common.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)
NONE = -1
_PARTITIONS_AT_ONCE = _IDS_AT_ONCE = 500


class Listing(NamedTuple):
    """One transactional id, and the broker that coordinates it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class Description(NamedTuple):
    """A transactional id as its coordinator describes it.

    `start_ms` is None without an open transaction. `partitions` are the transaction's; once it is ending,
    those whose marker is not written yet.
    """

    coordinator: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[Place, ...]


class Producer(NamedTuple):
    """A producer of a partition; `start_offset` is where its open transaction begins, if it has one."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    start_offset: int | None


def list_transactions(
    layout: Layout,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    duration_ms: int = NONE,
    pattern: str = "",
) -> list[Listing]:
    """The transactional ids of all coordinators that pass every filter, in order. OptionError for a state or
    a pattern (RE2) that brokers do not know.
    """
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=duration_ms,
        transactional_id_pattern=pattern or None,
    )
    found = []
    for broker_id in layout.brokers:
        answer = ask_broker(
            layout.cluster,
            broker_id,
            request,
            "list transactions",
            codes=lambda got: [got.error_code],
            at_least=2 if pattern else 1 if duration_ms >= 0 else 0,
        )
        if answer.unknown_state_filters:
            unknown = ", ".join(answer.unknown_state_filters)
            raise OptionError(f"{unknown} is not a state: there are {', '.join(STATES)}")
        if answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION:
            raise OptionError(f"{pattern!r} is not a regular expression (of the kind RE2)")
        check(answer.error_code)
        found += [
            Listing(row.transactional_id, broker_id, row.producer_id, row.transaction_state)
            for row in answer.transaction_states
        ]
    return sorted(found)


def describe_transactions(
    cluster: Cluster, transactional_ids: Iterable[str], known: Iterable[Listing] = ()
) -> tuple[list[Description], dict[str, int]]:
    """The descriptions in order of coordinators, and the error codes of the other ids. `known` has
    coordinators that need no look-up.
    """
    for each in known:
        cluster.learn_coordinator(each.transactional_id, each.coordinator, TRANSACTION)
    names = list(transactional_ids)
    found: dict[str, tuple[int, Any]] = {}
    for start in range(0, len(names), _IDS_AT_ONCE):
        some = names[start : start + _IDS_AT_ONCE]
        found |= cluster.persist("describe transactions", lambda some=some: _describe(cluster, some))  # type: ignore[misc]
    described = [_description(broker, row) for broker, row in found.values() if not row.error_code]
    refused = {name: int(row.error_code) for name, (_, row) in found.items() if row.error_code}
    return sorted(described), refused


def _describe(cluster: Cluster, names: Sequence[str]) -> dict[str, tuple[int, Any]]:
    """One attempt: coordinator and answer by id. Retriable while one of them loads or moves."""
    of_broker: dict[int, list[str]] = defaultdict(list)
    for name in names:
        of_broker[cluster.coordinator_id(name, TRANSACTION)].append(name)
    found = {}
    for broker_id, mine in of_broker.items():
        try:
            rows = (
                cluster.broker(broker_id)
                .ask(DescribeTransactionsRequest(transactional_ids=mine))
                .transaction_states
            )
        except (Retriable, OSError):
            for name in mine:
                cluster.forget_coordinator(name, TRANSACTION)
            raise
        for row in rows:
            if row.error_code in COORDINATOR_MOVES:
                cluster.forget_coordinator(row.transactional_id, TRANSACTION)
                raise Retriable(error_words(row.error_code))
            found[row.transactional_id] = (broker_id, row)
    return found


def _description(broker_id: int, row: Any) -> Description:
    return Description(
        coordinator=broker_id,
        transactional_id=row.transactional_id,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        state=row.transaction_state,
        timeout_ms=row.transaction_timeout_ms,
        start_ms=row.transaction_start_time_ms if row.transaction_start_time_ms >= 0 else None,
        partitions=tuple(sorted((each.topic, index) for each in row.topics for index in each.partitions)),
    )


def describe_producers(
    layout: Layout, places: Iterable[Place], broker_id: int | None = None
) -> dict[Place, list[Producer]]:
    """Ask the leaders of `places` (or the one broker named) for their producers."""
    of_broker: dict[int, list[Place]] = defaultdict(list)
    for place in sorted(places):
        leader = layout.leader(place)
        of_broker[leader if broker_id is None else layout.require(broker_id)].append(place)
    found: dict[Place, list[Producer]] = {}
    for node, mine in sorted(of_broker.items()):
        for begin in range(0, len(mine), _PARTITIONS_AT_ONCE):
            found |= _ask_producers(layout.cluster, node, mine[begin : begin + _PARTITIONS_AT_ONCE])
    return found


def _ask_producers(cluster: Cluster, broker_id: int, places: list[Place]) -> dict[Place, list[Producer]]:
    of_topic: dict[str, list[int]] = defaultdict(list)
    for topic, index in places:
        of_topic[topic].append(index)
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in of_topic.items()]
    )
    answer = ask_broker(cluster, broker_id, request, "describe producers")
    found = {}
    for topic in answer.topics:
        for row in topic.partitions:
            if row.error_code:
                words = row.error_message or error_words(row.error_code)
                place = f"{topic.name}-{row.partition_index}"
                raise KafkaProblem(row.error_code, f"{place} on broker {broker_id}: {words}")
            found[(topic.name, row.partition_index)] = [_producer(each) for each in row.active_producers]
    return found


def _producer(row: Any) -> Producer:
    start_offset = row.current_txn_start_offset
    return Producer(
        row.producer_id,
        row.producer_epoch,
        row.coordinator_epoch,
        row.last_sequence,
        row.last_timestamp,
        start_offset if start_offset >= 0 else None,
    )


def write_abort_marker(
    layout: Layout, place: Place, producer_id: int, producer_epoch: int, coordinator_epoch: int
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
    answer = ask_broker(layout.cluster, layout.leader(place), WriteTxnMarkersRequest(markers=[marker]))
    codes = [row.error_code for each in answer.markers for topic in each.topics for row in topic.partitions]
    if len(codes) != 1 or codes[0]:
        problem = error_words(codes[0]) if codes else "missing from the response"
        raise KafkaProblem(
            codes[0] if codes else ErrorCode.UNKNOWN_SERVER_ERROR, f"{place[0]}-{place[1]}: {problem}"
        )


def fence(cluster: Cluster, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
    """Abort what is open of the transactional id, and fence its producer. The new producer id and epoch, once
    the abort is complete; ClusterTimeout of CONCURRENT_TRANSACTIONS if it is not within the time limit.
    """
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    answer = with_coordinator(
        cluster,
        transactional_id,
        lambda connection: connection.ask(request),
        lambda got: [got.error_code],
        f"fence transactional id {transactional_id!r}",
        TRANSACTION,
        also=(ErrorCode.CONCURRENT_TRANSACTIONS,),
    )
    check(answer.error_code)
    return answer.producer_id, answer.producer_epoch
