"""Health and metrics of whole brokers: one loses another, and says which, and what it costs."""

import time
from pathlib import Path

import pytest
from brokers_world import Brokers, ask, until, with_brokers

from moldau.broker.node import Node
from moldau.broker.stages.replication import Replication
from moldau.common.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.common.records.batch import iter_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record


def causes(node: Node) -> dict[str, str]:
    node.monitoring_port.begin()
    monitoring = node.monitoring_port.monitoring
    assert monitoring is not None
    return {cause.name: cause.message for cause in monitoring._monitor.health.verdict().causes}


def metrics(node: Node) -> dict[str, float]:
    node.monitoring_port.begin()
    monitoring = node.monitoring_port.monitoring
    assert monitoring is not None
    text = b"".join(monitoring._monitor.metrics.render()).decode()
    rows = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in rows}


def test_a_broker_that_stops_is_named_and_comes_back(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", (1, 2), (2, 1), (1, 2))
        node = brokers.nodes[1]
        leader = brokers.partition(1)
        batch = memoryview(build_batch([Record(0, int(time.time() * 1000), None, b"x" * 100, ())]))
        assert leader.append(batch, int(time.time() * 1000), -1).error_code == 0
        await until(lambda: leader.high_watermark == 1)
        assert causes(node) == {}
        sent = metrics(node)
        name = "kafka_server_brokertopicmetrics_replicationbytes"
        assert sent[f"{name}out_total"] == len(batch)
        assert sent["kafka_server_brokertopicmetrics_bytesout_total"] == 0, "of consumers, as in Kafka"
        assert metrics(brokers.nodes[2])[f"{name}in_total"] == len(batch)
        assert sent["moldau_metadata_store_up"] == 1
        assert sent['kafka_server_replicafetchermanager_maxlag{clientId="Replica"}'] == 0

        await brokers.nodes.pop(2).stop()
        await brokers.in_step()
        await until(lambda: not any(2 in brokers.partition(1, index=index).isr for index in range(3)))
        found = causes(node)
        assert set(found) == {"under-replicated", "at-min-isr"}
        assert found["under-replicated"].startswith("broker 2 is gone since ")
        assert found["at-min-isr"] == "exactly at min.insync.replicas: t-0, t-1, t-2"
        assert "3 partitions lack its in-sync replica (t-0, t-1, t-2)" in found["under-replicated"]
        alone = metrics(node)
        assert alone["kafka_server_replicamanager_underreplicatedpartitions"] == 3
        assert alone["kafka_server_replicamanager_isrshrinks_total"] >= 2, "of those that it led before"
        assert alone['moldau_broker_state{broker="2"}'] == 0
        assert alone['moldau_missing_replicas{broker="2",cause="gone"}'] == 3

        await brokers.start(2)
        await until(lambda: all(2 in brokers.partition(1, index=index).isr for index in range(3)))
        assert causes(node) == {}
        again = metrics(node)
        assert again["kafka_server_replicamanager_isrexpands_total"] >= 3
        assert again["kafka_server_replicamanager_underreplicatedpartitions"] == 0

    with_brokers(tmp_path, (1, 2), scene, moldau_http_listener="127.0.0.1:0")


def test_a_leader_that_cannot_be_reached_is_told_with_the_cause(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", (2, 1))
        node, other = brokers.nodes[1], brokers.nodes[2]
        await other.listeners.close()  # its session with the metadata store goes on
        fetcher = node.reached(Replication).fetcher.made
        assert fetcher is not None
        await until(lambda: list(fetcher.failing()))
        ((leader, since_ms, reason),) = fetcher.failing()
        assert (leader, since_ms <= node.host.clock.monotonic_ms()) == (2, True)
        assert reason
        assert metrics(node)["moldau_replica_fetches_failed_total"] >= 1
        assert (
            metrics(node)['kafka_server_replicafetchermanager_failedpartitionscount{clientId="Replica"}'] == 1
        )

    with_brokers(tmp_path, (1, 2), scene, moldau_http_listener="127.0.0.1:0")


@pytest.mark.parametrize("hours", [1, -1])
def test_a_broker_whose_clock_is_an_hour_off(tmp_path: Path, hours: int) -> None:
    """It follows and leads: records keep the time that their producer gave them, in-sync sets, sessions and
    timeouts are measured by clocks that nobody sets."""

    async def scene(brokers: Brokers) -> None:
        await brokers.start(1, 2)
        await brokers.start(3, clock_ahead_ms=hours * 3_600_000)
        await brokers.topic("t", (1, 2, 3), (3, 1, 2), min_insync_replicas="3")
        now_ms = int(time.time() * 1000)
        batch = build_batch([Record(0, now_ms, None, b"x", ())])
        for index, leader in ((0, 1), (1, 3)):
            rows = [PartitionProduceData(index=index, records=batch)]
            request = ProduceRequest(
                acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="t", partition_data=rows)]
            )
            answer = await ask(brokers.nodes[leader], request, 12)
            assert answer.responses[0].partition_responses[0].error_code == 0
            logs = [brokers.partition(node_id, index=index).log for node_id in (1, 2, 3)]
            await until(lambda logs=logs: all(each.log_end_offset == 1 for each in logs))
            assert len({bytes(each.reader.read(0, 1 << 20, end_offset=1)) for each in logs}) == 1
            (read,) = iter_batches(bytes(logs[2].reader.read(0, 1 << 20, end_offset=1)))
            assert read.max_timestamp_ms == now_ms
        assert all(len(brokers.partition(1, index=index).isr) == 3 for index in (0, 1))

    with_brokers(tmp_path, (), scene)


@pytest.mark.parametrize("begins_late", [False, True])
def test_partitions_that_a_stop_has_closed_are_not_offline(tmp_path: Path, begins_late: bool) -> None:
    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", (1, 2))
        node = brokers.nodes.pop(1)
        found: list[str] = []
        close_logs = dict(node.stops.parts)["logs"]
        if not begins_late:
            assert causes(node) == {}

        async def slow_close() -> None:
            found.extend(causes(node))
            await close_logs()  # type: ignore[misc]

        parts = node.stops.parts
        parts[:] = [(name, slow_close if name == "logs" else stop) for name, stop in parts]
        await node.stop()
        assert "stopping" in found
        assert "offline-partitions" not in found

    with_brokers(tmp_path, (1, 2), scene, moldau_http_listener="127.0.0.1:0")
