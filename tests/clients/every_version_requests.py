"""The requests of `test_every_version`: one for each API, written for its newest version, and what its answer
must say where that is determined by what the fixture made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from client_confluent import ConfluentClient, create_topic
from client_model import Message, eventually
from confluent_kafka import Consumer, TopicPartition
from kio.schema.index import api_key_map
from raw_client import API_VERSIONS, RawClient


@dataclass
class World:
    """What exists on the broker while the requests are asked."""

    topic: str
    topic_id: Any
    group: str
    node_id: int
    batch: bytes
    spare: str = field(default_factory=lambda: os.urandom(4).hex())

    def fresh(self) -> str:
        """A name that nothing has yet."""
        self.spare = os.urandom(4).hex()
        return f"fresh-{self.spare}"


@pytest.fixture(scope="module")
def world(bootstrap: str) -> World:
    """A topic of one partition with five records, a group with an offset, and a batch to produce again."""
    topic = f"every-version-{os.urandom(4).hex()}"
    create_topic(bootstrap, topic)
    ConfluentClient(bootstrap).produce(topic, [Message(b"k", str(i).encode()) for i in range(5)])
    group = f"group-{topic}"
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    consumer.close()
    with RawClient(bootstrap) as raw:
        metadata = raw.call(3, 12, topics=[{"name": topic, "topic_id": None}])
        place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100_000}
        fetched = raw.call(
            1, 11, replica_id=-1, max_wait=500, max_bytes=100_000, session_epoch=-1,
            topics=[{"topic": topic, "partitions": [place]}],
        )  # fmt: skip
        eventually(lambda: int(raw.call(22, 0, transaction_timeout=1000, producer_id=-1).error_code) == 0)
        eventually(lambda: _has_transaction_coordinator(raw))
        batch = bytes(fetched.responses[0].partitions[0].records)
    size = 12 + int.from_bytes(batch[8:12], "big")
    return World(topic, metadata.topics[0].topic_id, group, int(metadata.brokers[0].node_id), batch[:size])


def _has_transaction_coordinator(raw: RawClient) -> bool:
    raw.call(10, 1, key="no-one", key_type=1)
    answer = raw.call(26, 0, transactional_id="no-one", producer_id=1 << 40, producer_epoch=0, committed=True)
    return int(answer.error_code) == 49


Request = Callable[[World, int], dict[str, Any]]
Check = Callable[[World, int, Any], None]
REQUESTS: dict[str, Request] = {}
CHECKS: dict[str, Check] = {}


def asked(name: str) -> Callable[[Request], Request]:
    """Registers the request of an API."""

    def register(function: Request) -> Request:
        REQUESTS[name] = function
        return function

    return register


def checked(name: str) -> Callable[[Check], Check]:
    """Registers what the answer of an API must say."""

    def register(function: Check) -> Check:
        CHECKS[name] = function
        return function

    return register


@asked("produce")
def _produce(world: World, version: int) -> dict[str, Any]:
    data = [{"index": 0, "records": world.batch}]
    topic = {"name": world.topic, "topic_id": world.topic_id, "partition_data": data}
    return {"acks": -1, "timeout": 5000, "topic_data": [topic]}


@checked("produce")
def _produced(world: World, version: int, answer: Any) -> None:
    (partition,) = answer.responses[0].partition_responses
    assert int(partition.error_code) == 0
    assert partition.base_offset >= 5


@asked("fetch")
def _fetch(world: World, version: int) -> dict[str, Any]:
    place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100_000, "current_leader_epoch": -1}
    place["log_start_offset"] = -1
    topic = {"topic": world.topic, "topic_id": world.topic_id, "partitions": [place]}
    values = {"max_wait": 500, "min_bytes": 1, "max_bytes": 100_000, "session_epoch": -1, "topics": [topic]}
    return values | {"replica_id": -1} if version < 15 else values


@checked("fetch")
def _fetched(world: World, version: int, answer: Any) -> None:
    (partition,) = answer.responses[0].partitions
    assert int(partition.error_code) == 0
    assert partition.high_watermark >= 5
    assert bytes(partition.records).startswith(world.batch)


@asked("list_offsets")
def _list_offsets(world: World, version: int) -> dict[str, Any]:
    place = {"partition_index": 0, "timestamp": -2, "current_leader_epoch": -1, "max_num_offsets": 1}
    return {"replica_id": -1, "topics": [{"name": world.topic, "partitions": [place]}], "timeout": 1000}


@checked("list_offsets")
def _offsets_listed(world: World, version: int, answer: Any) -> None:
    (partition,) = answer.topics[0].partitions
    assert int(partition.error_code) == 0
    assert (partition.offset if version else partition.old_style_offsets[0]) == 0


@asked("metadata")
def _metadata(world: World, version: int) -> dict[str, Any]:
    return {"topics": [{"name": world.topic, "topic_id": None}], "allow_auto_topic_creation": False}


@checked("metadata")
def _metadata_given(world: World, version: int, answer: Any) -> None:
    (topic,) = answer.topics
    assert (int(topic.error_code), topic.name) == (0, world.topic)
    assert [one.leader_id for one in topic.partitions] == [world.node_id]
    assert [one.node_id for one in answer.brokers] == [world.node_id]


@asked("offset_commit")
def _offset_commit(world: World, version: int) -> dict[str, Any]:
    place = {
        "partition_index": 0,
        "committed_offset": 3,
        "committed_metadata": "m",
        "committed_leader_epoch": -1,
    }
    topic = {"name": world.topic, "topic_id": world.topic_id, "partitions": [place]}
    return {"group_id": world.group, "generation_id_or_member_epoch": -1, "topics": [topic]}


@checked("offset_commit")
def _offset_committed(world: World, version: int, answer: Any) -> None:
    assert int(answer.topics[0].partitions[0].error_code) == 0


@asked("offset_fetch")
def _offset_fetch(world: World, version: int) -> dict[str, Any]:
    topic = {"name": world.topic, "topic_id": world.topic_id, "partition_indexes": [0]}
    grouped = {"group_id": world.group, "member_epoch": -1, "topics": [topic]}
    return {"group_id": world.group, "topics": [topic]} if version < 8 else {"groups": [grouped]}


@checked("offset_fetch")
def _offset_fetched(world: World, version: int, answer: Any) -> None:
    topics = answer.topics if version < 8 else answer.groups[0].topics
    assert [one.committed_offset for one in topics[0].partitions] == [3]


@asked("find_coordinator")
def _find_coordinator(world: World, version: int) -> dict[str, Any]:
    return {"key": world.group, "key_type": 0, "coordinator_keys": [world.group]}


@checked("find_coordinator")
def _coordinator_found(world: World, version: int, answer: Any) -> None:
    found = answer if version < 4 else answer.coordinators[0]
    assert (int(found.error_code), found.node_id) == (0, world.node_id)


@asked("join_group")
def _join_group(world: World, version: int) -> dict[str, Any]:
    protocols = [{"name": "range", "metadata": b"\0\0"}]
    return {
        "group_id": world.fresh(),
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "protocol_type": "consumer",
        "protocols": protocols,
    }


@checked("join_group")
def _joined(world: World, version: int, answer: Any) -> None:
    # From version 4 a member without an id is given one and told to come again (79).
    assert int(answer.error_code) == (79 if version >= 4 else 0)
    assert answer.member_id


def _stranger(world: World, version: int) -> dict[str, Any]:
    names = {"protocol_type": "consumer", "protocol_name": "range"}
    return {"group_id": world.fresh(), "generation_id": 1, "member_id": "nobody", **names}


for _name in ("heartbeat", "sync_group"):
    REQUESTS[_name] = _stranger


@checked("heartbeat")
@checked("sync_group")
def _unknown_member(world: World, version: int, answer: Any) -> None:
    assert int(answer.error_code) == 25


@asked("leave_group")
def _leave_group(world: World, version: int) -> dict[str, Any]:
    return _stranger(world, version) | {"members": [{"member_id": "nobody"}]}


@checked("leave_group")
def _left(world: World, version: int, answer: Any) -> None:
    assert int(answer.error_code if version < 3 else answer.members[0].error_code) == 25


@asked("describe_groups")
def _describe_groups(world: World, version: int) -> dict[str, Any]:
    return {"groups": [world.group]}


@checked("describe_groups")
def _groups_described(world: World, version: int, answer: Any) -> None:
    (group,) = answer.groups
    assert (int(group.error_code), group.group_state) == (0, "Empty")


@checked("list_groups")
def _groups_listed(world: World, version: int, answer: Any) -> None:
    assert world.group in {one.group_id for one in answer.groups}


@asked("api_versions")
def _api_versions(world: World, version: int) -> dict[str, Any]:
    return {"client_software_name": "raw-client", "client_software_version": "1"}


@checked("api_versions")
def _api_versions_given(world: World, version: int, answer: Any) -> None:
    ranges = {int(one.api_key): (one.min_version, one.max_version) for one in answer.api_keys}
    assert ranges[0][0] == 0, "old librdkafka turns codecs off unless Produce begins at version 0"
    assert ranges[API_VERSIONS] == (0, 4)


@asked("create_topics")
def _create_topics(world: World, version: int) -> dict[str, Any]:
    return {
        "topics": [{"name": world.fresh(), "num_partitions": 1, "replication_factor": 1}],
        "timeout": 5000,
    }


@checked("create_topics")
def _topics_created(world: World, version: int, answer: Any) -> None:
    assert [int(one.error_code) for one in answer.topics] == [0]


@asked("delete_topics")
def _delete_topics(world: World, version: int) -> dict[str, Any]:
    name = world.fresh()
    return {"topic_names": [name], "topics": [{"name": name, "topic_id": None}], "timeout": 5000}


@checked("delete_topics")
def _topics_deleted(world: World, version: int, answer: Any) -> None:
    assert [int(one.error_code) for one in answer.responses] == [3]


@asked("delete_records")
def _delete_records(world: World, version: int) -> dict[str, Any]:
    place = {"partition_index": 0, "offset": 0}
    return {"topics": [{"name": world.topic, "partitions": [place]}], "timeout": 5000}


@checked("delete_records")
def _records_deleted(world: World, version: int, answer: Any) -> None:
    (partition,) = answer.topics[0].partitions
    assert (int(partition.error_code), partition.low_watermark) == (0, 0)


@asked("init_producer_id")
def _init_producer_id(world: World, version: int) -> dict[str, Any]:
    return {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}


@checked("init_producer_id")
def _producer_id_given(world: World, version: int, answer: Any) -> None:
    assert (int(answer.error_code), answer.producer_epoch) == (0, 0)
    assert answer.producer_id >= 0


@asked("offset_for_leader_epoch")
def _offset_for_leader_epoch(world: World, version: int) -> dict[str, Any]:
    place = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    return {"replica_id": -1, "topics": [{"topic": world.topic, "partitions": [place]}]}


@checked("offset_for_leader_epoch")
def _epoch_end_given(world: World, version: int, answer: Any) -> None:
    (partition,) = answer.topics[0].partitions
    assert int(partition.error_code) == 0
    assert partition.end_offset >= 5


@asked("describe_configs")
def _describe_configs(world: World, version: int) -> dict[str, Any]:
    resource = {"resource_type": 2, "resource_name": world.topic, "configuration_keys": ["retention.ms"]}
    return {"resources": [resource], "include_synonyms": True, "include_documentation": True}


@checked("describe_configs")
def _configs_described(world: World, version: int, answer: Any) -> None:
    (result,) = answer.results
    assert [(one.name, one.value) for one in result.configs] == [("retention.ms", "604800000")]


@asked("alter_configs")
def _alter_configs(world: World, version: int) -> dict[str, Any]:
    configs = [{"name": "segment.bytes", "value": "1073741824"}]
    return {"resources": [{"resource_type": 2, "resource_name": world.topic, "configs": configs}]}


@asked("incremental_alter_configs")
def _incremental_alter_configs(world: World, version: int) -> dict[str, Any]:
    configs = [{"name": "segment.bytes", "config_operation": 0, "value": "1073741824"}]
    return {"resources": [{"resource_type": 2, "resource_name": world.topic, "configs": configs}]}


@checked("alter_configs")
@checked("incremental_alter_configs")
def _configs_altered(world: World, version: int, answer: Any) -> None:
    assert [int(one.error_code) for one in answer.responses] == [0]


@asked("describe_log_dirs")
def _describe_log_dirs(world: World, version: int) -> dict[str, Any]:
    return {"topics": [{"topic": world.topic, "partitions": [0]}]}


@checked("describe_log_dirs")
def _log_dirs_described(world: World, version: int, answer: Any) -> None:
    sizes = [
        p.partition_size for result in answer.results for topic in result.topics for p in topic.partitions
    ]
    assert len(sizes) == 1
    assert sizes[0] >= len(world.batch)


@asked("alter_replica_log_dirs")
def _alter_replica_log_dirs(world: World, version: int) -> dict[str, Any]:
    return {"dirs": [{"path": "/nowhere", "topics": [{"name": world.topic, "partitions": [0]}]}]}


@checked("alter_replica_log_dirs")
def _log_dirs_altered(world: World, version: int, answer: Any) -> None:
    codes = [int(p.error_code) for result in answer.results for p in result.partitions]
    assert codes == [57], "LOG_DIR_NOT_FOUND"


@asked("create_partitions")
def _create_partitions(world: World, version: int) -> dict[str, Any]:
    return {"topics": [{"name": world.topic, "count": 1}], "timeout": 5000}


@checked("create_partitions")
def _partitions_created(world: World, version: int, answer: Any) -> None:
    assert [int(one.error_code) for one in answer.results] == [37]


@asked("delete_groups")
def _delete_groups(world: World, version: int) -> dict[str, Any]:
    return {"groups_names": [world.fresh()]}


@checked("delete_groups")
def _groups_deleted(world: World, version: int, answer: Any) -> None:
    assert [int(one.error_code) for one in answer.results] == [69]


@asked("elect_leaders")
def _elect_leaders(world: World, version: int) -> dict[str, Any]:
    return {"topic_partitions": [{"topic": world.topic, "partitions": [0]}], "timeout": 5000}


@checked("elect_leaders")
def _leaders_elected(world: World, version: int, answer: Any) -> None:
    (partition,) = answer.replica_election_results[0].partition_result
    assert int(partition.error_code) == 84


@asked("offset_delete")
def _offset_delete(world: World, version: int) -> dict[str, Any]:
    return {
        "group_id": world.fresh(),
        "topics": [{"name": world.topic, "partitions": [{"partition_index": 0}]}],
    }


@checked("offset_delete")
def _offset_deleted(world: World, version: int, answer: Any) -> None:
    assert int(answer.error_code) == 69


@checked("describe_cluster")
def _cluster_described(world: World, version: int, answer: Any) -> None:
    assert [one.broker_id for one in answer.brokers] == [world.node_id]


@asked("describe_producers")
def _describe_producers(world: World, version: int) -> dict[str, Any]:
    return {"topics": [{"name": world.topic, "partition_indexes": [0]}]}


@checked("describe_producers")
def _producers_described(world: World, version: int, answer: Any) -> None:
    assert int(answer.topics[0].partitions[0].error_code) == 0


@asked("describe_topic_partitions")
def _describe_topic_partitions(world: World, version: int) -> dict[str, Any]:
    return {"topics": [{"name": world.topic}], "response_partition_limit": 100}


@checked("describe_topic_partitions")
def _topic_partitions_described(world: World, version: int, answer: Any) -> None:
    assert [one.name for one in answer.topics] == [world.topic]
    assert [one.leader_id for one in answer.topics[0].partitions] == [world.node_id]


@asked("consumer_group_heartbeat")
def _consumer_group_heartbeat(world: World, version: int) -> dict[str, Any]:
    return {
        "group_id": world.fresh(),
        "member_id": "AAAAAAAAAAAAAAAAAAAAAg",
        "member_epoch": 0,
        "rebalance_timeout": 10_000,
        "subscribed_topic_names": [world.topic],
        "topic_partitions": [],
    }


@checked("consumer_group_heartbeat")
def _heartbeat_answered(world: World, version: int, answer: Any) -> None:
    assert int(answer.error_code) == 0
    assert answer.member_epoch >= 1
    (assigned,) = answer.assignment.topic_partitions
    assert (assigned.topic_id, list(assigned.partitions)) == (world.topic_id, [0])


@asked("consumer_group_describe")
def _consumer_group_describe(world: World, version: int) -> dict[str, Any]:
    return {"group_ids": [world.fresh()]}


@checked("consumer_group_describe")
def _consumer_groups_described(world: World, version: int, answer: Any) -> None:
    assert [int(one.error_code) for one in answer.groups] == [69]


@checked("list_config_resources")
def _config_resources_listed(world: World, version: int, answer: Any) -> None:
    assert int(answer.error_code) == 0


@asked("list_partition_reassignments")
def _list_partition_reassignments(world: World, version: int) -> dict[str, Any]:
    return {"topics": None, "timeout": 5000}


@checked("list_partition_reassignments")
def _no_reassignments(world: World, version: int, answer: Any) -> None:
    assert (int(answer.error_code), answer.topics) == (0, ())


NO_ONE: dict[str, Any] = {"transactional_id": "no-one", "producer_id": 1 << 40, "producer_epoch": 0}
UNKNOWN_PRODUCER = 49


@asked("add_partitions_to_txn")
def _add_partitions_to_txn(world: World, version: int) -> dict[str, Any]:
    topics = [{"name": world.topic, "partitions": [0]}]
    if version >= 4:
        return {"transactions": [{**NO_ONE, "verify_only": False, "topics": topics}]}
    return {f"v3_and_below_{name}": value for name, value in {**NO_ONE, "topics": topics}.items()}


@checked("add_partitions_to_txn")
def _partitions_added(world: World, version: int, answer: Any) -> None:
    by_topic = answer.results_by_topic_v3_and_below if version < 4 else None
    (topic,) = by_topic or answer.results_by_transaction[0].topic_results
    assert [int(one.partition_error_code) for one in topic.results_by_partition] == [UNKNOWN_PRODUCER]


@asked("add_offsets_to_txn")
def _add_offsets_to_txn(world: World, version: int) -> dict[str, Any]:
    return {**NO_ONE, "group_id": world.fresh()}


@asked("end_txn")
def _end_txn(world: World, version: int) -> dict[str, Any]:
    return {**NO_ONE, "committed": True}


@checked("add_offsets_to_txn")
@checked("end_txn")
def _unknown_producer(world: World, version: int, answer: Any) -> None:
    assert int(answer.error_code) == UNKNOWN_PRODUCER


@asked("txn_offset_commit")
def _txn_offset_commit(world: World, version: int) -> dict[str, Any]:
    place = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}
    topics = [{"name": world.topic, "partitions": [place]}]
    return {**NO_ONE, "group_id": world.group, "topics": topics}


@checked("txn_offset_commit")
def _txn_offsets_committed(world: World, version: int, answer: Any) -> None:
    assert [int(one.error_code) for one in answer.topics[0].partitions] == [UNKNOWN_PRODUCER]


@asked("write_txn_markers")
def _write_txn_markers(world: World, version: int) -> dict[str, Any]:
    topics = [{"name": world.fresh(), "partition_indexes": [0]}]
    marker = {"producer_id": 1 << 40, "producer_epoch": 0, "transaction_result": True, "topics": topics}
    return {"markers": [marker | {"coordinator_epoch": 0}]}


@checked("write_txn_markers")
def _markers_written(world: World, version: int, answer: Any) -> None:
    assert [int(one.error_code) for one in answer.markers[0].topics[0].partitions] == [3]


@asked("describe_transactions")
def _describe_transactions(world: World, version: int) -> dict[str, Any]:
    return {"transactional_ids": []}


@checked("describe_transactions")
def _transactions_described(world: World, version: int, answer: Any) -> None:
    assert answer.transaction_states == ()


@checked("list_transactions")
def _transactions_listed(world: World, version: int, answer: Any) -> None:
    assert int(answer.error_code) == 0


def requests_of_all(
    world: World, ranges: dict[int, tuple[int, int]]
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Every request once, in every version: the seed of the bad-input tests."""
    for key, (lowest, highest) in sorted(ranges.items()):
        if key >= 21000:  # Moldau's own
            continue
        name = api_key_map[key]
        for version in range(3 if name == "produce" else lowest, highest + 1):
            if name in REQUESTS:
                yield key, version, REQUESTS[name](world, version)
