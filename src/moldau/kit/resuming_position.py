"""Reads back where a source stood: the newest of its records in each partition.

A partition is read from its end in growing steps backwards, until a record of the source is found or the log
begins. Of all partitions the highest number wins: transactions make a batch whole over all of them.

It is read as read_committed, up to the high watermark of the moment at which the source became the only
writer. An open transaction of somebody else in front of it hides what is behind: that is waited for. Not
here: fencing and writing (resuming.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from moldau.common.core.message_headers import message_headers
from moldau.common.core.unreadable import UNREADABLE
from moldau.kit.client_config import client_log, sentence, unreadable
from moldau.kit.errors import KitError, TimedOut
from moldau.kit.topics import Topics

HEADER = "moldau.resuming"
_FIRST_STEP = 500
_WAIT_SECONDS = 0.2


class Mark(NamedTuple):
    """What rides in a record's header."""

    source: str
    number: int
    """Records of this source so far; orders the positions."""
    position: Any
    """JSON: whatever the source understands."""
    before: Any
    """The position before the record's batch."""

    def encode(self) -> bytes:
        """As JSON."""
        return json.dumps([self.source, self.number, self.position, self.before]).encode()


def mark_of(record: Message) -> Mark | None:
    """The mark in a record's headers; None if it has none, or a garbled one."""
    for name, content in message_headers(record):
        if name == HEADER and content is not None:
            try:
                source, number, position, before = json.loads(content)
            except (ValueError, TypeError, RecursionError):
                return None
            return Mark(source, number, position, before) if type(number) is int else None
    return None


class Found(NamedTuple):
    """The newest mark, and whether an older one may have been removed."""

    mark: Mark | None
    removed: bool
    """Records of the topic have been removed by retention, and nothing of the source was found."""


def read_back(
    topic: str, source: str, config: Mapping[str, Any], committed_only: bool, timeout_seconds: float
) -> Found:
    """The newest record of a source in a topic. Raises KitError, TimedOut."""
    topics = Topics(config)
    _, count = topics.describe(topic)
    places = [(topic, number) for number in range(count)]
    first, ends = topics.first_offsets(places), topics.end_offsets(places)
    consumer = Consumer(
        {
            **config,
            "group.id": "moldau-resuming",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed_only else "read_uncommitted",
        },
        logger=client_log,
    )
    deadline = time.monotonic() + timeout_seconds
    try:
        newest = None
        for place in places:
            found = _newest(consumer, place, source, first[place], ends[place], deadline)
            if found is not None and (newest is None or found.number > newest.number):
                newest = found
    finally:
        consumer.close()
    return Found(newest, newest is None and any(first[place] > 0 for place in places))


def _newest(
    consumer: Consumer, place: tuple[str, int], source: str, first: int, end: int, deadline: float
) -> Mark | None:
    """The newest mark between two offsets, searched from the end."""
    step, upper = _FIRST_STEP, end
    while upper > first:
        lower = max(first, upper - step)
        found = _search(consumer, place, source, lower, upper, deadline)
        if found is not None:
            return found
        upper, step = lower, 2 * step
    return None


def _search(
    consumer: Consumer, place: tuple[str, int], source: str, lower: int, upper: int, deadline: float
) -> Mark | None:
    """The newest mark from `lower` up to before `upper`."""
    topic, number = place
    consumer.assign([TopicPartition(topic, number, lower)])
    newest = None
    while True:
        if time.monotonic() > deadline:
            raise TimedOut(
                f"{topic}[{number}] could not be read back between {lower} and {upper}: the broker is away, "
                "or an open transaction stands in front (moldau transactions list)"
            )
        for record in consumer.consume(_FIRST_STEP, _WAIT_SECONDS):
            error = record.error()
            offset = record.offset() or 0
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF and offset >= upper:
                    return newest
                if error.name() in UNREADABLE:
                    raise KitError(f"{topic}[{number}] cannot be read back: {unreadable(record, error)}")
                if error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:
                    raise KitError(f"{topic}[{number}] cannot be read back: {sentence(error)}")
                continue
            if offset >= upper:
                return newest
            mark = mark_of(record)
            if mark is not None and mark.source == source and (newest is None or mark.number > newest.number):
                newest = mark
            if offset == upper - 1:
                return newest
