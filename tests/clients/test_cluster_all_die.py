"""kill -9 of all brokers at once: those that come back serve what was acknowledged, without the others."""

from __future__ import annotations

import json
import shutil

import pytest
from conftest import KIND
from kazoo.client import KazooClient
from test_cluster_disasters import PATIENCE_SECONDS, eventually, moldau, read, write

from moldau.testing import Cluster

pytestmark = [
    pytest.mark.xdist_group("cluster"),
    pytest.mark.timeout(600),
    pytest.mark.skipif(KIND != "moldau", reason="starts a cluster of Moldau"),
]


def until_forgotten(cluster: Cluster) -> None:
    """Wait until all brokers' sessions have ended. Who starts before that, after a loss of power, leaves
    the in-sync sets of brokers that still count as alive, and has less to say later.
    """
    client = KazooClient(cluster.ensemble.connect_string, timeout=20)
    client.start(PATIENCE_SECONDS)
    try:
        eventually(lambda: not client.get_children("/brokers/ids"), "the brokers' sessions to end")
    finally:
        client.stop()
        client.close()


def test_two_of_three_serve_and_the_third_comes_back_with_an_empty_disk() -> None:
    with Cluster(3, {"default.replication.factor": "3", "min.insync.replicas": "2"}) as cluster:
        cluster.create_topic("orders")
        before = [str(number) for number in range(100)]
        write(cluster, "orders", before)
        gone = cluster.leader_of("orders")
        for node in cluster.node_ids:
            cluster.kill(node)
        shutil.rmtree(cluster.log_folder(gone))
        back = [node for node in cluster.node_ids if node != gone]
        for node in back:
            cluster.restart(node)
        # Until its session ends, the metadata has the third as the leader.
        eventually(lambda: cluster.leader_of("orders") in back, "one of the two to lead")
        write(cluster, "orders", ["later"])
        assert read(cluster, "orders", 101) == [*before, "later"]
        cluster.restart(gone)
        cluster.wait_until_in_sync(PATIENCE_SECONDS)
        for node in back:
            cluster.kill(node)
        eventually(lambda: cluster.leader_of("orders") == gone, "the third to lead")
        for node in back:
            cluster.restart(node)
        assert read(cluster, "orders", 101) == [*before, "later"]


def test_after_a_loss_of_power_the_longest_log_leads_or_an_unclean_election_says_so() -> None:
    """Another boot id in the marks is what a start of the machines looks like to the brokers."""
    with Cluster(3, {"default.replication.factor": "3", "min.insync.replicas": "2"}) as cluster:
        cluster.create_topic("orders")
        before = [str(number) for number in range(20)]
        write(cluster, "orders", before)
        for node in cluster.node_ids:
            cluster.kill(node)
        for node in cluster.node_ids:
            mark = cluster.log_folder(node) / ".moldau_running"
            told = json.loads(mark.read_bytes())
            mark.write_text(json.dumps({**told, "bootId": "another"}))
        until_forgotten(cluster)
        cluster.restart(1)
        cluster.restart(2)

        def waits() -> bool:
            return "the longest log leads once broker 3 is back" in moldau(cluster, "status").stdout

        eventually(waits, "the status to say for whom the partition waits")
        described = moldau(cluster, "topics", "describe", "orders", "--json").stdout
        (partition,) = json.loads(described)[0]["partitions"]
        assert partition["leader"] is None
        assert sorted(partition["last_known_elr"]) == [1, 2]
        assert partition["elr"] == [3]
        cluster.restart(3)
        assert cluster.leader_of("orders", timeout_seconds=PATIENCE_SECONDS) in cluster.node_ids
        cluster.wait_until_in_sync(PATIENCE_SECONDS)
        assert read(cluster, "orders", 20) == before
        for node in cluster.node_ids:
            cluster.kill(node)
        for node in cluster.node_ids:
            (cluster.log_folder(node) / ".moldau_running").unlink()
        shutil.rmtree(cluster.log_folder(3))
        until_forgotten(cluster)
        cluster.restart(1)
        cluster.restart(2)
        eventually(waits, "the status to say for whom the partition waits")
        done = moldau(cluster, "topics", "elect", "orders", "--partition", "0", "--type", "unclean", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        assert cluster.leader_of("orders", timeout_seconds=PATIENCE_SECONDS) in (1, 2)
        cluster.restart(3)
        assert moldau(cluster, "topics", "elect", "--type", "unclean", "--yes").returncode == 0  # all others
        cluster.wait_until_in_sync(PATIENCE_SECONDS)
        assert read(cluster, "orders", 20) == before


def test_a_wiped_broker_that_was_the_last_follows_as_soon_as_another_leads() -> None:
    with Cluster(2, {"default.replication.factor": "2", "min.insync.replicas": "1"}) as cluster:
        cluster.create_topic("orders")
        write(cluster, "orders", ["1", "2"])
        leader = cluster.leader_of("orders")
        other = next(node for node in cluster.node_ids if node != leader)
        cluster.stop(other)
        write(cluster, "orders", ["3"])  # the leader alone has it
        cluster.kill(leader)
        shutil.rmtree(cluster.log_folder(leader))
        cluster.restart(other)
        cluster.restart(leader)

        def told() -> bool:
            return "orders-0" in moldau(cluster, "status").stdout

        eventually(told, "the status to name the partition")
        done = moldau(cluster, "topics", "elect", "orders", "--partition", "0", "--type", "unclean", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        cluster.wait_until_in_sync(PATIENCE_SECONDS)
        write(cluster, "orders", ["4"])
        assert read(cluster, "orders", 3) == ["1", "2", "4"]
