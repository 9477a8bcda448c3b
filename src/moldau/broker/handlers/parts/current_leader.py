"""Tells refused clients who leads now, and where (KIP-951), so that they need no Metadata request.

    Produce v10+   NOT_LEADER_OR_FOLLOWER
    Fetch v16+     NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH

A refused row gets the leader and its epoch, and the response the endpoints of these leaders on the listener
that the request came from. They are those of the metadata image, which is never older than what the partition
here knows. A leader that cannot be reached there has no endpoint; a client with newer metadata ignores all of
it by the epoch.

Not here: when a request is refused (replication/partition.py). Responses without such rows are encoded by the
hot codecs as ever.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from moldau.broker.handlers.parts.broker import Broker
from moldau.broker.handlers.parts.cluster_view import endpoint_of
from moldau.broker.metadata.image import NO_LEADER, Image
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.hot_produce import (
    ANSWER_ERROR_CODE,
    ANSWER_INDEX,
    PartitionAnswer,
    RecordsRefused,
)
from moldau.common.protocol.messages import fetch as fetch_messages
from moldau.common.protocol.messages import produce as produce_messages

PRODUCE_FROM = 10
FETCH_FROM = 16
_TOPIC_ID_FROM = 13
_TOLD_TO_FETCH = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_EMPTY_FETCH_BYTES = 11
"""| throttle time 4 | error code 2 | session id 4 | no topics 1 |; the tagged fields follow."""

Endpoint = TypeVar("Endpoint", produce_messages.NodeEndpoint, fetch_messages.NodeEndpoint)


class Leader(NamedTuple):
    """A partition's leader (-1: none), and its epoch."""

    leader_id: int
    leader_epoch: int


def leader_in(image: Image, key: bytes, index: int, *, by_id: bool) -> Leader | None:
    """The partition's leader; None if there is no such partition. `key`: the topic's name, or its id."""
    topic = image.topic_by_id(key) if by_id else image.topics.get(key.decode(errors="replace"))
    if topic is None or not 0 <= index < len(topic.partitions):
        return None
    state = topic.partitions[index]
    return Leader(state.leader, state.leader_epoch)


def _endpoints(image: Image, listener: str, leaders: Iterable[int], kind: type[Endpoint]) -> list[Endpoint]:
    """Where these leaders are reached."""
    found = []
    for node_id in sorted({*leaders} - {NO_LEADER}):
        endpoint = endpoint_of(image, node_id, listener)
        if endpoint is not None:
            host, port = endpoint
            rack = image.brokers[node_id].rack
            found.append(kind(node_id=node_id, host=host, port=port, rack=rack))
    return found


# Produce


def produced(row: PartitionAnswer) -> produce_messages.PartitionProduceResponse:
    """A row of a Produce response as a message."""
    index, error_code, base_offset, log_append_time_ms, log_start_offset, message = row
    response = produce_messages.PartitionProduceResponse(
        index=index,
        error_code=error_code,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
    )
    if isinstance(message, RecordsRefused):
        message, record_errors = message
        response.record_errors = [
            produce_messages.BatchIndexAndErrorMessage(
                batch_index=batch_index, batch_index_error_message=reason
            )
            for batch_index, reason in record_errors
        ]
    response.error_message = message
    return response


class ProduceLeaders:
    """The leaders of one Produce response's refused rows."""

    def __init__(self, broker: Broker, listener: str, version: int) -> None:
        self._image = broker.metadata.image
        self._listener = listener
        self._version = version
        self._leaders: dict[int, None] = {}

    def produced(self, key: bytes, row: PartitionAnswer) -> produce_messages.PartitionProduceResponse:
        """The row as a message, with its leader if it was refused for that."""
        response = produced(row)
        if row[ANSWER_ERROR_CODE] == ErrorCode.NOT_LEADER_OR_FOLLOWER and self._version >= PRODUCE_FROM:
            leader = leader_in(self._image, key, row[ANSWER_INDEX], by_id=self._version >= _TOPIC_ID_FROM)
            if leader is not None:
                self._leaders[leader.leader_id] = None
                response.current_leader = produce_messages.LeaderIdAndEpoch(
                    leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                )
        return response

    def endpoints(self) -> list[produce_messages.NodeEndpoint]:
        """The endpoints of the leaders told so far."""
        return _endpoints(self._image, self._listener, self._leaders, produce_messages.NodeEndpoint)


def tells_leaders(version: int, rows: Iterable[PartitionAnswer]) -> bool:
    """Whether a Produce response with these rows names leaders."""
    return version >= PRODUCE_FROM and any(
        row[ANSWER_ERROR_CODE] == ErrorCode.NOT_LEADER_OR_FOLLOWER for row in rows
    )


def encode_produce_response(
    broker: Broker,
    listener: str,
    version: int,
    topics: Iterable[tuple[bytes, Iterable[PartitionAnswer]]],
    throttle_time_ms: int = 0,
) -> bytes:
    """The body of a Produce response with refused rows; topics are keyed as the request keyed them."""
    leaders = ProduceLeaders(broker, listener, version)
    response = produce_messages.ProduceResponse(throttle_time_ms=throttle_time_ms)
    for key, rows in topics:
        answered = produce_messages.TopicProduceResponse(
            partition_responses=[leaders.produced(key, row) for row in rows]
        )
        if version >= _TOPIC_ID_FROM:
            answered.topic_id = key
        else:
            answered.name = key.decode()
        response.responses.append(answered)
    response.node_endpoints = leaders.endpoints()
    return response.encode(version)


# Fetch


def leader_for_fetch(broker: Broker, version: int, key: bytes, index: int, error_code: int) -> Leader | None:
    """The leader that a refused row of a Fetch response names; None: none."""
    if version < FETCH_FROM or error_code not in _TOLD_TO_FETCH:
        return None
    return leader_in(broker.metadata.image, key, index, by_id=True)


def fetch_endpoints(broker: Broker, listener: str, version: int, leaders: Iterable[int]) -> bytes:
    """A Fetch response's last block of tagged fields: the endpoints of these leaders."""
    endpoints = _endpoints(broker.metadata.image, listener, leaders, fetch_messages.NodeEndpoint)
    return fetch_messages.FetchResponse(node_endpoints=endpoints).encode(version)[_EMPTY_FETCH_BYTES:]
