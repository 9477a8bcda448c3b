"""Reads topics, leader epochs and producer ids off partition folders without metadata: a data folder that
Kafka wrote, or one whose metadata is lost.

Topic names, topic ids and partition counts are in the folders. Two counters must continue above everything in
the logs:

    leader epochs   a partition refuses a marker whose coordinator epoch is lower than one it has seen:
                    transactions would be acknowledged and never end
    producer ids    a reused id makes a new producer's batches look like duplicates of the old one's:
                    they would be acknowledged and not written

Another million producer ids are skipped, for live producers whose state has expired here. Runs once, when the
metadata store is new. Not here: deciding on it (controller/adoption.py).
"""

import logging
import random
from collections.abc import Iterable, Iterator
from contextlib import suppress

from moldau.broker.controller.adoption import FoundTopic
from moldau.broker.coordinator.transaction.records import decode
from moldau.broker.log.log import CorruptSegment, Log
from moldau.broker.metadata.image import TRANSACTION_STATE_TOPIC
from moldau.common.core.ids import random_uuid
from moldau.common.records.batch import CorruptBatch, iter_batches

UNSEEN_PRODUCER_IDS = 1_000_000
"""Ids left out above the highest that is seen: a producer that was idle for a day has left no trace."""

INVENTED_PRODUCER_IDS_FROM = 1 << 62
"""No broker allocates ids this high: a client invented such an id, and it is ignored."""

_READ_BYTES = 1024 * 1024

_log = logging.getLogger("moldau.replication")


def found_topics(logs: Iterable[Log], source: random.Random) -> list[FoundTopic]:
    """The topics whose partitions lie in the log directories, with the leader epochs that come next."""
    logs = list(logs)
    ids: dict[str, bytes] = {}
    epochs: dict[str, dict[int, int]] = {}
    coordinator_epoch = max(
        (state.coordinator_epoch for log in logs for state in log.producers.states.values()), default=-1
    )
    for log in logs:
        latest = log.latest_leader_epoch
        if log.topic == TRANSACTION_STATE_TOPIC:
            latest = max(latest, coordinator_epoch)
        epochs.setdefault(log.topic, {})[log.partition] = latest + 1
        if log.topic_id is not None:
            ids[log.topic] = log.topic_id
    return [
        FoundTopic(topic, ids.get(topic) or random_uuid(source), max(found) + 1, found)
        for topic, found in epochs.items()
    ]


def next_producer_id(logs: Iterable[Log]) -> int:
    """The first id above all that are in use; 0 where no producer has left a trace."""
    seen: set[int] = set()
    for log in logs:
        seen.update(log.producers.states)
        if log.topic == TRANSACTION_STATE_TOPIC:
            seen.update(_ids_of_coordinator(log))
    highest = max((each for each in seen if each < INVENTED_PRODUCER_IDS_FROM), default=-1)
    return highest + 1 + UNSEEN_PRODUCER_IDS if highest >= 0 else 0


def _ids_of_coordinator(log: Log) -> Iterator[int]:
    """The producer ids recorded in __transaction_state; their producers may have been idle for days."""
    offset, end_offset = log.log_start_offset, log.log_end_offset
    try:
        while offset < end_offset:
            data = log.reader.read(offset, _READ_BYTES, end_offset=end_offset, min_one_batch=True)
            if not data:
                return
            for batch in iter_batches(data):
                offset = batch.last_offset + 1
                if not batch.is_control:
                    for record in batch.records():
                        yield from _ids(record.key, record.value)
    except (OSError, CorruptSegment, CorruptBatch) as error:
        _log.warning("%r cannot be read from offset %d on: %s", log, offset, error)


def _ids(key: bytes | None, value: bytes | None) -> list[int]:
    with suppress(Exception):  # a damaged record is reported by the coordinator when it loads
        record = decode(key or b"", value)
        if record is not None and record.transaction is not None:
            return [record.transaction.producer_id, record.transaction.next_producer_id]
    return []
