"""The delivery thread: takes messages from the lanes' spools and brings them to Kafka, in rounds.

A round has some messages of every lane that has any, in the order of their spools. The next round begins when
all of this one are written, so that nothing of a lane overtakes anything.

*Exactly once.* A round is a transaction of the agent's fixed transactional id. The lanes' new positions are
committed in it, as offsets of the group `moldau-agent.ID` for partition 0 of each topic (a topic's "offset"
there is the number of the next message in its spool; the metadata holds the spool's identity). At the start
the position is read back from there: a crash after the commit and before the local save repeats nothing, one
before the commit leaves an aborted transaction, whose records no read_committed consumer sees. A second agent
with the same id takes over, and this one is fenced: it ends.

*At least once.* An idempotent producer; positions are saved after a round, a crash before repeats it.

*Failures.* What is no message's own fault holds its lane (others go on) and is tried again, with back-off.
A message's own fault is looked for by halves, as a batch fails whole; the message is discarded and reported.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from moldau.common.core.backoff import pauses
from moldau.kit.agent.counters import Counters
from moldau.kit.agent.lane import ROUND_RECORDS, Lane
from moldau.kit.agent.message import decode, headers_of
from moldau.kit.agent.settings import EXACTLY_ONCE, AgentSettings
from moldau.kit.agent.transactions import FENCED, Aborted, Fenced, Transactions, is_fenced, text_of
from moldau.kit.sending import ABORTED, Failure, Interrupted, Outgoing, send_all
from moldau.kit.spool import SpoolError

log = logging.getLogger("moldau.agent")

ROUND_BYTES = 4 << 20
ROUND_PAUSE_SECONDS = 0.02
"""A round with few messages is followed by a pause: a transaction costs much more than a record."""
SAVE_SECONDS = 1.0
BACKOFF_SECONDS = (0.2, 5.0)
HOLD_SECONDS = (0.2, 30.0)
CALL_SECONDS = 5.0

Part = tuple[Lane, int, list[Outgoing]]
"""A lane's part of a round: the first record's number, and the records."""


class Delivery(threading.Thread):
    """See the module. `lanes` is read anew for each round; `ended` is called if it cannot go on."""

    def __init__(
        self,
        settings: AgentSettings,
        agent_id: str,
        lanes: Callable[[], Iterable[Lane]],
        counters: Counters,
        ended: Callable[[str], None],
    ) -> None:
        super().__init__(name="moldau-agent-delivery", daemon=True)
        self.state = "connecting"
        self.problem = ""
        self.transactional_id = f"moldau-agent.{agent_id}"
        self.rounds = 0
        self._settings = settings
        self._lanes = lanes
        self._counters = counters
        self._ended = ended
        self._exactly_once = settings.mode == EXACTLY_ONCE
        self._wake = threading.Event()
        self._stop_at_seconds = float("inf")
        self._stop_asked = threading.Event()
        self._saved_at_seconds = 0.0

    # -- from the event loop -------------------------------------------------------------------------

    def wake(self) -> None:
        """There may be something to deliver."""
        self._wake.set()

    def stop(self, seconds: float) -> None:
        """Deliver what is there, but for no longer than this; then the thread ends."""
        self._stop_at_seconds = time.monotonic() + seconds
        self._stop_asked.set()
        self._wake.set()

    # -- the thread ----------------------------------------------------------------------------------

    @property
    def _stopping(self) -> bool:
        return self._stop_at_seconds != float("inf")

    def _out_of_time(self) -> bool:
        return time.monotonic() >= self._stop_at_seconds

    def run(self) -> None:
        """Sessions, each with a producer of its own, until `stop` or until another agent takes over."""
        from confluent_kafka import KafkaException

        between = pauses(*BACKOFF_SECONDS, random.random)
        while not self._out_of_time():
            began_seconds = time.monotonic()
            try:
                self._session()
                break
            except Interrupted:
                break
            except Fenced as problem:
                self.state, self.problem = "ended", str(problem)
                self._ended(str(problem))
                return
            except KafkaException as problem:
                if is_fenced(problem):
                    self.state, self.problem = "ended", FENCED
                    self._ended(FENCED)
                    return
                self._note(text_of(problem))
            except (SpoolError, OSError) as problem:
                self._note(str(problem))
            except Exception:
                log.exception("delivery failed and begins anew")
                self._note("an unexpected error; the log has it")
            if time.monotonic() - began_seconds > BACKOFF_SECONDS[1]:
                between = pauses(*BACKOFF_SECONDS, random.random)
            self._stop_asked.wait(next(between))
            if self._stopping:
                break  # what could not be delivered so far stays in the spools
        self.state = "ended"

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("delivery pauses: %s", problem)
        self.state, self.problem = "retrying", problem

    def _session(self) -> None:
        """Make a producer, find the positions, deliver until stopped. Raises KafkaException, Fenced."""
        from confluent_kafka import Producer

        producer = Producer(self._config())
        transactions: Transactions | None = None
        try:
            if self._exactly_once:
                transactions = Transactions(
                    producer, self.transactional_id, self._client_config(), self._out_of_time
                )
                transactions.begin_session(list(self._lanes()))
            for lane in self._lanes():
                if lane.spool is not None:
                    lane.cursor = lane.spool.position
            self.state, self.problem = "delivering", ""
            self._rounds(producer, transactions)
        finally:
            producer.purge()  # what is not reported comes again in the next session

    def _client_config(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._settings.bootstrap_servers,
            "client.id": self.transactional_id,
            "logger": logging.getLogger("moldau.agent.client"),
            **self._settings.client,
        }

    def _config(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "lz4",
            "topic.metadata.propagation.max.ms": 5000,
            # When every connection has failed, librdkafka 2.16 forgets all brokers and begins anew; a
            # transaction that was open then was seen to wait for its coordinator for a minute, until killed.
            "metadata.recovery.strategy": "none",
            "queue.buffering.max.messages": 4 * ROUND_RECORDS,
        }
        if self._exactly_once:
            config["transactional.id"] = self.transactional_id
        else:
            config["message.timeout.ms"] = 0  # tried until it is written: giving up would change the order
        return {**config, **self._client_config()}

    def _rounds(self, producer: Any, transactions: Transactions | None) -> None:
        while not self._out_of_time():
            self._wake.clear()
            parts = self._gather(producer)
            if parts:
                count = sum(len(records) for _, _, records in parts)
                self._round(producer, transactions, parts)
                self.rounds += 1
                self._save(SAVE_SECONDS)
                if count < ROUND_RECORDS // 10 and not self._stopping:
                    time.sleep(ROUND_PAUSE_SECONDS)
                continue
            self._save(0 if self._stopping else SAVE_SECONDS)
            if self._stopping:
                return
            self._wake.wait(self._idle_seconds())
        raise Interrupted

    def _save(self, every_seconds: float) -> None:
        """Save the lanes' positions, but not more often than this. A full disk changes nothing: it is tried
        again, and until then more would be delivered twice after a crash.
        """
        now = time.monotonic()
        if now - self._saved_at_seconds < every_seconds:
            return
        self._saved_at_seconds = now
        for lane in self._lanes():
            try:
                lane.save()
            except OSError as problem:
                self._counters.disk_errors += 1
                log.warning("%s: the position was not saved: %s", lane.topic, problem)

    def _idle_seconds(self) -> float:
        now = time.monotonic()
        held = [lane.held_until_seconds - now for lane in self._lanes() if lane.held_because]
        return min(SAVE_SECONDS, *(max(0.01, left) for left in held), SAVE_SECONDS)

    def _gather(self, producer: Any) -> list[Part]:
        """Messages for a round: of every lane that is not held."""
        now = time.monotonic()
        ready = [
            (lane, lane.spool)
            for lane in self._lanes()
            if lane.spool is not None
            and lane.held_until_seconds <= now
            and lane.cursor < lane.spool.synced_number
            and (lane.known or self._is_known(producer, lane))
        ]
        parts: list[Part] = []
        for lane, spool in ready:
            try:
                first, found = spool.read(
                    lane.cursor,
                    records_max=lane.round_records,
                    size_bytes_max=ROUND_BYTES // len(ready),
                )
            except (SpoolError, OSError) as problem:  # the other lanes go on
                self._hold(lane, "the agent's disk", str(problem))
                continue
            parts.append((lane, first, [_outgoing(lane.topic, data) for data in found]))
        return parts

    def _is_known(self, producer: Any, lane: Lane) -> bool:
        """Ask for the topic first: records for an unknown one would hold up everybody's round."""
        from confluent_kafka import KafkaException

        try:
            found = producer.list_topics(lane.topic, timeout=CALL_SECONDS).topics[lane.topic]
        except KafkaException as problem:
            self._hold(lane, problem.args[0].name(), problem.args[0].str())
            return False
        if found.error is not None:
            self._hold(lane, found.error.name(), found.error.str())
            return False
        lane.known = True
        return True

    def _hold(self, lane: Lane, name: str, text: str) -> None:
        lowest, highest = HOLD_SECONDS
        if not lane.held_because:
            log.warning("%s: not delivered for now: %s (%s)", lane.topic, text, name)
        lane.held_seconds = min(max(lowest, 2 * lane.held_seconds), highest)
        lane.held_until_seconds = time.monotonic() + lane.held_seconds
        lane.held_because = f"{text} ({name})"
        lane.known = False

    def _round(self, producer: Any, transactions: Transactions | None, parts: list[Part]) -> None:
        records = [record for _, _, some in parts for record in some]
        if transactions is not None:
            transactions.begin()
        try:
            failures = send_all(producer, records, self._out_of_time, in_transaction=transactions is not None)
            if transactions is not None and not failures:
                transactions.commit([(lane, first + len(some)) for lane, first, some in parts])
        except Aborted as problem:
            log.warning("a transaction was aborted and is sent again: %s", problem)
            self._stop_asked.wait(BACKOFF_SECONDS[0])
            return
        except Interrupted:
            if transactions is not None:
                transactions.abort(seconds=1.0)
            raise
        if transactions is not None and failures:
            transactions.abort()
            if all(failure.name in ABORTED for failure in failures):
                self._stop_asked.wait(BACKOFF_SECONDS[0])
        at, faults = 0, any(failure.own_fault for failure in failures)
        for lane, first, some in parts:
            found = [failure for failure in failures if at <= failure.at < at + len(some)]
            at += len(some)
            if found:
                self._examine(lane, first, len(some), found, faults)
            elif transactions is None or not failures:
                self._delivered(lane, first + len(some), len(some))

    def _delivered(self, lane: Lane, position: int, count: int) -> None:
        assert lane.spool is not None
        lane.cursor = position
        lane.spool.acknowledge(position)
        lane.held_because, lane.held_seconds = "", 0.0
        lane.round_records = min(ROUND_RECORDS, lane.round_records + lane.round_records // 8 + 1)
        self._counters.of(lane.topic).delivered += count

    def _examine(self, lane: Lane, first: int, count: int, found: list[Failure], faults: bool) -> None:
        """What to do about a lane's failures in a round; `faults`: some message of the round is at fault, and
        has failed the others with it (a transaction takes nothing more then).
        """
        own = [failure for failure in found if failure.own_fault]
        if own and count == 1:
            self._discard(lane, first, own[0])
        elif own:
            lane.round_records = max(1, count // 2)
        elif not faults and (others := [failure for failure in found if failure.name not in ABORTED]):
            self._hold(lane, others[0].name, others[0].text)

    def _discard(self, lane: Lane, number: int, failure: Failure) -> None:
        assert lane.spool is not None
        _, records = lane.spool.read(number, records_max=1)
        value = decode(lane.topic, records[0]).value or b""
        log.error("%s: message %d discarded: %s (%s)", lane.topic, number, failure.text, failure.name)
        self._counters.discard(lane.topic, failure.name.lower(), value)
        lane.cursor = number + 1
        lane.spool.acknowledge(number + 1)


def _outgoing(topic: str, data: bytes) -> Outgoing:
    message = decode(topic, data)
    return Outgoing(topic, message.value, message.key, headers_of(message), message.timestamp_ms)
