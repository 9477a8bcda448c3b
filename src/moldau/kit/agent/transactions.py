"""The agent's transactions: begin, commit with the lanes' positions, abort, and the positions read back.

The positions are offsets of the group named as the transactional id: for partition 0 of each topic the number
of the next message of its spool, with the spool's identity as metadata. The broker commits them with the
records or not at all. They expire with the group's retention (offsets.retention.minutes, a week) after the
last commit; the lanes' own files, saved every second, stand in then: the larger one counts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from moldau.kit.agent.lane import Lane
from moldau.kit.sending import Interrupted

log = logging.getLogger("moldau.agent")

CALL_SECONDS = 5.0
GIVE_UP_SECONDS = 12.0
"""librdkafka was seen to wait for a coordinator long after its connection had stalled and was closed."""
FENCED = (
    "another agent with the same id has taken over: stop one of the two, "
    "and give a copied folder an id of its own (--id)"
)
_FENCED_NAMES = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})


class Fenced(Exception):
    """Another agent with this id has taken over, or this folder is an old copy. The agent must end."""


class Aborted(Exception):
    """The transaction was aborted; nothing of it counts."""


def is_fenced(problem: Any) -> bool:
    """Whether a KafkaException says that another producer has the transactional id."""
    return _name(problem) in _FENCED_NAMES


def text_of(problem: Any) -> str:
    """The text of a KafkaException."""
    error = problem.args[0] if problem.args else problem
    return f"{error.str()} ({error.name()})" if hasattr(error, "str") else str(problem)


def _name(problem: Any) -> str:
    error = problem.args[0] if problem.args else None
    return "" if error is None or not hasattr(error, "name") else str(error.name())


class Transactions:
    """One session's transactions on `producer`. All methods block; `stop` may interrupt them."""

    def __init__(
        self, producer: Any, group: str, client_config: dict[str, Any], stop: Callable[[], bool]
    ) -> None:
        self._producer = producer
        self._group = group
        self._client_config = client_config
        self._stop = stop
        self._group_metadata: Any = None

    def begin_session(self, lanes: Sequence[Lane]) -> None:
        """Fence older agents, end what they left open, and move the lanes to the positions that Kafka has.

        Raises Fenced if those lie behind a lane's end: the folder is older than what was delivered from it.
        """
        from confluent_kafka import Consumer, TopicPartition

        self._repeat(lambda: self._producer.init_transactions(CALL_SECONDS))
        consumer = Consumer(
            {
                **self._client_config,
                "group.id": self._group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        try:
            self._group_metadata = consumer.consumer_group_metadata()
            asked = [TopicPartition(lane.topic, 0) for lane in lanes if lane.spool is not None]
            found = self._repeat(lambda: consumer.committed(asked, timeout=CALL_SECONDS)) if asked else []
        finally:
            consumer.close()
        by_topic = {each.topic: each for each in found}
        for lane in lanes:
            if (each := by_topic.get(lane.topic)) is not None:
                _move(lane, each)

    def begin(self) -> None:
        """Begin a transaction."""
        self._producer.begin_transaction()

    def commit(self, positions: Sequence[tuple[Lane, int]]) -> None:
        """Commit what was sent, with the lanes' next numbers. Raises Aborted, KafkaException, Interrupted."""
        from confluent_kafka import TopicPartition

        offsets = [
            TopicPartition(lane.topic, 0, position, lane.spool.spool_id.hex())
            for lane, position in positions
            if lane.spool is not None
        ]
        send = self._producer.send_offsets_to_transaction
        self._repeat(lambda: send(offsets, self._group_metadata, CALL_SECONDS))
        self._repeat(lambda: self._producer.commit_transaction(CALL_SECONDS))

    def abort(self, seconds: float | None = None) -> None:
        """Abort the transaction; with `seconds` tried once, as the next session aborts it otherwise."""
        from confluent_kafka import KafkaException

        if seconds is None:
            self._repeat(lambda: self._producer.abort_transaction(CALL_SECONDS))
            return
        try:
            self._producer.abort_transaction(seconds)
        except KafkaException as problem:
            log.warning("the open transaction was not aborted: %s", text_of(problem))

    def _repeat(self, call: Callable[[], Any]) -> Any:
        """Call until it neither times out nor fails in passing; for no longer than GIVE_UP_SECONDS, after
        which the error is raised: a new producer asks anew where the transaction stands.
        """
        from confluent_kafka import KafkaException

        give_up_at_seconds = time.monotonic() + GIVE_UP_SECONDS
        while True:
            try:
                return call()
            except KafkaException as problem:
                error = problem.args[0]
                if error.txn_requires_abort():
                    self._producer.abort_transaction(CALL_SECONDS)
                    raise Aborted(text_of(problem)) from None
                if not (error.retriable() or error.name() == "_TIMED_OUT") or error.fatal():
                    raise
                if self._stop():
                    raise Interrupted from None
                if time.monotonic() > give_up_at_seconds:
                    raise


def _move(lane: Lane, found: Any) -> None:
    spool = lane.spool
    if found.error is not None or found.offset < 0 or spool is None:
        return
    if found.metadata != spool.spool_id.hex():
        log.warning("%s: Kafka has the position of another folder, which does not count here", lane.topic)
        return
    if found.offset > spool.synced_number:
        raise Fenced(
            f"{spool.folder} ends at message {spool.synced_number}, but {found.offset} were delivered: "
            "it is an older copy. Take the newer folder, or move this one aside and start with an empty one"
        )
    spool.acknowledge(found.offset)
