"""What a cluster on this machine consists of, and how it may change."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from moldau.common.settings.sources import from_texts
from moldau.testing.cluster_settings import cluster_settings
from moldau.tools.cluster import plan as plans
from moldau.tools.cluster.picture import Picture, Seen
from moldau.tools.cluster.plan import Plan
from moldau.tools.cluster.servers import BrokerServer, EnsembleServer
from moldau.tools.cluster.starting import _require_empty, check_change
from moldau.tools.shared.errors import CommandError


def test_it_is_kept(tmp_path: Path) -> None:
    assert plans.load(tmp_path) is None
    plan = Plan().changed(brokers=5, settings={"a": "1"})
    plans.save(tmp_path, plan)
    assert plans.load(tmp_path) == plan
    assert plan.changed(brokers=None, settings={"b": "2"}).settings == {"a": "1", "b": "2"}
    assert plan.bootstrap == ",".join(f"127.0.0.1:{port}" for port in range(9092, 9097))


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"brokers": 0}, "--brokers 0"),
        ({"zookeepers": 2}, "--zookeepers 2"),
        ({"port": 65535}, "--port 65535"),
        ({"port": 9638}, "overlap"),
        ({"zookeepers": 3, "zookeeper_port": 9000}, "overlap"),
    ],
)
def test_what_cannot_be_is_said(wanted: dict[str, int], named: str) -> None:
    with pytest.raises(CommandError, match=named):
        Plan().changed(**wanted)


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    (tmp_path / plans.FILE).write_text('{"brokers": 3, "colour": "red"}')
    with pytest.raises(CommandError, match="cannot be read"):
        plans.load(tmp_path)


def test_a_cluster_grows_and_does_not_shrink_unasked(tmp_path: Path) -> None:
    before = Plan(brokers=3)
    check_change(tmp_path, before, before.changed(brokers=4))
    with pytest.raises(CommandError, match="moldau brokers drain 3"):  # nobody can be asked what is on it
        check_change(tmp_path, before, before.changed(brokers=2))
    with pytest.raises(CommandError, match="1 ZooKeeper"):
        check_change(tmp_path, before, before.changed(zookeepers=3))


def test_a_cluster_is_secured_from_the_start_or_step_by_step(tmp_path: Path) -> None:
    assert Plan().changed(secure=True).changed(secure=None).secure
    with pytest.raises(CommandError, match="is not secured"):
        check_change(tmp_path, Plan(), Plan().changed(secure=True))


def test_a_wrong_setting_is_said_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"log\.segment\.bytes"):
        check_change(tmp_path, None, Plan().changed(settings={"log.segment.bytes": "much"}))


def test_every_server_has_ports_and_a_folder_of_its_own(tmp_path: Path) -> None:
    plan = Plan(brokers=4, zookeepers=3)
    servers = [BrokerServer(tmp_path, plan, number) for number in plan.broker_ids]
    zookeepers = [EnsembleServer(tmp_path, plan, number) for number in plan.zookeeper_ids]
    ports = [port for each in (*servers, *zookeepers) for port in each.ports.values()]
    assert len(ports) == len(set(ports)) == 4 * 2 + 3 * 3
    assert len({each.folder for each in (*servers, *zookeepers)}) == 7


def test_a_broker_gets_the_clusters_settings_and_the_users_win(tmp_path: Path) -> None:
    plan = Plan(brokers=3, settings={"min.insync.replicas": "1"})
    command = BrokerServer(tmp_path, plan, 2).prepare()
    file = Path(command[-1])
    lines = dict(line.split("=", 1) for line in file.read_text().splitlines() if not line.startswith("#"))
    assert lines["node.id"] == "2"
    assert lines["zookeeper.connect"] == "127.0.0.1:2181"
    assert lines["listeners"] == "PLAINTEXT://127.0.0.1:9093"
    assert lines["min.insync.replicas"] == "1"
    assert lines["offsets.topic.replication.factor"] == "3"


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (7, 3, 2)])
def test_replicas_follow_from_the_number_of_brokers(brokers: int, replicas: int, in_sync: int) -> None:
    broker = from_texts(cluster_settings(brokers)).broker
    assert broker.default_replication_factor == replicas
    assert broker.min_insync_replicas == in_sync
    assert broker.transaction_state_log_min_isr == in_sync


def test_it_shrinks_by_brokers_that_are_stopped_and_empty(tmp_path: Path) -> None:
    def picture(pid: int | None, replicas: int, registered: list[int] | None) -> Picture:
        servers = [Seen("broker", node, "", node, "running", tmp_path) for node in (1, 2)]
        gone = Seen("broker", 3, "", pid, "stopped", tmp_path)
        return Picture([*servers, gone], registered, replicas=Counter({1: 5, 2: 5, 3: replicas}))

    _require_empty(picture(None, 0, [1, 2]), 2)
    for case in (picture(77, 0, [1, 2]), picture(None, 1, [1, 2]), picture(None, 0, None)):
        with pytest.raises(CommandError, match="broker 3 must go first"):
            _require_empty(case, 2)
