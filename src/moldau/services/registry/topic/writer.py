"""The primary's thread: it decides operations in rounds, and commits each round as one transaction.

    elected -> open the transactional id (fences the last primary, ends its transaction)
            -> read to the end -> repair what aborted transactions left -> rounds until another one opens it

Whoever was primary before may still believe that it is: paused for a minute, it would write what it decided
from a state of long ago. Its transaction cannot be committed any more once the id was opened again, so a
decision is either committed before the next primary reads to the end, or never. Every primary of a group has
the same transactional id; its own epoch is the proof that its state was current.

Ids: higher than any in the state, than any that an aborted record had, and than any this process ever gave.

After a failure the id is opened again, which settles what became of the transaction; then operations decide
again, unless what they did may have been committed and deciding again would give another answer.

Not here: who is elected (election/), what is decided (operations/).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Any

from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError
from moldau.client.producer import Fenced, TransactionalProducer
from moldau.client.sealing import EncodedBatch, encode_records
from moldau.services.registry.problems import Code, RegistryProblem
from moldau.services.registry.state.body import Body
from moldau.services.registry.state.records import Record
from moldau.services.registry.state.state import State
from moldau.services.registry.topic.reader import TopicReader
from moldau.services.registry.topic.rounds import Decision, Operation, next_round

log = logging.getLogger("moldau.registry.topic.writer")
_INT32_MAX = 2**31 - 1
_TRANSACTION_TIMEOUT_MS = 30_000
_BATCH_BYTES = 256 * 1024
_OVERHEAD_BYTES = 128
_PAUSE_SECONDS = 0.5


class Deposed(Exception):
    """This instance is not the primary; nothing was written."""


class TopicWriter:
    """Commits operations while this instance is the primary."""

    def __init__(
        self,
        connect: Callable[[], Cluster],
        topic: str,
        transactional_id: str,
        state: State,
        reader: TopicReader,
        message_bytes_max: int,
        on_deposed: Callable[[], None],
        ids_resume_from: int = 0,
    ) -> None:
        """`on_deposed` is called when another instance has taken over, which the election may not know;
        `ids_resume_from`: where to go on in a context whose highest id was given; 0: nowhere.
        """
        self._ids_resume_from = ids_resume_from
        self._cluster = connect()
        self._topic, self._transactional_id = topic, transactional_id
        self._state, self._reader = state, reader
        self._message_bytes_max = message_bytes_max
        self._on_deposed = on_deposed
        self._waiting: deque[Operation] = deque()
        self._changed = Condition()
        self._is_elected = False
        self._is_closing = False
        self._producer: TransactionalProducer | None = None
        self._complaint = ""
        self._given: dict[str, int] = {}
        self._round_ids: dict[tuple[str, bytes], int] = {}
        self._thread = Thread(target=self._run, name="registry-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Refuse what waits, finish the round that runs, end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(self._cluster.options.request_timeout_seconds)
        self._cluster.close()

    def elect(self, is_elected: bool) -> None:
        """Tell whether this instance is the elected primary."""
        with self._changed:
            self._is_elected = is_elected
            self._changed.notify_all()

    @property
    def is_open(self) -> bool:
        """Whether operations are committed: elected, and up to date."""
        return self._producer is not None

    def run(
        self,
        decide: Callable[[], Decision],
        keys: frozenset[str] | None,
        timeout_seconds: float,
        *,
        repeatable: bool = True,
    ) -> Any:
        """Decide and commit; the decision's answer. Deposed; RegistryProblem."""
        operation = Operation(decide, keys, time.monotonic() + timeout_seconds, repeatable)
        with self._changed:
            if not self._is_elected or self._is_closing:
                raise Deposed
            self._waiting.append(operation)
            self._changed.notify_all()
        try:
            return operation.result.result(timeout_seconds + _PAUSE_SECONDS)
        except TimeoutError:
            raise RegistryProblem(Code.TIMEOUT, "The write to the store timed out") from None

    def id_for(self, context: str, body: Body) -> int:
        """The id for a body: the one it has, or the next that was never given. For `decide` only."""
        known = self._state.id_of(context, body)
        if known is None:  # 0 is an id, too: imports bring it
            known = self._round_ids.get((context, body.guid_bytes))
        if known is not None:
            return known
        given = self._given.get(context, 0)
        new = max(self._state.max_id(context), given) + 1
        if new > _INT32_MAX and self._ids_resume_from:
            below = given if given < _INT32_MAX else 0
            new = max(self._state.max_id_below_margin(context), below, self._ids_resume_from - 1) + 1
        self._given[context] = self._round_ids[context, body.guid_bytes] = new
        return new

    # The thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                if self._is_closing:
                    break
                is_elected = self._is_elected
            try:
                if not is_elected:
                    self._step_down()
                elif self._producer is None:
                    self._open()
                else:
                    self._round()
            except Exception:
                log.exception("a round of the registry's writer failed")
                self._producer = None
                time.sleep(_PAUSE_SECONDS)
        self._step_down()

    def _has_work(self) -> bool:
        if self._is_closing or bool(self._waiting):
            return True
        return self._is_elected != (self._producer is not None)

    def _step_down(self) -> None:
        self._producer = None
        with self._changed:
            waiting, self._waiting = list(self._waiting), deque()
        for operation in waiting:
            operation.result.set_exception(Deposed())

    def _open(self) -> None:
        """Take over the transactional id, and bring the state up to date."""
        seconds = self._cluster.options.api_timeout_seconds
        producer = TransactionalProducer(self._cluster, self._transactional_id, _TRANSACTION_TIMEOUT_MS)
        try:
            producer.open()
            self._reader.wait_for(self._reader.end(), seconds)
            repairs = self._state.repairs()
            if repairs:
                log.info("%d records of aborted transactions are overwritten", len(repairs))
                self._commit(producer, repairs)
        except Fenced:
            self._was_deposed()
        except (ClientError, RegistryProblem, OSError) as problem:
            if str(problem) != self._complaint:
                self._complaint = str(problem)
                log.warning("this instance is elected primary and cannot write yet: %s", problem)
            self._refuse_overdue(str(problem))
            time.sleep(_PAUSE_SECONDS)
        else:
            self._producer, self._complaint = producer, ""
            log.info("this instance is the primary: it writes to topic %s", self._topic)

    def _was_deposed(self) -> None:
        log.warning("another instance has taken over as primary")
        with self._changed:
            self._is_elected = False
        self._step_down()
        self._on_deposed()

    def _refuse_overdue(self, reason: str) -> None:
        now = time.monotonic()
        with self._changed:
            overdue = [each for each in self._waiting if each.deadline <= now]
            self._waiting = deque(each for each in self._waiting if each.deadline > now)
        for operation in overdue:
            operation.result.set_exception(RegistryProblem(Code.STORE, reason))

    def _round(self) -> None:
        with self._changed:
            chosen = next_round(self._waiting)
            members = set(map(id, chosen))
            self._waiting = deque(each for each in self._waiting if id(each) not in members)
        self._round_ids.clear()
        decided = self._decide(chosen)
        records = [record for _, decision in decided for record in decision.records]
        producer = self._producer
        assert producer is not None
        maybe_committed = False
        try:
            if records:
                producer.send(self._batches(records))
                maybe_committed = True
                producer.commit()
                self._catch_up()
        except (ClientError, RegistryProblem, OSError) as problem:
            log.warning("a write to topic %s failed: %s", self._topic, problem)
            self._producer = None
            self._settle([operation for operation, _ in decided], problem, maybe_committed)
            if isinstance(problem, Fenced):
                self._was_deposed()
        else:
            for operation, decision in decided:
                operation.result.set_result(decision.answer)

    def _decide(self, chosen: Sequence[Operation]) -> list[tuple[Operation, Decision]]:
        decided: list[tuple[Operation, Decision]] = []
        for operation in chosen:
            try:
                if operation.deadline <= time.monotonic():
                    raise RegistryProblem(Code.TIMEOUT, "The write to the store timed out")
                decision = operation.decide()
                self._check_sizes(decision.records)
                decided.append((operation, decision))
            except Exception as problem:
                operation.result.set_exception(problem)
        return decided

    def _catch_up(self) -> None:
        self._reader.wait_for(self._reader.end(), self._cluster.options.api_timeout_seconds)

    def _settle(self, operations: list[Operation], problem: Exception, maybe_committed: bool) -> None:
        """Let operations decide again once the id was opened again; refuse those that may not."""
        again = [each for each in operations if each.repeatable or not maybe_committed]
        for operation in operations:
            if operation not in again:
                unknown = f"The result of the write is not known: {problem}"
                operation.result.set_exception(RegistryProblem(Code.TIMEOUT, unknown))
        self._put_back(again)

    def _put_back(self, operations: Sequence[Operation]) -> None:
        with self._changed:
            self._waiting.extendleft(reversed(operations))

    def _commit(self, producer: TransactionalProducer, records: list[Record]) -> None:
        producer.send(self._batches(records))
        producer.commit()
        self._catch_up()

    def _batches(self, records: list[Record]) -> list[EncodedBatch]:
        """The records as batches of a moderate size: a broker takes no larger one than a record may be."""
        now_ms = time.time_ns() // 1_000_000
        limit = min(_BATCH_BYTES, self._message_bytes_max // 2)
        batches: list[EncodedBatch] = []
        part: list[tuple[bytes | None, bytes | None]] = []
        size = 0
        for key, value in self._state.encode(records):
            record_bytes = len(key) + len(value or b"") + _OVERHEAD_BYTES
            if part and size + record_bytes > limit:
                batches.append(encode_records(self._topic, 0, part, now_ms))
                part, size = [], 0
            part.append((key, value))
            size += record_bytes
        batches.append(encode_records(self._topic, 0, part, now_ms))
        return batches

    def _check_sizes(self, records: list[Record]) -> None:
        for key, value in self._state.encode(records):
            if len(key) + len(value or b"") + _OVERHEAD_BYTES > self._message_bytes_max:
                raise RegistryProblem(
                    Code.SCHEMA_TOO_LARGE,
                    "Write failed because schema is too large: its record is larger than the "
                    f"{self._message_bytes_max} bytes that topic {self._topic} takes (max.message.bytes)",
                )
