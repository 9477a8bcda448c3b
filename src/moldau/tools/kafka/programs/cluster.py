"""kafka-cluster: cluster-id, list-endpoints, unregister."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.client.admin.routing import ask_any
from moldau.client.cluster import Cluster
from moldau.common.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.common.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.tools.kafka.java.properties import read_properties
from moldau.tools.kafka.lines.subcommands import Subcommands, whole
from moldau.tools.kafka.problems import FAILED, Ended
from moldau.tools.kafka.queries.reaching import reach
from moldau.tools.kafka.queries.refusals import raise_for

CONTROLLERS = 2
_WIDTHS = (10, 0, 10, 10, 10, 15)


def main(words: Sequence[str]) -> int:
    """Run one command. Returns the exit code."""
    parser = _parser()
    try:
        given = parser.parse_args(words)
    except Ended as help_:
        raise Ended(str(help_), FAILED, on_stdout=True) from None  # Kafka's ends so
    file = given.command_config or given.config
    servers = given.bootstrap_server or given.bootstrap_controller
    with reach(servers, read_properties(file) if file else {}) as cluster:
        COMMANDS[given.command](cluster, given)
    return 0


def _parser() -> Subcommands:
    parser = Subcommands(
        prog="kafka-cluster", description="Shows a cluster's id and brokers; unregisters one."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    rows = {
        "cluster-id": "Print the id of the cluster.",
        "unregister": "Unregister a broker that is gone for good.",
        "list-endpoints": "List the brokers with their addresses.",
    }
    for name, text in rows.items():
        one = commands.add_parser(name, help=text)
        which = one.add_mutually_exclusive_group(required=True)
        which.add_argument("--bootstrap-server", "-b", help="A broker, as HOST:PORT.")
        which.add_argument("--bootstrap-controller", "-C", help="A controller: with Moldau a broker, too.")
        one.add_argument("--config", help="The old name of --command-config.")
        one.add_argument("--command-config", "-c", help="A file of client settings.")
        if name == "unregister":
            one.add_argument("--id", "-i", type=whole(32), required=True, help="The broker's number.")
        if name == "list-endpoints":
            one.add_argument(
                "--include-fenced-brokers", action="store_true", help="Also those out of service."
            )
    return parser


def _cluster_id(cluster: Cluster, given: Any) -> None:
    answer = ask_any(cluster, DescribeClusterRequest())
    raise_for(answer.error_code, answer.error_message)
    print(f"Cluster ID: {answer.cluster_id}")


def _unregister(cluster: Cluster, given: Any) -> None:
    answer = ask_any(cluster, UnregisterBrokerRequest(broker_id=given.id))
    raise_for(answer.error_code, answer.error_message)
    print(f"Broker {given.id} is no longer registered.")


def _list_endpoints(cluster: Cluster, given: Any) -> None:
    fenced = given.include_fenced_brokers
    kind = CONTROLLERS if given.bootstrap_controller else 1
    answer = ask_any(cluster, DescribeClusterRequest(include_fenced_brokers=fenced, endpoint_type=kind))
    raise_for(answer.error_code, answer.error_message)
    width = max([len(each.host) for each in answer.brokers], default=0)
    widths = (10, max(width, 9), 10, 10, 10, 15)
    rows = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    rows += [
        (
            str(each.broker_id),
            each.host,
            str(each.port),
            each.rack or "null",
            "fenced" if each.is_fenced else "unfenced",
            "broker",
        )
        for each in sorted(answer.brokers, key=lambda one: one.broker_id)
    ]
    for row in rows:
        print(" ".join(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True)))


COMMANDS = {"cluster-id": _cluster_id, "unregister": _unregister, "list-endpoints": _list_endpoints}
