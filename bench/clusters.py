"""Clusters on this machine, Moldau's and Apache Kafka's, behind the same verbs.

Moldau: `moldau.testing.Cluster`, with the settings that `moldau cluster` ships, and one ZooKeeper that syncs
what it acknowledges, as KRaft does. Apache Kafka: KRaft nodes, broker and controller in one process each, its
defaults but for the replicas of topics (three, two in sync), which are the same for both.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench import apache_kafka
from bench.brokers import ApacheKafka
from bench.proc import cpu_time
from moldau.ensemble import Ensemble
from moldau.testing import Cluster

COUNT = 3
WAIT_S = 120.0
REPLICATED: Mapping[str, str] = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class KafkaNode(ApacheKafka):
    """One node of a static KRaft quorum."""

    def command(self) -> list[str]:
        properties = apache_kafka.write_properties(
            self.data_dir, self.port, self.controller_port, self.settings
        )
        # With voters in the settings there is nothing to bootstrap.
        text = properties.read_text().splitlines(keepends=True)
        properties.write_text("".join(line for line in text if "quorum.bootstrap" not in line))
        if not (self.log_dir() / "meta.properties").exists():
            apache_kafka.format_storage(properties, standalone=False)
        return apache_kafka.server_command(properties)


class MoldauCluster(Cluster):
    """`moldau.testing.Cluster`, and what a measurement must know of its processes."""

    @property
    def ensemble(self) -> Ensemble:
        """One ZooKeeper, whose log is on the disk before it answers."""
        if self._ensemble is None:
            self._ensemble = Ensemble(self._folder(), 1, syncs=True)
        return self._ensemble

    def address(self, node_id: int) -> str:
        """Where clients find this broker."""
        return self.brokers[node_id].bootstrap_servers

    def pid(self, node_id: int) -> int:
        return self.brokers[node_id].pid

    def other_pids(self) -> list[int]:
        """The processes that the cluster needs beside its brokers."""
        return [pid for server in self.ensemble.servers if (pid := server.pid) is not None]


class KafkaCluster:
    """KRaft nodes with the verbs of `MoldauCluster`."""

    def __init__(
        self, settings: Mapping[str, str] | None = None, *, data: Path, brokers: int = COUNT
    ) -> None:
        self.data = data
        self.node_ids = list(range(1, brokers + 1))
        self._nodes = {node: KafkaNode(data / f"node-{node}") for node in self.node_ids}
        voters = ",".join(f"{node}@127.0.0.1:{each.controller_port}" for node, each in self._nodes.items())
        for node, each in self._nodes.items():
            own = {"node.id": str(node), "controller.quorum.voters": voters}
            each.settings = {**REPLICATED, **(settings or {}), **own}
        self._admin: AdminClient | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, of dead ones too."""
        return ",".join(each.address for each in self._nodes.values())

    def address(self, node_id: int) -> str:
        return self._nodes[node_id].address

    def pid(self, node_id: int) -> int:
        return self._nodes[node_id].pid

    def other_pids(self) -> list[int]:
        """The controllers are in the brokers' processes."""
        return []

    def log(self, node_id: int) -> Path:
        return self._nodes[node_id].output

    def log_folder(self, node_id: int) -> Path:
        return self._nodes[node_id].log_dir()

    def start(self) -> KafkaCluster:
        """Start all nodes; return once all are registered."""
        try:
            for each in self._nodes.values():  # a node alone is no quorum, and does not get ready
                each.spawn()
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda each: each.wait_until_ready(), self._nodes.values()))
            self.wait_until_in_sync()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, node_id: int | None = None) -> None:
        """Stop one node by SIGTERM, or kill all."""
        if node_id is not None:
            self._nodes[node_id].stop(timeout_s=WAIT_S)
            return
        for each in self._nodes.values():
            each.kill()

    def kill(self, node_id: int) -> None:
        self._nodes[node_id].kill()

    def pause(self, node_id: int) -> None:
        os.kill(self._nodes[node_id].pid, signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        os.kill(self._nodes[node_id].pid, signal.SIGCONT)

    def restart(self, node_id: int) -> None:
        self._nodes[node_id].stop(timeout_s=WAIT_S)
        self._nodes[node_id].start()

    def admin(self) -> AdminClient:
        if self._admin is None:
            settings: dict[str, Any] = {
                "bootstrap.servers": self.bootstrap_servers,
                "log_level": 0,
                "socket.timeout.ms": 3000,
            }
            self._admin = AdminClient(settings)
        return self._admin

    def create_topic(self, name: str, partitions: int = 1, replication_factor: int = -1) -> None:
        self.admin().create_topics([NewTopic(name, partitions, replication_factor)])[name].result(60)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        def leader() -> int:
            found = self.admin().list_topics(topic, timeout=10).topics[topic].partitions
            return found[partition].leader if partition in found else -1

        return _wait_for(leader)

    def controller(self) -> int:
        """The active controller, as Kafka's own tool tells it: Metadata names any broker."""
        arguments = ["--bootstrap-server", self.bootstrap_servers, "describe", "--status"]
        command = apache_kafka.java_command("org.apache.kafka.tools.MetadataQuorumCommand", arguments)
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return int(next(line for line in text.splitlines() if line.startswith("LeaderId:")).split()[1])

    def wait_until_in_sync(self) -> None:
        def whole() -> bool:
            found = self.admin().list_topics(timeout=10)
            return len(found.brokers) == len(self.node_ids) and all(
                len(each.isrs) == len(each.replicas)
                for topic in found.topics.values()
                for each in topic.partitions.values()
            )

        _wait_for(whole)

    def __enter__(self) -> KafkaCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _wait_for(probe: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_S
    while True:
        with contextlib.suppress(KafkaException):
            answer = probe()
            if answer and answer != -1:
                return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {WAIT_S:.0f} s")
        time.sleep(0.05)


def moldau_cluster(settings: Mapping[str, str], data: Path, brokers: int = COUNT) -> MoldauCluster:
    return MoldauCluster(brokers, settings, data=data)


def kafka_cluster(settings: Mapping[str, str], data: Path, brokers: int = COUNT) -> KafkaCluster:
    return KafkaCluster(settings, data=data, brokers=brokers)


CLUSTERS: Mapping[str, Callable[..., Any]] = {"moldau": moldau_cluster, "kafka": kafka_cluster}


@contextlib.contextmanager
def running(
    kind: str, settings: Mapping[str, str] | None = None, brokers: int = COUNT, *, many_files: bool = False
) -> Iterator[Any]:
    """A started cluster in a folder of its own; at the end its processes are killed and the folder goes.

    With `many_files` the folder stays until this program ends: ext4 passes over inodes deleted in the last
    minute one by one, so that a run that makes thousands of files just after others were removed measures
    that (1,000 partitions took 0.5, 1.5 and 2.4 s in three runs, the difference in `recently_deleted`).
    """
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{kind}-", dir=os.environ.get("TMPDIR")))
    try:
        with CLUSTERS[kind](settings or {}, folder, brokers) as cluster:
            try:
                yield cluster
            finally:
                for node in cluster.node_ids:
                    with contextlib.suppress(Exception):  # it has ended before
                        cluster.kill(node)
    finally:
        if many_files:
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def create_topic(cluster: Any, name: str, replicas: Sequence[Sequence[int]], **config: str) -> None:
    """Make a topic whose partitions have these replicas, the leader first, and wait until all lead."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    assignment = [list(each) for each in replicas]
    topic = NewTopic(name, len(replicas), replica_assignment=assignment, config=settings)
    # That of the cluster gives a broker up after three seconds.
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([topic], request_timeout=WAIT_S)[name].result(WAIT_S)

    def led() -> bool:
        found = admin.list_topics(name, timeout=10).topics[name].partitions
        return len(found) == len(replicas) and all(
            each.leader == replicas[index][0] and len(each.isrs) == len(replicas[index])
            for index, each in found.items()
        )

    _wait_for(led)


def brokers_cpu_s(cluster: Any) -> float:
    """CPU seconds of all brokers so far, and of what they need beside them (ZooKeeper)."""
    pids = [cluster.pid(node) for node in cluster.node_ids] + cluster.other_pids()
    return sum(cpu_time(pid).total_s for pid in pids)


def port_of(cluster: Any, node_id: int) -> int:
    return int(cluster.address(node_id).rpartition(":")[2])
