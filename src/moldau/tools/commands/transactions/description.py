"""Transactions for `moldau transactions`, from both sources.

The coordinator knows a transaction's partitions and state. The leader of a partition knows its producers and
the start offset of an open transaction. An open transaction in a partition that no coordinator knows is
hanging (hanging.py). What changes transactions is in ending.py.

Request versions are the lowest that have the needed fields, so that older brokers work too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from moldau.common.protocol.messages.describe_transactions import DescribeTransactionsRequest
from moldau.common.protocol.messages.list_transactions import ListTransactionsRequest
from moldau.tools.commands.transactions.routing import Place, Routing
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.raw_request import error_words

DESCRIBE_TRANSACTIONS_VERSION = 0
DESCRIBE_PRODUCERS_VERSION = 0
PARTITIONS_A_REQUEST = 500
IDS_A_REQUEST = 500
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


@dataclass(frozen=True, slots=True)
class Listing:
    """One transactional id."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class Description:
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


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer of a partition; `start_offset` is where its open transaction begins, if it has one."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    start_offset: int | None


def list_transactions(
    routing: Routing,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    duration_ms: int = NONE,
    pattern: str = "",
) -> list[Listing]:
    """Return the transactional ids of all coordinators that pass every filter, sorted."""
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=duration_ms,
        transactional_id_pattern=pattern or None,
    )
    version = 2 if pattern else 1 if duration_ms >= 0 else 0
    found = []
    for broker_id in sorted(routing.brokers):
        answer = routing.retry(
            partial(routing.ask, broker_id, request, version), lambda answer: [answer.error_code]
        )
        if answer.unknown_state_filters:
            unknown = ", ".join(answer.unknown_state_filters)
            raise UsageError(f"{unknown} is not a state: there are {', '.join(STATES)}")
        if answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION:
            raise UsageError(f"{pattern!r} is not a regular expression (of the kind RE2)")
        if answer.error_code:
            raise CommandError(f"broker {broker_id}: {error_words(answer.error_code)}")
        found += [
            Listing(row.transactional_id, broker_id, row.producer_id, row.transaction_state)
            for row in answer.transaction_states
        ]
    return sorted(found, key=lambda each: each.transactional_id)


def describe_transactions(
    routing: Routing, transactional_ids: Iterable[str], coordinators: dict[str, int] | None = None
) -> tuple[list[Description], dict[str, int]]:
    """Ask the coordinators. Returns the descriptions, and the error codes of the other ids.

    `coordinators` holds known coordinators, which need no lookup.
    """
    of_broker: dict[int, list[str]] = defaultdict(list)
    for transactional_id in transactional_ids:
        known = (coordinators or {}).get(transactional_id)
        of_broker[routing.coordinator(transactional_id) if known is None else known].append(transactional_id)
    described, refused = [], {}
    for broker_id, names in sorted(of_broker.items()):
        for begin in range(0, len(names), IDS_A_REQUEST):
            for row in _describe(routing, broker_id, names[begin : begin + IDS_A_REQUEST]):
                if row.error_code:
                    refused[row.transactional_id] = row.error_code
                else:
                    described.append(_description(broker_id, row))
    return described, refused


def _describe(routing: Routing, broker_id: int, names: list[str]) -> list[Any]:
    request = DescribeTransactionsRequest(transactional_ids=names)
    answer = routing.retry(
        lambda: routing.ask(broker_id, request, DESCRIBE_TRANSACTIONS_VERSION),
        lambda answer: [row.error_code for row in answer.transaction_states],
    )
    rows: list[Any] = answer.transaction_states
    return rows


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


def require_description(routing: Routing, transactional_id: str) -> Description:
    """Describe one id. CommandError if it does not exist."""
    described, refused = describe_transactions(routing, [transactional_id])
    if refused:
        raise CommandError(refusal(transactional_id, refused[transactional_id]))
    return described[0]


def refusal(transactional_id: str, error_code: int) -> str:
    """Return the message for an id that cannot be described."""
    if error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return (
            f"there is no transactional id {transactional_id!r} (TRANSACTIONAL_ID_NOT_FOUND): "
            "list them with `moldau transactions list`"
        )
    return f"transactional id {transactional_id!r}: {error_words(error_code)}"


def describe_producers(
    routing: Routing, places: Iterable[Place], broker_id: int | None = None
) -> dict[Place, list[Producer]]:
    """Ask the leaders of `places` (or the one broker named) for their producers."""
    of_broker: dict[int, list[Place]] = defaultdict(list)
    for place in sorted(places):
        leader = routing.leader(place)
        of_broker[leader if broker_id is None else broker_id].append(place)
    found: dict[Place, list[Producer]] = {}
    for node, mine in sorted(of_broker.items()):
        for begin in range(0, len(mine), PARTITIONS_A_REQUEST):
            found |= _ask_producers(routing, node, mine[begin : begin + PARTITIONS_A_REQUEST])
    return found


def _ask_producers(routing: Routing, broker_id: int, places: list[Place]) -> dict[Place, list[Producer]]:
    of_topic: dict[str, list[int]] = defaultdict(list)
    for topic, index in places:
        of_topic[topic].append(index)
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in of_topic.items()]
    )
    answer = routing.ask(broker_id, request, DESCRIBE_PRODUCERS_VERSION)
    found = {}
    for topic in answer.topics:
        for row in topic.partitions:
            if row.error_code:
                words = error_words(row.error_code)
                raise CommandError(f"{topic.name}-{row.partition_index} on broker {broker_id}: {words}")
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


def coordinated(routing: Routing, producer_ids: Iterable[int]) -> Iterator[tuple[int, Description]]:
    """Return the transaction of each producer id that a coordinator knows."""
    wanted = sorted(set(producer_ids))
    if not wanted:
        return
    listings = list_transactions(routing, producer_ids=wanted)
    where = {each.transactional_id: each.coordinator for each in listings}
    for described in describe_transactions(routing, where, where)[0]:
        yield described.producer_id, described
