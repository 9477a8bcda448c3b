"""Kafka's own command-line tools, unmodified, against the broker: what operators have in their scripts.

Each is a JVM of its own (one to two seconds), so each is run once with what it is mostly run for. Needs
Apache Kafka's jars from Maven Central, and therefore Java and Maven.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from client_confluent import ConfluentClient, create_topic
from client_model import Message, eventually

from bench import apache_kafka

TOOLS = "org.apache.kafka.tools"
reason = apache_kafka.available()
pytestmark = pytest.mark.skipif(reason is not None, reason=str(reason))


@pytest.fixture(scope="module")
def made(bootstrap: str) -> str:
    """A topic of two partitions, ten records in the first, read by a group of the same name."""
    topic = f"tools-{os.urandom(4).hex()}"
    create_topic(bootstrap, topic, 2)
    client = ConfluentClient(bootstrap)
    client.produce(topic, [Message(b"k", str(i).encode(), partition=0) for i in range(10)])
    member = client.open_member(topic, [topic])
    read: list[object] = []
    eventually(lambda: read.extend(member.take()) or len(read) == 10)
    member.close()
    return topic


def tool(name: str, *arguments: str, stdin: str = "", ok: bool = True) -> str:
    """Run a tool and give what it printed on both streams."""
    flags = ["-Xmx128M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command = apache_kafka.java_command(name, list(arguments), flags)
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert not ok or done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_topics(bootstrap: str, made: str) -> None:
    said = tool(f"{TOOLS}.TopicCommand", "--bootstrap-server", bootstrap, "--describe", "--topic", made)
    assert re.search(rf"Topic: {made}\s+TopicId: \S+\s+PartitionCount: 2\s+ReplicationFactor: 1", said)
    assert re.search(r"Partition: 1\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+", said)


def test_console_producer_and_consumer(bootstrap: str, made: str) -> None:
    topic = f"console-{made}"
    name = f"{TOOLS}.ConsoleProducer"
    options = ["--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", "zstd"]
    tool(
        name,
        *options,
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "key.separator=:",
        stdin="a:1\nb:2\n",
    )
    options = ["--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning", "--max-messages", "2"]
    shown = ["--formatter-property", "print.key=true", "--timeout-ms", "20000"]
    said = tool(f"{TOOLS}.consumer.ConsoleConsumer", *options, *shown)
    assert "a\t1\nb\t2\n" in said


def test_consumer_groups(bootstrap: str, made: str) -> None:
    name = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
    said = tool(name, "--bootstrap-server", bootstrap, "--describe", "--group", made)
    assert re.search(rf"{made}\s+{made}\s+0\s+10\s+10\s+0\s", said), said
    reset = ["--reset-offsets", "--group", made, "--topic", made, "--to-offset", "4", "--execute"]
    said = tool(name, "--bootstrap-server", bootstrap, *reset)
    assert re.search(rf"{made}\s+0\s+4\s", said), said
    said = tool(name, "--bootstrap-server", bootstrap, "--describe", "--group", made, "--state")
    assert "Empty" in said


def test_groups(bootstrap: str, made: str) -> None:
    said = tool(f"{TOOLS}.GroupsCommand", "--bootstrap-server", bootstrap, "--list")
    assert re.search(rf"{made}\s+Classic\s+consumer", said), said


def test_configs(bootstrap: str, made: str) -> None:
    name, where = "kafka.admin.ConfigCommand", ["--bootstrap-server", bootstrap, "--entity-type", "topics"]
    tool(
        name,
        *where,
        "--entity-name",
        made,
        "--alter",
        "--add-config",
        "retention.ms=3600000,cleanup.policy=[compact,delete]",
    )
    said = tool(name, *where, "--entity-name", made, "--describe")
    assert "retention.ms=3600000" in said
    assert "cleanup.policy=compact,delete" in said


def test_offsets(bootstrap: str, made: str) -> None:
    said = tool(f"{TOOLS}.GetOffsetShell", "--bootstrap-server", bootstrap, "--topic", made)
    assert f"{made}:0:10\n{made}:1:0\n" in said


def test_log_dirs(bootstrap: str, made: str) -> None:
    said = tool(
        f"{TOOLS}.LogDirsCommand", "--bootstrap-server", bootstrap, "--describe", "--topic-list", made
    )
    line = next(one for one in said.splitlines() if one.startswith("{"))
    (broker,) = json.loads(line)["brokers"]
    sizes = {one["partition"]: one["size"] for folder in broker["logDirs"] for one in folder["partitions"]}
    assert sizes[f"{made}-0"] > 0
    assert sizes[f"{made}-1"] == 0


def test_deleted_records(bootstrap: str, made: str, tmp_path: Path) -> None:
    topic = f"deleted-{made}"
    create_topic(bootstrap, topic)
    ConfluentClient(bootstrap).produce(topic, [Message(b"k", b"v")] * 5)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 3}]}))
    name = f"{TOOLS}.DeleteRecordsCommand"
    said = tool(name, "--bootstrap-server", bootstrap, "--offset-json-file", str(plan))
    assert f"partition: {topic}-0\tlow_watermark: 3" in said


def test_api_versions(bootstrap: str) -> None:
    said = tool(f"{TOOLS}.BrokerApiVersionsCommand", "--bootstrap-server", bootstrap)
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 18\]", said), said[:500]
    assert re.search(r"ConsumerGroupHeartbeat\(68\): 0 to 1 \[usable: 1\]", said)


def test_metadata_quorum(bootstrap: str) -> None:
    where = ["--bootstrap-server", bootstrap, "describe"]
    said = tool(f"{TOOLS}.MetadataQuorumCommand", *where, "--status")
    assert re.search(r"^LeaderId: +\d+$", said, re.MULTILINE), said
    assert re.search(r"^LeaderEpoch: +[1-9]\d*$", said, re.MULTILINE), said
    assert re.search(
        r'^CurrentVoters: +\[\{"id": \d+, "directoryId": ".{22}", "endpoints"', said, re.MULTILINE
    )
    rows = tool(f"{TOOLS}.MetadataQuorumCommand", *where, "--replication").splitlines()
    assert rows[1].split("\t")[-2].strip() == "Leader", rows


def test_features(bootstrap: str) -> None:
    where = ["--bootstrap-server", bootstrap]
    said = tool(f"{TOOLS}.FeatureCommand", *where, "describe")
    assert re.search(r"transaction\.version\s.*FinalizedVersionLevel: 2", said), said
    assert "was upgraded to 1" in tool(
        f"{TOOLS}.FeatureCommand", *where, "upgrade", "--feature", "group.version=1"
    )
    lower = ["downgrade", "--feature", "group.version=9", "--dry-run"]
    assert "only supports versions 0-1" in tool(f"{TOOLS}.FeatureCommand", *where, *lower, ok=False)


def test_access_rules_and_quotas_that_there_are_not(bootstrap: str) -> None:
    where = ["--bootstrap-server", bootstrap]
    said = tool(f"{TOOLS}.AclCommand", *where, "--list", ok=False)
    assert "SecurityDisabledException: No Authorizer is configured on the broker" in said
    assert tool("kafka.admin.ConfigCommand", *where, "--entity-type", "users", "--describe") == ""


def test_leader_election(bootstrap: str, made: str) -> None:
    where = [
        "--bootstrap-server",
        bootstrap,
        "--election-type",
        "preferred",
        "--topic",
        made,
        "--partition",
        "0",
    ]
    said = tool(f"{TOOLS}.LeaderElectionCommand", *where)
    assert "Valid replica already elected" in said


def test_performance_tools(bootstrap: str, made: str) -> None:
    topic = f"performance-{made}"
    create_topic(bootstrap, topic)
    produce = ["--topic", topic, "--num-records", "20000", "--record-size", "200", "--throughput", "-1"]
    said = tool(
        f"{TOOLS}.ProducerPerformance", *produce, "--command-property", f"bootstrap.servers={bootstrap}"
    )
    assert "20000 records sent" in said
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", "20000"]
    said = tool(f"{TOOLS}.ConsumerPerformance", *where)
    assert ", 20000, " in said


def test_share_groups(bootstrap: str, made: str) -> None:
    group = f"share-{made}"
    configs = ["--bootstrap-server", bootstrap, "--entity-type", "groups", "--entity-name", group]
    tool("kafka.admin.ConfigCommand", *configs, "--alter", "--add-config", "share.auto.offset.reset=earliest")
    consumer = ["--bootstrap-server", bootstrap, "--topic", made, "--group", group]
    said = tool(
        f"{TOOLS}.consumer.ConsoleShareConsumer", *consumer, "--max-messages", "10", "--timeout-ms", "30000"
    )
    assert sorted(re.findall(r"^\d+$", said, re.MULTILINE)) == [str(each) for each in range(10)]
    groups, where = f"{TOOLS}.consumer.group.ShareGroupCommand", ["--bootstrap-server", bootstrap]
    said = tool(groups, *where, "--list", "--state")
    assert re.search(rf"{group}\s+Empty", said), said
    said = tool(groups, *where, "--describe", "--group", group)
    assert re.search(rf"{group}\s+{made}\s+0\s+10\s+0", said), said
    reset = ["--reset-offsets", "--group", group, "--topic", made, "--to-earliest", "--execute"]
    said = tool(groups, *where, *reset)
    assert re.search(rf"{made}\s+0\s+0", said), said
    said = tool(groups, *where, "--delete", "--group", group)
    assert "successful" in said, said
