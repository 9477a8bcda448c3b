"""kafka-broker-api-versions: each broker's APIs with their versions, and the one that would be used."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.client.admin.routing import ask_any, ask_broker, metadata
from moldau.common.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest
from moldau.common.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.tools.kafka.api_names import API_NAMES
from moldau.tools.kafka.lines.options import Option, Parser
from moldau.tools.kafka.queries.reaching import COMMAND_CONFIG, cluster

PARSER = Parser(
    "kafka-broker-api-versions",
    "Shows which APIs brokers have, and in which versions.",
    [
        Option("bootstrap-server", "server(s) to use for bootstrapping", "A broker.", required=True),
        COMMAND_CONFIG,
    ],
)


def main(words: Sequence[str]) -> int:
    """Print a block for each broker. Returns the exit code."""
    given = PARSER.parse(words)
    PARSER.require_all(given)
    with cluster(given) as one:
        described = ask_any(one, DescribeClusterRequest())
        metadata(one, [])
        software = ApiVersionsRequest(client_software_name="moldau", client_software_version="tool")
        for broker in sorted(described.brokers, key=lambda each: each.broker_id):
            answer = ask_broker(one, broker.broker_id, software)
            rack = broker.rack or "null"
            fenced = "true" if broker.is_fenced else "false"
            print(
                f"{broker.host}:{broker.port} (id: {broker.broker_id} rack: {rack} isFenced: {fenced}) -> ("
            )
            rows = sorted(answer.api_keys, key=lambda each: each.api_key)
            print(",\n".join(_line(each) for each in _with_the_missing(rows)))
            print(")")
    return 0


def _with_the_missing(rows: Sequence[ApiVersion]) -> list[tuple[int, int, int] | int]:
    present = {each.api_key for each in rows}
    lines: list[tuple[int, int, int] | int] = [
        (each.api_key, each.min_version, each.max_version) for each in rows
    ]
    lines += [key for key in sorted(API_NAMES) if key not in present]
    return sorted(lines, key=lambda each: each if isinstance(each, int) else each[0])


def _line(api: tuple[int, int, int] | int) -> str:
    if isinstance(api, int):
        return f"\t{API_NAMES[api][0]}({api}): UNSUPPORTED"
    key, low, high = api
    if key not in API_NAMES:
        return f"\tUNKNOWN({key}): {_range(low, high)}"
    name, ours_low, ours_high = API_NAMES[key]
    usable = f"{min(high, ours_high)}" if min(high, ours_high) >= max(low, ours_low) else "UNSUPPORTED"
    return f"\t{name}({key}): {_range(low, high)} [usable: {usable}]"


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"
