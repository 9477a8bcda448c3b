"""The offsets of a connector that has a topic of offsets of its own, in the worker's topic too (KIP-618).

There tools find them, and the connector, when it gives its own topic up.

Written after the commit, beside it: a copy that fails is logged, and the next one makes good for it. The
connector's own topic is the truth while it has one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from moldau.services.connect.runtime.setup import TaskSetup
from moldau.services.connect.runtime.source_writer import OffsetRecord

log = logging.getLogger("moldau.connect")
_END_SECONDS = 5.0


class OffsetsCopy:
    """Of one task. The producer is made with the first commit."""

    def __init__(self, setup: TaskSetup, topic: str) -> None:
        self._setup, self._topic = setup, topic
        self._producer: Producer | None = None

    def put(self, offsets: Sequence[OffsetRecord]) -> None:
        """These are committed."""
        try:
            if self._producer is None:
                self._producer = self._setup.producer("offset-producer")
            for key, value in offsets:
                self._producer.produce(self._topic, value, key, on_delivery=self._told)
            self._producer.poll(0)
        except (KafkaException, BufferError) as failed:
            self._failed(str(failed))

    def _told(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed(error.str())

    def _failed(self, why: str) -> None:
        log.warning("%s: its offsets were not copied to %s: %s", self._setup.client_id, self._topic, why)

    def close(self) -> None:
        """Wait a little for what is on its way."""
        if self._producer is not None:
            self._producer.flush(_END_SECONDS)
            self._producer = None
