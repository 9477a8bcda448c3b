"""Metrics of topics and partitions: kafka_exporter's offsets, and the sizes and counts of Kafka's own names.

This is the bulk of a scrape, so labels are rendered once a partition and used for all its metrics, and all
is given in pieces. The list of partitions is taken at the beginning; their figures are read piece by piece,
each as it is then.
"""

from collections.abc import Callable, Iterator

from moldau.metadata.image import NO_LEADER, Image, PartitionState
from moldau.monitor.exposition import Labels, labels, of_each, samples, single
from moldau.monitor.sources import PartitionSource, ReplicasSource

Held = tuple[Labels, PartitionSource]
Known = tuple[Labels, PartitionState]

_OF_STATE: tuple[tuple[str, Callable[[PartitionState], int]], ...] = (
    ("kafka_topic_partition_leader", lambda state: state.leader),
    (
        "kafka_topic_partition_leader_is_preferred",
        lambda state: int(bool(state.replicas) and state.leader == state.replicas[0]),
    ),
    ("kafka_topic_partition_replicas", lambda state: len(state.replicas)),
    ("kafka_topic_partition_in_sync_replica", lambda state: len(state.isr)),
    (
        "kafka_topic_partition_under_replicated_partition",
        lambda state: int(len(state.isr) < len(state.replicas)),
    ),
)

_OF_PARTITION: tuple[tuple[str, Callable[[PartitionSource], int]], ...] = (
    ("kafka_topic_partition_current_offset", lambda partition: partition.high_watermark),
    ("kafka_topic_partition_oldest_offset", lambda partition: partition.log.log_start_offset),
    ("kafka_log_log_size", lambda partition: partition.log.size_bytes),
    ("kafka_log_log_numlogsegments", lambda partition: len(partition.log.segments)),
    ("kafka_log_log_logstartoffset", lambda partition: partition.log.log_start_offset),
    ("kafka_log_log_logendoffset", lambda partition: partition.log.log_end_offset),
    (
        "kafka_cluster_partition_underminisr",
        lambda partition: int(len(partition.isr) < partition.log.settings.min_insync_replicas),
    ),
    (
        "kafka_cluster_partition_atminisr",
        lambda partition: int(len(partition.isr) == partition.log.settings.min_insync_replicas),
    ),
)


def cluster(image: Image, node_id: int) -> Iterator[str]:
    """What the metadata says: brokers, topics, every partition's leader and replicas."""
    yield single("kafka_brokers", len(image.brokers))
    yield samples("kafka_broker_info", _broker_info(image))
    topics = [(labels(topic=name), topic) for name, topic in image.topics.items()]
    yield from of_each("kafka_topic_partitions", topics, lambda topic: len(topic.partitions))
    known: list[Known] = []
    for topic in image.topics.values():
        known.extend(
            (labels(topic=topic.name, partition=i), state) for i, state in enumerate(topic.partitions)
        )
        if len(topic.partitions) > 100:
            yield ""
    for name, value in _OF_STATE:
        yield from of_each(name, known, value)
    yield _controller(image, node_id, known)


def _broker_info(image: Image) -> Iterator[tuple[Labels, int]]:
    for node, broker in sorted(image.brokers.items()):
        for host, port in list(broker.endpoints.values())[:1]:
            yield labels(id=node, address=f"{host}:{port}"), 1


def _controller(image: Image, node_id: int, known: list[Known]) -> str:
    states = [state for _, state in known]
    fenced = sum(broker.fenced for broker in image.brokers.values())
    figures = {
        "activecontrollercount": int(image.controller_id == node_id),
        "offlinepartitionscount": sum(state.leader == NO_LEADER for state in states),
        "preferredreplicaimbalancecount": sum(
            bool(state.replicas) and state.leader != state.replicas[0] for state in states
        ),
        "globaltopiccount": len(image.topics),
        "globalpartitioncount": len(states),
        "activebrokercount": len(image.brokers) - fenced,
        "fencedbrokercount": fenced,
    }
    return "".join(
        [single(f"kafka_controller_kafkacontroller_{name}", value) for name, value in figures.items()]
    )


def held(replicas: ReplicasSource, node_id: int) -> Iterator[str]:
    """What this broker holds: offsets, sizes, and how many partitions are in which state."""
    rows: list[Held] = [
        (labels(topic=partition.topic, partition=partition.index), partition)
        for partition in replicas.partitions()
    ]
    yield _counts([partition for _, partition in rows], node_id)
    online = [row for row in rows if row[1].online]
    for name, value in _OF_PARTITION:
        yield from of_each(name, online, value)


def _counts(partitions: list[PartitionSource], node_id: int) -> str:
    led = [partition for partition in partitions if partition.leader == node_id]
    margins = [len(partition.isr) - partition.log.settings.min_insync_replicas for partition in led]
    figures = {
        "partitioncount": len(partitions),
        "leadercount": len(led),
        "offlinereplicacount": sum(not partition.online for partition in partitions),
        "underreplicatedpartitions": sum(len(partition.isr) < len(partition.replicas) for partition in led),
        "underminisrpartitioncount": sum(margin < 0 for margin in margins),
        "atminisrpartitioncount": sum(margin == 0 for margin in margins),
    }
    waiting = sum(len(partition.waiting) for partition in partitions)
    return "".join(
        [single(f"kafka_server_replicamanager_{name}", value) for name, value in figures.items()]
    ) + single("moldau_appends_waiting", waiting)
