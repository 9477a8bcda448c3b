"""The metrics of Burrow, and lag in seconds as kafka-lag-exporter names it.

A group that has gone has no series any more: every scrape is made from what is known now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from moldau.services.http.counters import Sample
from moldau.services.lag.store import ClusterStore, GroupStatus

_HELP = {
    "burrow_kafka_consumer_lag_total": "The sum of the lags of all partitions of the group.",
    "burrow_kafka_consumer_status": "The group's status: 0 NOTFOUND, 1 OK, 2 WARN, 3 ERR.",
    "kafka_consumergroup_group_lag_seconds": "Age of the oldest record that the group has not read.",
    "burrow_kafka_consumer_current_offset": "The last committed offset.",
    "burrow_kafka_consumer_partition_lag": "Records that the group is behind in the partition.",
    "burrow_kafka_topic_partition_status": "The partition's status: 1 OK, 2 WARN, 4 STOP, 5 STALL, 6 REWIND.",
    "burrow_kafka_topic_partition_offset": "The end offset of the partition.",
}


def samples(stores: Mapping[str, ClusterStore], now_ms: int) -> Iterator[Sample]:
    """All series, those of one metric after another."""
    statuses = [
        status
        for store in stores.values()
        for group in store.groups()
        if (status := store.status(group, now_ms)) is not None
    ]
    yield from _of_groups(statuses)
    yield from _of_partitions(statuses)
    name = "burrow_kafka_topic_partition_offset"
    for store in stores.values():
        for topic in store.topics():
            for index, end in enumerate(store.ends_of(topic) or ()):
                labels = (("cluster", store.name), ("topic", topic), ("partition", str(index)))
                yield Sample(name, _HELP[name], "gauge", end, labels)


def _of_groups(statuses: Iterable[GroupStatus]) -> Iterator[Sample]:
    rows = [((("cluster", each.cluster), ("consumer_group", each.group)), each) for each in statuses]
    name = "burrow_kafka_consumer_lag_total"
    yield from (Sample(name, _HELP[name], "gauge", each.total_lag, labels) for labels, each in rows)
    name = "burrow_kafka_consumer_status"
    yield from (Sample(name, _HELP[name], "gauge", int(each.verdict), labels) for labels, each in rows)
    name = "kafka_consumergroup_group_lag_seconds"
    for labels, each in rows:
        if each.lag_seconds is not None:
            yield Sample(name, _HELP[name], "gauge", each.lag_seconds, (labels[0], ("group", each.group)))


def _of_partitions(statuses: Iterable[GroupStatus]) -> Iterator[Sample]:
    rows = [
        (
            (
                ("cluster", group.cluster),
                ("consumer_group", group.group),
                ("topic", each.topic),
                ("partition", str(each.partition)),
            ),
            each,
        )
        for group in statuses
        for each in group.partitions
    ]
    name = "burrow_kafka_consumer_current_offset"
    for labels, each in rows:
        if each.end is not None:
            yield Sample(name, _HELP[name], "gauge", each.end.offset, labels)
    name = "burrow_kafka_consumer_partition_lag"
    yield from (Sample(name, _HELP[name], "gauge", each.lag, labels) for labels, each in rows)
    name = "burrow_kafka_topic_partition_status"
    yield from (Sample(name, _HELP[name], "gauge", int(each.verdict), labels) for labels, each in rows)
