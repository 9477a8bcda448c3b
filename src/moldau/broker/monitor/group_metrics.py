"""Metrics of consumer groups: members, committed offsets and lag, under kafka_exporter's names.

Lag is measured against the high watermark of the partitions on this broker. If a group has committed offsets
in a topic but none for one of its partitions, offset and lag are -1, as in kafka_exporter, so that an alert
can see it; the sums leave these out. The ledger of an exactly-once sink is stored as a committed offset but
is no position; it has neither.
"""

from collections.abc import Iterator, Mapping

from moldau.broker.metadata.image import Image
from moldau.broker.monitor.exposition import Labels, labels, of_each, samples, single
from moldau.broker.monitor.sources import GroupsSource, PartitionSource, ReplicasSource
from moldau.common.core.sink_ledger import is_sink_ledger

Committed = dict[tuple[str, str], dict[int, int]]
HighWatermarks = Mapping[tuple[str, int], PartitionSource]


def groups(source: GroupsSource, image: Image, replicas: ReplicasSource | None) -> Iterator[str]:
    """All of a coordinator's groups."""
    members = [(labels(consumergroup=group.group_id), group) for group in source.groups()]
    yield from of_each("kafka_consumergroup_members", members, lambda group: group.member_count())
    yield single("kafka_coordinator_group_groupmetadatamanager_numgroups", len(members))
    counts = source.group_counts()
    yield samples(
        "moldau_groups",
        [(labels(protocol=kind, state=state), count) for (kind, state), count in counts.items()],
    )
    rows = list(source.committed_offsets())
    yield single("kafka_coordinator_group_groupmetadatamanager_numoffsets", len(rows))
    committed: Committed = {}
    for row in rows:
        if is_sink_ledger(row.metadata):
            continue
        committed.setdefault((row.group_id, row.topic), {})[row.partition] = row.offset
    yield ""
    here: HighWatermarks = {}
    if replicas is not None:
        here = {(partition.topic, partition.index): partition for partition in replicas.partitions()}
    yield from _offsets(committed, image, here)


def _offsets(committed: Committed, image: Image, here: HighWatermarks) -> Iterator[str]:
    offsets: list[tuple[Labels, int]] = []
    lags: list[tuple[Labels, int]] = []
    offset_sums: list[tuple[Labels, int]] = []
    lag_sums: list[tuple[Labels, int]] = []
    for (group, topic), of_partition in committed.items():
        state = image.topics.get(topic)
        if state is None:
            continue
        lag_sum = 0
        whole = labels(consumergroup=group, topic=topic)
        begin = whole[:-1]
        for index in range(len(state.partitions)):
            label = f'{begin},partition="{index}"}}'
            offset = of_partition.get(index, -1)
            offsets.append((label, offset))
            partition = here.get((topic, index))
            if partition is None:
                continue  # another broker leads it and knows its high watermark
            # A commit may be ahead of what this moment's high watermark shows; lag below zero means nothing.
            lag = -1 if offset < 0 else max(0, partition.high_watermark - offset)
            lags.append((label, lag))
            lag_sum += max(0, lag)
        offset_sums.append((whole, sum(of_partition.values())))
        lag_sums.append((whole, lag_sum))
        yield ""
    for name, rows in (
        ("kafka_consumergroup_current_offset", offsets),
        ("kafka_consumergroup_lag", lags),
        ("kafka_consumergroup_current_offset_sum", offset_sums),
        ("kafka_consumergroup_lag_sum", lag_sums),
    ):
        yield from of_each(name, rows, int)
