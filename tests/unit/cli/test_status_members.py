"""The table of brokers in `moldau status`: what the metadata says, and what the health page adds."""

from types import SimpleNamespace

import pytest

from moldau.tools.commands.status.command import Cluster, same_clusters_health
from moldau.tools.commands.status.members import count_share, members, show_members


def cluster() -> Cluster:
    found = Cluster(
        brokers=[
            {"id": node_id, "address": f"host:909{node_id}", "rack": None, "controller": node_id == 1}
            for node_id in (1, 3)
        ]
    )
    for leader, replicas in ((1, [1, 2, 3]), (1, [2, 1]), (-1, [2]), (3, [3, 1])):
        count_share(found, SimpleNamespace(leader=leader, replicas=replicas))
    return found


HEALTH = {
    "members": [
        {"id": 1, "rack": None, "state": "live", "since": None},
        {"id": 2, "rack": "b", "state": "gone", "since": "2026-11-22 18:00:00 UTC"},
        {"id": 3, "rack": None, "state": "shutting down", "since": "2026-11-22 18:01:00 UTC"},
    ],
    "metadata_store": {"name": "ZooKeeper at zoo:2181", "up": True, "since_seconds": 12.5, "latency_ms": 1.2},
    "reassigning_partitions": 4,
}


def test_a_broker_that_is_gone_is_in_the_table() -> None:
    rows = [(row["id"], row["state"], row["leaders"], row["replicas"]) for row in members(cluster(), HEALTH)]
    assert rows == [
        (1, "live", 2, 3),
        (2, "gone since 2026-11-22 18:00:00 UTC", 0, 3),
        (3, "shutting down since 2026-11-22 18:01:00 UTC", 1, 2),
    ]


def test_without_a_health_page_the_metadata_is_all_there_is() -> None:
    rows = [(row["id"], row["state"], row["leaders"]) for row in members(cluster(), None)]
    assert rows == [(1, "live", 2), (2, "gone", 0), (3, "live", 1)], "who has replicas is named"


def test_the_metadata_store_and_what_is_moved(capsys: pytest.CaptureFixture[str]) -> None:
    show_members(cluster(), HEALTH)
    told = capsys.readouterr().out
    assert "metadata store: ZooKeeper at zoo:2181, reached for 12.5 s, last answer in 1.2 ms" in told
    assert "4 partitions are being reassigned" in told
    away = {**HEALTH, "metadata_store": {"name": "ZooKeeper at zoo:2181", "up": False, "since_seconds": 70}}
    show_members(cluster(), away)
    assert "metadata store: ZooKeeper at zoo:2181, not reached for 70 s" in capsys.readouterr().out


def test_what_a_broker_of_another_cluster_says_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """`-b` names another machine's cluster, and the HTTP port is by default this machine's."""
    here = Cluster(cluster_id="here")
    theirs, ours, young = {"cluster_id": "elsewhere"}, {"cluster_id": "here"}, {"cluster_id": ""}
    assert same_clusters_health(theirs, here, "127.0.0.1:9640") is None
    assert (
        "127.0.0.1:9640/health says: its broker is of cluster elsewhere"
        in capsys.readouterr().err.replace("\n", " ")
    )
    for health in (ours, young, None):
        assert same_clusters_health(health, here, "127.0.0.1:9640") is health
    assert capsys.readouterr().err == ""
