"""Every tool of Kafka's bin folder that Moldau serves, and its module; and the console tools of Confluent's.

The names are those of Kafka's scripts without `.sh`; both forms are understood, and `moldau kafka-home` lays
out both.
"""

from __future__ import annotations

_HERE = "moldau.cli.kafka"

_CONSOLES = f"{_HERE}.schema_consoles"

TOOLS: dict[str, str] = {
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


def bare(name: str) -> str:
    """Return the name of a tool from the path that it was called by."""
    return name.rpartition("/")[2].removesuffix(".sh")
