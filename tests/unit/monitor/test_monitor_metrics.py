"""/metrics, read back by Prometheus's own parser: names, types, labels and figures."""

import re

import pytest
from monitor_world import (
    FakeFetcher,
    FakeGroup,
    FakeOffset,
    FakePartition,
    FakeRoundTrips,
    FakeStats,
    World,
    image_of,
    topic_of,
)
from prometheus_client.parser import text_string_to_metric_families

from moldau.broker.metadata.image import PartitionState
from moldau.broker.metadata.store import StoreStatus
from moldau.broker.monitor.metric_names import METRICS
from moldau.broker.monitor.request_times import Histogram, cumulative
from moldau.broker.monitor.sources import MirrorRow
from moldau.broker.security.quotas.limits import ClientQuotas
from moldau.broker.security.quotas.rate import Windows


@pytest.fixture
def world() -> World:
    return World()


def parsed(world: World) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Each sample name's (labels, value) pairs."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(world.metrics()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def busy(world: World) -> World:
    """A world in which every metric has something to show."""
    world.image = image_of(topic_of("orders", *[PartitionState.fresh((1,))] * 3), topic_of('odd"\\\n'))
    world.replicas.all = [FakePartition("orders", index, high_watermark=100 * index) for index in range(3)]
    world.replicas.stats = {"orders": FakeStats(10, 1000, 2000, 5, 6, 1, 2)}
    world.groups.all = [FakeGroup("g", 2)]
    world.groups.offsets = [FakeOffset("g", "orders", 1, 60), FakeOffset("g", "orders", 2, 150)]
    world.listener.connections = {1, 2}
    world.store_status = StoreStatus("ZooKeeper at zoo:2181", True, 5.0, 12.0)
    world.fetcher = FakeFetcher([(world.replicas.all[1], 2, 7), (world.replicas.all[2], 2, 0)])
    world.sources.round_trips = FakeRoundTrips()
    world.sources.quotas = quotas_in_use()
    world.sources.mirrors = FakeMirrors
    world.sources.request_counts = {(0, 9): 7, (1, 13): 8}
    world.sources.request_times.of(0).observe(300)
    return world


class FakeMirrors:
    """One partition that is pulled, and one that never was level."""

    def rows(self) -> list[MirrorRow]:
        return [
            MirrorRow("berlin", "orders", 0, 0.25, 7, 1, 2, ""),
            MirrorRow("berlin", "orders", 1, None, -1, 0, 0, "away"),
        ]

    def bytes_pulled(self) -> dict[str, int]:
        return {"berlin": 100}


def quotas_in_use() -> ClientQuotas:
    quotas = ClientQuotas(lambda: 0.0, lambda: 0.0, Windows(), Windows())
    quotas.set({(("user", 'odd"\\\n'),): {"producer_byte_rate": 100.0}})
    limits = quotas.limits_of('User:odd"\\\n', "app")
    assert limits is not None
    limits.produced(5_000)
    return quotas


def test_clients_with_a_quota_are_shown_with_use_and_limit(world: World) -> None:
    found = parsed(busy(world))
    who = {"kind": "produce", "user": 'odd"\\\n', "client_id": ""}
    assert found["moldau_quota_used"] == [(who, 500)]
    assert found["moldau_quota_limit"] == [(who, 100)]
    told = {labels["kind"]: value for labels, value in found["moldau_quota_throttled_seconds_total"]}
    assert told == {"produce": 40, "fetch": 0, "request": 0, "mutation": 0, "connection": 0}


def test_every_metric_of_the_table_is_shown_with_its_type_and_no_other(world: World) -> None:
    text = busy(world).metrics()
    shown = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    assert shown == {name: metric.type for name, metric in METRICS.items()}
    assert len(re.findall(r"^# TYPE ", text, re.M)) == len(shown)  # each once, as the format demands


def test_samples_of_a_metric_stand_together_and_none_twice(world: World) -> None:
    lines = [line for line in busy(world).metrics().splitlines() if not line.startswith("#")]
    names = [re.split(r"[{ ]", line)[0] for line in lines]
    runs = [name for index, name in enumerate(names) if index == 0 or names[index - 1] != name]
    assert len(runs) == len(set(runs))
    assert len({line.rpartition(" ")[0] for line in lines}) == len(lines)


def test_offsets_and_lag_are_kafka_exporters(world: World) -> None:
    found = parsed(busy(world))
    lags = {labels["partition"]: value for labels, value in found["kafka_consumergroup_lag"]}
    assert lags == {"0": -1, "1": 40, "2": 50}
    assert found["kafka_consumergroup_lag_sum"] == [({"consumergroup": "g", "topic": "orders"}, 90)]
    assert found["kafka_consumergroup_current_offset_sum"][0][1] == 210
    assert found["kafka_consumergroup_members"] == [({"consumergroup": "g"}, 2)]
    assert ({"topic": "orders", "partition": "2"}, 200.0) in found["kafka_topic_partition_current_offset"]
    assert ({"topic": 'odd"\\\n'}, 1.0) in found["kafka_topic_partitions"]
    assert found["kafka_broker_info"] == [({"id": "1", "address": "localhost:9092"}, 1)]


def test_a_group_of_a_deleted_topic_shows_nothing_and_lag_is_never_below_zero(world: World) -> None:
    world.groups.offsets = [FakeOffset("g", "gone", 0, 5), FakeOffset("g", "orders", 0, 5)]
    found = parsed(world)
    assert found["kafka_consumergroup_lag"] == [
        ({"consumergroup": "g", "topic": "orders", "partition": "0"}, 0)
    ]


def test_ledgers_of_exactly_once_sinks_have_neither_offset_nor_lag(world: World) -> None:
    ledger = '{"stream":"q","run":"r","turn":0,"before":[]}'
    world.groups.offsets = [FakeOffset("id-batches", "orders", 0, 41, ledger)]
    assert not {name for name in parsed(world) if name.startswith("kafka_consumergroup")}
    world.groups.offsets = [FakeOffset("g", "orders", 0, 41, ledger.replace("before", "after"))]
    assert parsed(world)["kafka_consumergroup_current_offset"][0][1] == 41


def test_the_total_of_all_topics_never_falls(world: World) -> None:
    def total() -> float:
        rows = parsed(world)["kafka_server_brokertopicmetrics_bytesin_total"]
        return next(value for labels, value in rows if not labels)

    world.replicas.stats = {"a": FakeStats(bytes_in=5), "b": FakeStats(bytes_in=7)}
    assert total() == 12
    world.replicas.stats["b"].bytes_in = 9
    world.replicas.stats = {"a": world.replicas.stats["a"]}
    assert total() == 14
    world.replicas.stats = {"a": world.replicas.stats["a"], "b": FakeStats(bytes_in=1)}  # created again
    assert total() == 15


def test_strimzis_names_have_the_labels_that_dashboards_ask_for(world: World) -> None:
    found = parsed(busy(world))
    assert found["kafka_network_requestmetrics_requests_total"] == [
        ({"request": "Produce", "version": "9"}, 7),
        ({"request": "Fetch", "version": "13"}, 8),
    ]
    assert found["kafka_server_socket_server_metrics_connection_count"] == [
        ({"listener": "PLAINTEXT", "networkProcessor": "0"}, 2)
    ]
    assert found["kafka_server_replicamanager_leadercount"] == [({}, 3)]
    assert found["kafka_controller_kafkacontroller_activecontrollercount"] == [({}, 1)]
    assert found["kafka_server_kafkaserver_brokerstate"] == [({}, 3)]


def test_health_is_a_metric_too(world: World) -> None:
    world.manager.full_dirs = ["/"]
    found = parsed(world)
    conditions = {labels["name"]: value for labels, value in found["moldau_health_condition"]}
    assert conditions["log-dir-full"] == 1
    assert conditions["starting"] == 0
    assert found["moldau_health_verdict"] == [({}, 2)]
    assert found["moldau_ready"] == [({}, 1)]


def test_a_histogram_counts_everything_once() -> None:
    histogram = Histogram()
    for time_us in (0, 1, 63, 64, 255, 256, 10**6, 10**10):
        histogram.observe(time_us)
    buckets = list(cumulative(histogram))
    assert [bucket.total for bucket in buckets] == sorted(bucket.total for bucket in buckets)
    assert buckets[-1] == (None, 8)
    by_bound = {bucket.le_seconds: bucket.total for bucket in buckets}
    assert by_bound[0.000064] == 3
    assert by_bound[0.000256] == 5
    assert histogram.sum_us == 0 + 1 + 63 + 64 + 255 + 256 + 10**6 + 10**10


def test_a_large_broker_is_rendered_in_small_pieces(world: World) -> None:
    world.replicas.all = [FakePartition("orders", index) for index in range(2000)]
    pieces = list(world.monitor.metrics.render())
    assert max(map(len, pieces)) < 200_000
    assert len([piece for piece in pieces if piece]) > 10
