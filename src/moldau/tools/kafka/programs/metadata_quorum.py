"""kafka-metadata-quorum describe --status | --replication: who keeps the cluster's metadata.

With Moldau that is the controller among the brokers; add-controller and remove-controller belong to Kafka's
own quorum, and are refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from moldau.client.admin.routing import ask_any
from moldau.common.core.ids import uuid_to_text
from moldau.common.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.common.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionRequest,
    TopicRequest,
)
from moldau.tools.kafka.java.properties import read_properties
from moldau.tools.kafka.lines.subcommands import Subcommands
from moldau.tools.kafka.lines.table import print_table
from moldau.tools.kafka.problems import ToolError
from moldau.tools.kafka.queries.reaching import reach
from moldau.tools.kafka.queries.refusals import raise_for

TOPIC = "__cluster_metadata"


def main(words: Sequence[str]) -> int:
    """Run one command. Returns the exit code."""
    given = _parser().parse_args(words)
    if given.command != "describe":
        raise ToolError(
            f"{given.command}: Moldau's brokers are its controllers; start or stop brokers instead "
            "(kafka-server-start, moldau brokers decommission)"
        )
    if given.status == given.replication:
        raise ToolError(
            "Only one of --status or --replication should be specified with describe sub-command"
            if given.status
            else "One of --status or --replication must be specified with describe sub-command"
        )
    if given.human_readable and not given.replication:
        raise ToolError("The option --human-readable is only supported along with --replication")
    settings = read_properties(given.command_config) if given.command_config else {}
    with reach(given.bootstrap_server or given.bootstrap_controller, settings) as cluster:
        request = DescribeQuorumRequest(
            topics=[TopicRequest(topic_name=TOPIC, partitions=[PartitionRequest(partition_index=0)])]
        )
        answer = ask_any(cluster, request)
        raise_for(answer.error_code, answer.error_message)
        found = answer.topics[0].partitions[0]
        raise_for(found.error_code, found.error_message)
        if given.status:
            cluster_id = ask_any(cluster, DescribeClusterRequest()).cluster_id
            _print_status(cluster_id, found, answer.nodes)
        else:
            _print_replication(found, given.human_readable)
    return 0


def _parser() -> Subcommands:
    parser = Subcommands(prog="kafka-metadata-quorum", description="Shows who keeps the cluster's metadata.")
    parser.add_argument("--command-config", help="A file of client settings.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--bootstrap-server", help="A broker, as HOST:PORT.")
    which.add_argument("--bootstrap-controller", help="A controller: with Moldau a broker, too.")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("describe", help="Describe the quorum.")
    one.add_argument("--status", action="store_true", help="A short summary.")
    one.add_argument("--replication", action="store_true", help="A row for each copy of the metadata.")
    one.add_argument("--human-readable", "-hr", action="store_true", help="Times as how long ago.")
    one = commands.add_parser("add-controller", help="Refused: Moldau's controllers are its brokers.")
    one.set_defaults(human_readable=False)
    one = commands.add_parser("remove-controller", help="Refused: Moldau's controllers are its brokers.")
    one.add_argument("--controller-id", "-i")
    one.add_argument("--controller-directory-id", "-d")
    return parser


def _print_status(cluster_id: str, found: Any, nodes: Sequence[Any]) -> None:
    leader = next((each for each in found.current_voters if each.replica_id == found.leader_id), None)
    others = [each for each in (*found.current_voters, *found.observers) if each is not leader]
    end = leader.log_end_offset if leader else 0
    slowest = min((each.log_end_offset for each in others), default=end)
    lag_ms = 0
    if leader is not None and others:
        last = min(each.last_caught_up_timestamp for each in others)
        lag_ms = -1 if last < 0 else max(0, leader.last_caught_up_timestamp - last)
    rows = {
        "ClusterId": cluster_id,
        "LeaderId": found.leader_id,
        "LeaderEpoch": found.leader_epoch,
        "HighWatermark": found.high_watermark,
        "MaxFollowerLag": end - slowest,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": _replicas(found.current_voters, nodes),
        "CurrentObservers": _replicas(found.observers, nodes),
    }
    for name, value in rows.items():
        print(f"{name + ':':<23} {value}")


def _replicas(replicas: Sequence[Any], nodes: Sequence[Any]) -> str:
    listeners = {node.node_id: node.listeners for node in nodes}
    parts = []
    for each in replicas:
        named = [f'"id": {each.replica_id}', f'"directoryId": "{uuid_to_text(each.replica_directory_id)}"']
        endpoints = [f"{one.name}://{one.host}:{one.port}" for one in listeners.get(each.replica_id, [])]
        if endpoints:
            named.append(f'"endpoints": {json.dumps(endpoints)}')
        parts.append(f"{{{', '.join(named)}}}")
    return f"[{', '.join(parts)}]"


def _print_replication(found: Any, human: bool) -> None:
    now_ms = time.time_ns() // 1_000_000
    leader = [each for each in found.current_voters if each.replica_id == found.leader_id]
    end = leader[0].log_end_offset if leader else 0

    def moment(value_ms: int) -> str:
        return f"{max(0, now_ms - value_ms)} ms ago" if human else str(value_ms)

    followers = [each for each in found.current_voters if each not in leader]
    rows = [
        (
            each.replica_id,
            uuid_to_text(each.replica_directory_id),
            each.log_end_offset,
            end - each.log_end_offset,
            moment(each.last_fetch_timestamp),
            moment(each.last_caught_up_timestamp),
            status,
        )
        for status, replicas in (("Leader", leader), ("Follower", followers), ("Observer", found.observers))
        for each in replicas
    ]
    headings = (
        "NodeId",
        "DirectoryId",
        "LogEndOffset",
        "Lag",
        "LastFetchTimestamp",
        "LastCaughtUpTimestamp",
        "Status",
    )
    print_table(headings, rows)
