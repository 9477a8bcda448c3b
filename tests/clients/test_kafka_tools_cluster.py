"""Kafka's own command-line tools on a cluster of three, of which one broker is away for a while.

Reassigning, electing and describing as operators' scripts do it; each tool is a JVM of its own. The tools
that a single broker is enough for are in test_kafka_tools.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from client_model import eventually
from conftest import KIND
from test_kafka_tools import TOOLS, tool

from bench import apache_kafka
from moldau.broker.metadata import levels
from moldau.testing import Cluster

reason = apache_kafka.available()
pytestmark = [
    pytest.mark.xdist_group("cluster"),
    pytest.mark.timeout(600),
    pytest.mark.skipif(reason is not None, reason=str(reason)),
    pytest.mark.skipif(KIND != "moldau", reason="starts a cluster of Moldau"),
]
TOPIC = "tools"
RECOVERED_WITHIN_S = 60.0
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as one:
        one.create_topic(TOPIC, partitions=3)
        yield one


@pytest.fixture
def run(cluster: Cluster) -> Tool:
    return lambda name, *arguments: tool(name, "--bootstrap-server", cluster.bootstrap_servers, *arguments)


def replicas(described: str) -> dict[int, tuple[int, list[int], set[int]]]:
    """Leader, replicas and in-sync replicas of each partition, as kafka-topics prints them."""
    row = re.compile(r"Partition: (\d+)\s+Leader: (\d+)\s+Replicas: ([\d,]+)\s+Isr: ([\d,]+)")
    return {
        int(number): (int(leader), [*map(int, all_of_them.split(","))], {*map(int, in_sync.split(","))})
        for number, leader, all_of_them, in_sync in row.findall(described)
    }


def test_a_broker_is_away_and_comes_back(cluster: Cluster, run: Tool) -> None:
    topics = f"{TOOLS}.TopicCommand"
    cluster.kill(3)

    def lacks_one() -> bool:
        said = run(topics, "--describe", "--under-replicated-partitions", "--topic", TOPIC)
        return [in_sync for _, _, in_sync in replicas(said).values()] == [{1, 2}] * 3

    eventually(lacks_one, RECOVERED_WITHIN_S)
    cluster.restart(3)
    cluster.wait_until_in_sync()
    assert replicas(run(topics, "--describe", "--under-replicated-partitions")) == {}
    run(f"{TOOLS}.LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")

    def each_led_by_its_first() -> bool:
        rows = replicas(run(topics, "--describe", "--topic", TOPIC))
        whole = [leader == order[0] and in_sync == {1, 2, 3} for leader, order, in_sync in rows.values()]
        return whole == [True] * 3

    eventually(each_led_by_its_first, RECOVERED_WITHIN_S)


def test_partitions_get_other_replicas(cluster: Cluster, run: Tool, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    wanted = [{"topic": TOPIC, "partition": 0, "replicas": [2, 3]}]
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    execute = ["--reassignment-json-file", str(plan), "--execute", "--throttle", "50000000"]
    assert f"Successfully started partition reassignment for {TOPIC}-0" in run(REASSIGN, *execute)

    def completed() -> bool:
        said = run(REASSIGN, "--reassignment-json-file", str(plan), "--verify")
        return f"Reassignment of partition {TOPIC}-0 is completed." in said

    eventually(completed, RECOVERED_WITHIN_S)
    said = run(REASSIGN, "--list")
    assert "No partition reassignments found." in said
    described = run(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", TOPIC)
    brokers = json.loads(next(line for line in described.splitlines() if line.startswith("{")))["brokers"]
    places = {
        each["broker"]: {one["partition"] for folder in each["logDirs"] for one in folder["partitions"]}
        for each in brokers
    }
    assert places == {
        node: {f"{TOPIC}-{number}" for number in range(3) if node in (2, 3) or number} for node in (1, 2, 3)
    }


def test_brokers_and_the_metadata_level_are_described(cluster: Cluster, run: Tool) -> None:
    said = run(f"{TOOLS}.BrokerApiVersionsCommand")
    assert len(re.findall(r"^\S+:\d+ \(id: [123] rack: null isFenced: false\)", said, re.MULTILINE)) == 3, (
        said
    )
    said = run(f"{TOOLS}.FeatureCommand", "describe")
    assert re.search(rf"{re.escape(levels.FEATURE)}\s.*FinalizedVersionLevel: {levels.LEVEL_MAX}\s", said)
    upgrade = ["upgrade", "--feature", f"{levels.FEATURE}={levels.LEVEL_MAX + 1}"]
    refused = tool(
        f"{TOOLS}.FeatureCommand", "--bootstrap-server", cluster.bootstrap_servers, *upgrade, ok=False
    )
    assert f"only supports versions {levels.LEVEL_MIN}-{levels.LEVEL_MAX}" in refused, refused
