"""Every API in every version that ApiVersions advertises, asked over a socket; `kio` judges the answers.

Each API has one request, written for its newest version; older ones leave out what they lack. Where the
answer is determined by what the fixture made, it is compared; everywhere the connection must live and no
bytes be left over.
"""

from __future__ import annotations

import pytest
from client_agents import AgentClient
from every_version_requests import CHECKS, REQUESTS, World, world
from kio.index import load_request_schema
from kio.schema.index import api_key_map
from raw_client import API_VERSIONS, RawClient, parse_response, request_frame

__all__ = ["world"]


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
        slow = REQUESTS["fetch"](world, 11) | {"max_wait": 300, "min_bytes": 1_000_000}
        raw.send(request_frame(1, 11, 1, slow) + request_frame(API_VERSIONS, 0, 2, {}))
        parse_response(raw.receive(), 1, 11, 1)
        parse_response(raw.receive(), API_VERSIONS, 0, 2)
