"""Compares the metadata with the logs that were found at the start: which replicas here are not what the
cluster takes them for.

    the log is here, but ends before its checkpoints      lost
    it cannot be opened now, and may be later (disk full)  lost
    it cannot be opened, or its directory is offline      offline
    there is none, and others have every record           lost: it is made again, empty, and follows
    there is none, nobody else has every record,
        and there was one                                 offline: an empty log must not lead
        and there is no sign that there ever was one      nothing: the topic was new when the broker died

Signs: a line in a checkpoint, a log directory that the broker had at its last registration and has no more,
or that it was offline before.

Partitions with one replica are not looked at. Not here: what follows (controller/replica_losses.py).
"""

from collections.abc import Generator
from typing import NamedTuple

from moldau.broker.log.manager import LogManager
from moldau.broker.metadata.image import Image, PartitionState


class Losses(NamedTuple):
    """Replicas of this broker: (topic, partition). `withheld`: of those that are offline, the ones that must
    not be made again."""

    lost: frozenset[tuple[str, int]]
    offline: frozenset[tuple[str, int]]
    withheld: frozenset[tuple[str, int]]


def find_losses(image: Image, node_id: int, logs: LogManager) -> Generator[None, None, Losses]:
    """What was lost since the broker was last registered."""
    lost: set[tuple[str, int]] = set()
    offline: set[tuple[str, int]] = set()
    withheld: set[tuple[str, int]] = set()
    broker = image.brokers.get(node_id)
    had = () if broker is None else broker.directories
    disk_is_gone = any(directory not in logs.directories.ids for directory in had)
    for name, topic in image.topics.items():
        yield
        for index, state in enumerate(topic.partitions):
            if len(state.replicas) < 2 or node_id not in state.replicas:
                continue
            key = (name, index)
            found = logs.get(name, index)
            if key in logs.unopened and logs.unopened[key].topic_id in (None, topic.topic_id):
                (lost if logs.unopened[key].passing else offline).add(key)
            elif found is not None and found.topic_id in (None, topic.topic_id):
                if key in logs.startup.missing.short:
                    lost.add(key)
            elif logs.startup.missing.unread_directories:
                offline.add(key)  # it may be there
            elif node_id not in (*state.isr, *state.elr, *state.doubtful):
                continue  # a new replica
            elif _others_have_all(state, node_id):
                lost.add(key)
            elif (
                disk_is_gone
                or logs.startup.missing.had_folder(key)
                or (broker is not None and broker.has_offline(topic.topic_id, index))
            ):
                offline.add(key)
                withheld.add(key)
    return Losses(frozenset(lost), frozenset(offline), frozenset(withheld))


def _others_have_all(state: PartitionState, node_id: int) -> bool:
    return any(node != node_id for node in (*state.isr, *state.elr))
