"""ElectLeaders (key 43, versions 0-2): elect leaders: the preferred one, or any.

v1   election_type (KIP-460); answer: error_code
v2   flexible
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int8,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    array,
    message,
    response_to,
    since,
)


@message(key=43, versions=(0, 2), flexible_from=2)
class ElectLeadersRequest(Message):
    """Partitions, and what kind of election; null partitions mean all."""

    election_type: Int8 = since(1)
    topic_partitions: list[TopicPartitions] | None = array()
    timeout_ms: Int32 = 60000


class TopicPartitions(Struct):
    topic: String = ""
    partitions: list[Int32] = array()


@response_to(ElectLeadersRequest)
class ElectLeadersResponse(Message):
    """An error code for each partition that something was done for."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(1)
    replica_election_results: list[ReplicaElectionResult] = array()


class ReplicaElectionResult(Struct):
    topic: String = ""
    partition_result: list[PartitionResult] = array()


class PartitionResult(Struct):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
