"""Every tool of Kafka's bin folder that Moldau serves, and its module; and the console tools of Confluent's.

The names are those of Kafka's scripts without `.sh`; both forms are understood, and `moldau kafka-home` lays
out both.
"""

from __future__ import annotations

from collections.abc import Sequence

_HERE = "moldau.tools.kafka.programs"

_CONSOLES = f"{_HERE}.schema_consoles"

TOOLS: dict[str, str] = {
    "connect-distributed": f"{_HERE}.connect_workers:distributed",
    "connect-standalone": f"{_HERE}.connect_workers:standalone",
    "kafka-acls": f"{_HERE}.acls",
    "kafka-avro-console-consumer": f"{_CONSOLES}:avro_consumer",
    "kafka-avro-console-producer": f"{_CONSOLES}:avro_producer",
    "kafka-broker-api-versions": f"{_HERE}.broker_api_versions",
    "kafka-cluster": f"{_HERE}.cluster",
    "kafka-configs": f"{_HERE}.configs",
    "kafka-console-consumer": f"{_HERE}.console_consumer",
    "kafka-console-producer": f"{_HERE}.console_producer",
    "kafka-consumer-groups": f"{_HERE}.consumer_groups",
    "kafka-consumer-perf-test": f"{_HERE}.consumer_perf_test",
    "kafka-delegation-tokens": f"{_HERE}.delegation_tokens",
    "kafka-delete-records": f"{_HERE}.delete_records",
    "kafka-dump-log": f"{_HERE}.dump_log",
    "kafka-e2e-latency": f"{_HERE}.e2e_latency",
    "kafka-features": f"{_HERE}.features",
    "kafka-get-offsets": f"{_HERE}.get_offsets",
    "kafka-groups": f"{_HERE}.groups",
    "kafka-json-schema-console-consumer": f"{_CONSOLES}:json_schema_consumer",
    "kafka-json-schema-console-producer": f"{_CONSOLES}:json_schema_producer",
    "kafka-leader-election": f"{_HERE}.leader_election",
    "kafka-log-dirs": f"{_HERE}.log_dirs",
    "kafka-metadata-quorum": f"{_HERE}.metadata_quorum",
    "kafka-producer-perf-test": f"{_HERE}.producer_perf_test",
    "kafka-protobuf-console-consumer": f"{_CONSOLES}:protobuf_consumer",
    "kafka-protobuf-console-producer": f"{_CONSOLES}:protobuf_producer",
    "kafka-reassign-partitions": f"{_HERE}.reassign_partitions",
    "kafka-server-start": f"{_HERE}.server_start",
    "kafka-server-stop": f"{_HERE}.server_stop",
    "kafka-share-groups": f"{_HERE}.share_groups",
    "kafka-storage": f"{_HERE}.storage",
    "kafka-topics": f"{_HERE}.topics",
    "kafka-transactions": f"{_HERE}.transactions",
    "kafka-verifiable-consumer": f"{_HERE}.verifiable_consumer",
    "kafka-verifiable-producer": f"{_HERE}.verifiable_producer",
    "zookeeper-server-start": f"{_HERE}.zookeeper_server_start",
    "zookeeper-server-stop": f"{_HERE}.zookeeper_server_stop",
    "zookeeper-shell": f"{_HERE}.zookeeper_shell",
}
"""Name -> module, and its function if that is not `main`."""

_NO_CLASSES = "there are no Java classes here: the tools have names of their own, such as kafka-topics"
_NO_MIRROR = "mirroring is not there yet: run Kafka's own connect-mirror-maker against both clusters"
RETIRED: dict[str, str] = {
    "connect-mirror-maker": _NO_MIRROR,
    "kafka-consumer-offset-checker": "use: kafka-consumer-groups --bootstrap-server HOST:PORT --describe "
    "--group GROUP",
    "kafka-mirror-maker": _NO_MIRROR,
    "kafka-preferred-replica-election": "use: kafka-leader-election --bootstrap-server HOST:PORT "
    "--election-type preferred --all-topic-partitions",
    "kafka-replay-log-producer": "use: kafka-console-consumer --topic A ... | "
    "kafka-console-producer --topic B ...",
    "kafka-replica-verification": "use: kafka-topics --bootstrap-server HOST:PORT --describe "
    "--under-replicated-partitions",
    "kafka-run-class": _NO_CLASSES,
    "kafka-simple-consumer-shell": "use: kafka-console-consumer --bootstrap-server HOST:PORT --topic TOPIC "
    "--partition P --offset N",
    "kafka-streams-application-reset": "use: kafka-consumer-groups --bootstrap-server HOST:PORT "
    "--group APPLICATION --reset-offsets --to-earliest --all-topics --execute",
    "zookeeper-security-migration": "not there: brokers make ZooKeeper's nodes, and see to their rights",
}
"""Tools of Kafka's that it has retired, or that are not served: what to type instead."""
CLASSES: dict[str, str] = {
    "ConsoleConsumer": "kafka-console-consumer",
    "ConsoleProducer": "kafka-console-producer",
    "ConfigCommand": "kafka-configs",
    "ConsumerGroupCommand": "kafka-consumer-groups",
    "ConsumerOffsetChecker": "kafka-consumer-groups --describe --group GROUP",
    "ConsumerPerformance": "kafka-consumer-perf-test",
    "DumpLogSegments": "kafka-dump-log",
    "EndToEndLatency": "kafka-e2e-latency",
    "GetOffsetShell": "kafka-get-offsets",
    "Kafka": "kafka-server-start",
    "ProducerPerformance": "kafka-producer-perf-test",
    "ShareGroupCommand": "kafka-share-groups",
    "StorageTool": "kafka-storage",
    "TopicCommand": "kafka-topics",
}
"""What `kafka-run-class` is mostly called with, by the last part of the class's name."""


def instead(name: str, words: Sequence[str]) -> str | None:
    """What to type instead of a tool that Kafka has retired, or that is not served."""
    if bare(name) == "kafka-run-class" and words:
        tool = CLASSES.get(words[0].rpartition(".")[2])
        if tool is not None:
            return f"use: {' '.join([tool, *words[1:]])}"
    return RETIRED.get(bare(name))


def bare(name: str) -> str:
    """Return the name of a tool from the path that it was called by."""
    return name.rpartition("/")[2].removesuffix(".sh")
