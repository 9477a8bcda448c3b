"""Every API in every version that ApiVersions advertises, asked over a socket; `kio` judges the answers.

Each API has one request, written for its newest version; older ones leave out what they lack. Where the
answer is determined by what the fixture made, it is compared; everywhere the connection must live and no
bytes be left over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from client_agents import AgentClient
from client_confluent import ConfluentClient, create_topic
from client_model import Message, eventually
from confluent_kafka import Consumer, TopicPartition
from kio.index import load_request_schema
from kio.schema.index import api_key_map
from raw_client import API_VERSIONS, RawClient, parse_response, request_frame


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


@pytest.fixture(scope="module")
def ranges(bootstrap: str) -> dict[int, tuple[int, int]]:
    with RawClient(bootstrap) as raw:
        return raw.advertised()


MUST_BE_ADVERTISED = {
    "produce": (0, 13),
    "fetch": (4, 18),
    "list_offsets": (1, 11),
    "metadata": (0, 13),
    "offset_commit": (2, 10),
    "offset_fetch": (1, 10),
    "find_coordinator": (0, 6),
    "join_group": (0, 9),
    "heartbeat": (0, 4),
    "leave_group": (0, 5),
    "sync_group": (0, 5),
    "describe_groups": (0, 6),
    "list_groups": (0, 5),
    "api_versions": (0, 4),
    "create_topics": (2, 7),
    "delete_topics": (1, 6),
    "delete_records": (0, 2),
    "init_producer_id": (0, 5),
    "offset_for_leader_epoch": (2, 4),
    "add_partitions_to_txn": (0, 5),
    "add_offsets_to_txn": (0, 4),
    "end_txn": (0, 5),
    "write_txn_markers": (1, 2),
    "txn_offset_commit": (0, 5),
    "describe_transactions": (0, 0),
    "list_transactions": (0, 2),
    "describe_configs": (1, 4),
    "alter_configs": (0, 2),
    "alter_replica_log_dirs": (1, 2),
    "describe_log_dirs": (1, 5),
    "create_partitions": (0, 3),
    "delete_groups": (0, 2),
    "elect_leaders": (0, 2),
    "incremental_alter_configs": (0, 1),
    "list_partition_reassignments": (0, 0),
    "offset_delete": (0, 0),
    "describe_cluster": (0, 2),
    "describe_producers": (0, 0),
    "consumer_group_heartbeat": (0, 1),
    "consumer_group_describe": (0, 1),
    "list_config_resources": (0, 1),
    "describe_topic_partitions": (0, 0),
    "sasl_handshake": (0, 1),
    "sasl_authenticate": (0, 2),
    "describe_acls": (1, 3),
    "create_acls": (1, 3),
    "delete_acls": (1, 3),
    "describe_client_quotas": (0, 1),
    "alter_client_quotas": (0, 1),
    "describe_user_scram_credentials": (0, 0),
    "alter_user_scram_credentials": (0, 0),
    "describe_quorum": (0, 2),
    "update_features": (0, 2),
    "unregister_broker": (0, 0),
}


def test_every_api_of_the_table_is_advertised(ranges: dict[int, tuple[int, int]]) -> None:
    keys = {name: key for key, name in api_key_map.items()}
    missing = {
        name: wanted for name, wanted in MUST_BE_ADVERTISED.items() if ranges.get(keys[name]) != wanted
    }
    assert missing == {}, {name: ranges.get(keys[name]) for name in missing}


@pytest.mark.parametrize("name", sorted(MUST_BE_ADVERTISED))
def test_every_version_is_answered(
    name: str, bootstrap: str, world: World, ranges: dict[int, tuple[int, int]]
) -> None:
    key = next(key for key, one in api_key_map.items() if one == name)
    lowest, highest = ranges[key]
    if name == "produce":
        lowest = 3  # 0 to 2 are advertised for old librdkafka's sake alone
    with RawClient(bootstrap) as raw:
        for version in range(lowest, highest + 1):
            values = REQUESTS.get(name, lambda world, version: {})(world, version)
            answer = raw.call(key, version, **values)
            if name in CHECKS:
                CHECKS[name](world, version, answer)


def test_what_else_is_advertised_is_known_and_answered(
    bootstrap: str, ranges: dict[int, tuple[int, int]]
) -> None:
    own = {key for key in ranges if key >= 21000}  # Moldau's, which no other client knows
    assert own == {21000, 21001}
    others = [key for key in ranges if key not in own and api_key_map[key] not in MUST_BE_ADVERTISED]
    for key in others:
        load_request_schema(key, ranges[key][1])


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(bootstrap: str) -> None:
    with RawClient(bootstrap) as raw:
        body = (99).to_bytes(2, "big")
        frame = API_VERSIONS.to_bytes(2, "big") + body + (7).to_bytes(4, "big") + b"\xff\xff\0"
        raw.send(len(frame).to_bytes(4, "big") + frame)
        answer = parse_response(raw.receive(), API_VERSIONS, 0, 7)
        assert int(answer.error_code) == 35
        ranges = {int(one.api_key): (one.min_version, one.max_version) for one in answer.api_keys}
        assert ranges[API_VERSIONS] == (0, 4)
        raw.call(API_VERSIONS, 0)


def test_java_accepts_the_broker_as_it_describes_itself(java: AgentClient) -> None:
    assert java.call("describe_features")


def test_answers_come_in_the_order_of_the_requests(bootstrap: str, world: World) -> None:
    with RawClient(bootstrap) as raw:
        slow = _fetch(world, 11) | {"max_wait": 300, "min_bytes": 1_000_000}
        raw.send(request_frame(1, 11, 1, slow) + request_frame(API_VERSIONS, 0, 2, {}))
        parse_response(raw.receive(), 1, 11, 1)
        parse_response(raw.receive(), API_VERSIONS, 0, 2)


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
