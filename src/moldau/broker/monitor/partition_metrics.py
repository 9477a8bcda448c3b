"""Metrics of topics and partitions: kafka_exporter's offsets, and the sizes and counts under Kafka's own
names.

This is most of a scrape, so labels are rendered once a partition and used for all its metrics, and the output
is in pieces. The list of partitions is taken at the beginning; their values are read when their piece is
rendered.
"""

from collections.abc import Callable, Iterator

from moldau.broker.metadata.image import NO_LEADER, Image, PartitionState
from moldau.broker.monitor.exposition import Labels, labels, of_each, samples, single
from moldau.broker.monitor.sources import PartitionSource, ReplicasSource

_ROWS_A_PIECE = 500

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
        lambda state: int(len(state.isr) < state.replication_factor),
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
        lambda partition: int(len(partition.isr) < partition.min_in_sync),
    ),
    (
        "kafka_cluster_partition_atminisr",
        lambda partition: int(len(partition.isr) == partition.min_in_sync),
    ),
    (
        "kafka_cluster_partition_laststableoffsetlag",
        lambda partition: partition.high_watermark - partition.last_stable_offset,
    ),
)


def cluster(image: Image, node_id: int) -> Iterator[str]:
    """The metadata: brokers, topics, every partition's leader and replicas."""
    yield single("kafka_brokers", len(image.brokers))
    yield samples("kafka_broker_info", _broker_info(image))
    topics = [(labels(topic=name), topic) for name, topic in image.topics.items()]
    yield from of_each("kafka_topic_partitions", topics, lambda topic: len(topic.partitions))
    known: list[Known] = []
    for topic in image.topics.values():
        begin = labels(topic=topic.name)[:-1]
        for index, state in enumerate(topic.partitions):
            known.append((f'{begin},partition="{index}"}}', state))
            if not len(known) % _ROWS_A_PIECE:
                yield ""
    for name, value in _OF_STATE:
        yield from of_each(name, known, value)
    yield from _controller(image, node_id, known)


def _broker_info(image: Image) -> Iterator[tuple[Labels, int]]:
    for node, broker in sorted(image.brokers.items()):
        for host, port in list(broker.endpoints.values())[:1]:
            yield labels(id=node, address=f"{host}:{port}"), 1


def _controller(image: Image, node_id: int, known: list[Known]) -> Iterator[str]:
    fenced = sum(broker.fenced for broker in image.brokers.values())
    leaderless = moved = under_replicated = reassigning = 0
    for number, (_, state) in enumerate(known):
        leaderless += state.leader == NO_LEADER
        if state.leader == node_id:
            under_replicated += len(state.isr) < state.replication_factor
            reassigning += bool(state.target)
        moved += bool(state.replicas) and state.leader != state.replicas[0]
        if not number % _ROWS_A_PIECE:
            yield ""
    figures = {
        "activecontrollercount": int(image.controller_id == node_id),
        "offlinepartitionscount": leaderless,
        "preferredreplicaimbalancecount": moved,
        "globaltopiccount": len(image.topics),
        "globalpartitioncount": len(known),
        "activebrokercount": len(image.brokers) - fenced,
        "fencedbrokercount": fenced,
    }
    yield "".join(
        [single(f"kafka_controller_kafkacontroller_{name}", value) for name, value in figures.items()]
    )
    yield single("kafka_server_replicamanager_underreplicatedpartitions", under_replicated)
    yield single("kafka_server_replicamanager_reassigningpartitions", reassigning)


def held(replicas: ReplicasSource, node_id: int) -> Iterator[str]:
    """The partitions on this broker: offsets, sizes, and counts by state."""
    partitions = list(replicas.partitions())
    yield from _counts(partitions, node_id)
    rows: list[Held] = []
    begin, topic = "", None
    for number, partition in enumerate(partitions):
        if partition.topic != topic:
            topic = partition.topic
            begin = labels(topic=topic)[:-1]
        if partition.online:
            rows.append((f'{begin},partition="{partition.index}"}}', partition))
        if not number % _ROWS_A_PIECE:
            yield ""
    for name, value in _OF_PARTITION:
        yield from of_each(name, rows, value)


def _counts(partitions: list[PartitionSource], node_id: int) -> Iterator[str]:
    led = offline = under_min = at_min = waiting = unreadable = 0
    for number, partition in enumerate(partitions):
        offline += not partition.online
        waiting += partition.waiting_count
        unreadable += len(partition.log.unreadable)
        if partition.leader == node_id:
            margin = len(partition.isr) - partition.min_in_sync
            led += 1
            under_min += margin < 0
            at_min += margin == 0
        if not number % _ROWS_A_PIECE:
            yield ""
    figures = {
        "partitioncount": len(partitions),
        "leadercount": led,
        "offlinereplicacount": offline,
        "underminisrpartitioncount": under_min,
        "atminisrpartitioncount": at_min,
    }
    yield "".join([single(f"kafka_server_replicamanager_{name}", value) for name, value in figures.items()])
    yield single("moldau_appends_waiting", waiting)
    yield single("moldau_unreadable_batches", unreadable)
