"""A read_committed consumer that reads all partitions through every fault, and records each poll.

What it is shown must be there in the end, at the same offset, with nothing before its position that it was
not shown. It is one consumer for the whole round; an offset that is out of range is a complaint, not a reset.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from histories.history import Place, Poll

from torture.cluster_record import Recorder, now_s
from torture.load import QUICK_RECONNECT


class ClusterWitness:
    """Reads in a thread of its own until `finish`."""

    def __init__(self, address: str, topics: Mapping[str, int], recorder: Recorder) -> None:
        self._recorder = recorder
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self.read = 0
        config: dict[str, Any] = {
            **QUICK_RECONNECT,
            "bootstrap.servers": address,
            "group.id": "torture-witness",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            "fetch.error.backoff.ms": 20,
        }
        self._consumer = Consumer(config)
        places = [(topic, number) for topic, count in topics.items() for number in range(count)]
        self._consumer.assign([TopicPartition(*place, 0) for place in places])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._take(self._consumer.consume(1000, 0.1))
        except BaseException as error:
            self._failure = error
        finally:
            self._consumer.close()

    def _take(self, messages: list[Any]) -> None:
        found: dict[Place, list[tuple[int, str]]] = {}
        for one in messages:
            error = one.error()
            if error is None:
                found.setdefault((one.topic(), one.partition()), []).append(
                    (one.offset(), one.value().decode())
                )
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise KafkaException(error)
        at = now_s()
        for place, records in found.items():
            self.read += len(records)
            self._recorder.note(Poll("witness", place, records, records[-1][0] + 1, at))

    def finish(self) -> None:
        """Stop; raises what ended it before."""
        self._stopping.set()
        self._thread.join(30)
        if self._failure is not None:
            raise self._failure
