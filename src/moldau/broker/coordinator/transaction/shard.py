"""The transactional ids of one partition of `__transaction_state`: the state machine in a coordinator shard.

What a request means is a function of one `Transaction` (init_producer.py, partitions.py, ending.py) that
gives a `Decision`; here it becomes the runtime's `Result`: the record, the answer once that is committed,
and, where the record decides a transaction, the beginning of its delivery.

    Decision.next decided   committed ──> delivery.begin ──> ... ──> finished ──> Complete record
                           failed    ──> rolled back: still ongoing, and its deadline is set again

An answer that changes nothing writes the transaction as it is, where other brokers have replicas of the log:
a deposed coordinator that does not know it would tell a producer what was true before, that it is fenced or
that its transaction is committed. Its record is never committed, so the producer looks for its coordinator
again.

Invariants: a marker is written only after the decision is committed; every Ongoing transaction has a
deadline; every Prepare is in the delivery, or its record is not committed yet.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

from moldau.broker.coordinator.deadlines import Deadlines
from moldau.broker.coordinator.journal import Journal
from moldau.broker.coordinator.markers import TopicPartition
from moldau.broker.coordinator.result import ParkedAnswer, Result
from moldau.broker.coordinator.transaction import ending, init_producer, partitions, queries
from moldau.broker.coordinator.transaction.delivery import Delivery
from moldau.broker.coordinator.transaction.expiry import EXPIRED_RECORDS_MAX, expired, is_overdue
from moldau.broker.coordinator.transaction.init_producer import Identity
from moldau.broker.coordinator.transaction.metadata import Decision, Transaction
from moldau.broker.coordinator.transaction.records import StateRecord, decode, encode, value_version
from moldau.broker.coordinator.transaction.states import AT_REST, DECIDED, NAMES, TransactionState
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_transactions import TransactionState as DescribedTransaction

R = TypeVar("R")

Key = tuple[str]
"""A deadline's key: the transactional id."""

Respond = Callable[[Decision], R]

_COMES_AGAIN = frozenset({ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS})
"""Answers to a verification that are not confirmed: one is asked for again, and what takes part goes on. A
commit is confirmed by its own record."""

REPEAT_MS = 1000
"""The pause before an abort that could not be written is retried, so that a full disk is not hammered."""


class TransactionShard:
    """The state of one shard.

    `server_version` is the level of the feature `transaction.version`; `make_delivery` gets what to call
    when a transaction has all its markers; `replace_producer` is called with an overdue transaction that
    needs a new producer id to be aborted; `count_end` with how each committed decision came about:
    committed, aborted, fenced (by the producer's successor) or timed-out. `may_be_deposed`: whether there
    are other brokers that could coordinate. `abort_interval_ms`: how often overdue transactions are aborted.
    """

    def __init__(
        self,
        *,
        server_version: Callable[[], int],
        make_delivery: Callable[[Callable[[Transaction], None]], Delivery],
        submit: Callable[[Callable[["TransactionShard", int], Result[None]]], None],
        replace_producer: Callable[[str], None],
        count_end: Callable[[str], None],
        may_be_deposed: Callable[[], bool] = lambda: False,
        abort_interval_ms: Callable[[], int] = lambda: 1,
    ) -> None:
        self.journal = Journal()
        self.deadlines = Deadlines()
        self.transactions: dict[str, Transaction] = self.journal.dict()
        self._server_version = server_version
        self._submit = submit
        self._replace_producer = replace_producer
        self._count_end = count_end
        self._abort_interval_ms = abort_interval_ms
        self._may_be_deposed = may_be_deposed
        self.delivery = make_delivery(self._all_written)
        self._waiting: dict[str, dict[Callable[[], None], None]] = {}

    # What the runtime needs.

    def encode(self, record: StateRecord) -> tuple[bytes, bytes | None]:
        return encode(record, value_version(self._server_version()))

    def replay(self, record: StateRecord) -> None:
        transactional_id, transaction = record
        if transaction is None:
            self.transactions.pop(transactional_id)
            return
        self.transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self.deadlines.set((transactional_id,), self._abort_ms(transaction.deadline_ms))

    def load(self, key: bytes, value: bytes) -> None:
        record = decode(key, value)
        if record is not None:
            self.replay(record)

    def loaded(self, now_ms: int) -> Result[None]:
        """Deliver the markers of decided transactions; some may have been written before.

        A transaction that begins in the future was begun by a coordinator whose clock is ahead: its time is
        counted from now, or it would hold back its readers for as long as the clocks differ.
        """
        for transaction in list(self.transactions.values()):
            if transaction.state in DECIDED:
                self.delivery.begin(transaction)
            elif transaction.state is TransactionState.ONGOING and transaction.start_ms > now_ms:
                self.deadlines.set(
                    (transaction.transactional_id,), self._abort_ms(now_ms + transaction.timeout_ms)
                )
        return Result()

    def unloaded(self, error_code: int) -> list[ParkedAnswer]:
        self.delivery.close()
        return []

    def rolled_back(self, error_code: int) -> list[ParkedAnswer]:
        return []

    def due(self, key: Key, now_ms: int) -> Result[None]:
        (transactional_id,) = key
        transaction = self.transactions.get(transactional_id)
        if transaction is not None and not is_overdue(transaction, now_ms):
            return Result(effects=[partial(self._set_deadline, transactional_id, now_ms)])
        return self.abort_overdue(transactional_id, None, now_ms)

    # Requests.

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: Identity | None,
        new_producer_id: int | None,
        now_ms: int,
        respond: Respond[R],
    ) -> Result[R]:
        outcome = init_producer.initialise(
            self.transactions.get(transactional_id),
            transactional_id,
            timeout_ms,
            expected,
            new_producer_id=new_producer_id,
            server_version=self._server_version(),
            now_ms=now_ms,
        )
        return self._result(transactional_id, outcome, respond, now_ms, "fenced")

    def add(
        self,
        transactional_id: str,
        identity: Identity,
        added: Sequence[TopicPartition],
        client_version: int,
        now_ms: int,
        respond: Respond[R],
    ) -> Result[R]:
        outcome = partitions.add(
            self.transactions.get(transactional_id),
            *identity,
            frozenset(added),
            client_version=client_version,
            now_ms=now_ms,
        )
        return self._result(transactional_id, outcome, respond, now_ms)

    def verify(
        self,
        transactional_id: str,
        identity: Identity,
        asked: Sequence[TopicPartition],
        respond: Callable[[dict[TopicPartition, int]], R],
    ) -> Result[R]:
        codes = partitions.verify(self.transactions.get(transactional_id), *identity, asked)
        refused = not _COMES_AGAIN.issuperset(codes.values())
        return self._unchanged(transactional_id, respond(codes), final=refused)

    def end(
        self,
        transactional_id: str,
        identity: Identity,
        committed: bool,
        client_version: int,
        new_producer_id: int | None,
        now_ms: int,
        respond: Respond[R],
    ) -> Result[R]:
        outcome = ending.end(
            self.transactions.get(transactional_id),
            *identity,
            committed,
            client_version=client_version,
            new_producer_id=new_producer_id,
            now_ms=now_ms,
        )
        return self._result(
            transactional_id, outcome, respond, now_ms, "committed" if committed else "aborted"
        )

    # Time.

    def abort_overdue(self, transactional_id: str, new_producer_id: int | None, now_ms: int) -> Result[None]:
        """Abort a transaction that has lasted too long, if it (still) has."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None or not is_overdue(transaction, now_ms):
            return Result()
        outcome = init_producer.fence(transaction, new_producer_id, self._server_version(), now_ms)
        if outcome.needs_producer_id:
            return Result(effects=[partial(self._replace_producer, transactional_id)])
        return self._result(transactional_id, outcome, lambda _: None, now_ms, "timed-out")

    def expire(self, expiration_ms: int, now_ms: int, more: Callable[[], None]) -> Result[None]:
        """Forget some of the ids that have not been used for `expiration_ms`; `more` is called afterwards if
        there may be others."""
        tombstones = list(
            islice(expired(self.transactions.values(), expiration_ms, now_ms), EXPIRED_RECORDS_MAX)
        )
        full = len(tombstones) == EXPIRED_RECORDS_MAX
        return Result(records=tombstones, on_commit=more if full else None)

    # Questions.

    def describe(self, transactional_id: str) -> DescribedTransaction:
        return queries.describe(
            transactional_id,
            self.transactions.get(transactional_id),
            self.delivery.remaining(transactional_id),
        )

    def statuses(self, now_ms: int) -> Iterator[queries.TransactionStatus]:
        return (queries.status(transaction, now_ms) for transaction in list(self.transactions.values()))

    def undecided(self) -> Iterator[Transaction]:
        """The transactions that are open, or decided without all their markers."""
        return (each for each in list(self.transactions.values()) if each.state not in AT_REST)

    def state_counts(self) -> Counter[str]:
        return Counter(NAMES[transaction.state] for transaction in self.transactions.values())

    # Inside.

    def _result(
        self,
        transactional_id: str,
        outcome: Decision,
        respond: Respond[R],
        now_ms: int,
        how: str = "ongoing",
    ) -> Result[R]:
        response, changed = respond(outcome), outcome.next
        if changed is None:
            final = outcome.error_code != ErrorCode.CONCURRENT_TRANSACTIONS and not outcome.needs_producer_id
            return self._unchanged(transactional_id, response, final=final)

        def begin() -> None:
            if changed.partitions:  # an abort of nothing gives a new epoch and ends no transaction
                self._count_end(how)
            self.delivery.begin(changed)

        def repair(_error_code: int) -> None:
            self._set_deadline(transactional_id, now_ms + REPEAT_MS)

        return Result(
            response,
            [StateRecord(transactional_id, changed)],
            on_failure=repair,
            on_commit=begin if changed.state in DECIDED else None,
        )

    def _unchanged(self, transactional_id: str, response: R, *, final: bool) -> Result[R]:
        """An answer that changes nothing; one that is final for the producer waits for a record: the
        transaction as it is, or a tombstone where there is none."""
        if not final or not self._may_be_deposed():
            return Result(response)
        return Result(response, [StateRecord(transactional_id, self.transactions.get(transactional_id))])

    def _set_deadline(self, transactional_id: str, earliest_ms: int) -> None:
        """An ongoing transaction's deadline, but not before `earliest_ms`: it may have passed while a
        decision was in flight that then could not be written."""
        transaction = self.transactions.get(transactional_id)
        if transaction is not None and transaction.state is TransactionState.ONGOING:
            due_ms = max(self._abort_ms(transaction.deadline_ms), earliest_ms)
            self.deadlines.set((transactional_id,), due_ms)

    def _abort_ms(self, deadline_ms: int) -> int:
        """When a transaction is aborted whose time is up then: at the next look, as in Kafka. Producers with
        timeouts of a tenth of a second rely on that."""
        interval_ms = self._abort_interval_ms()
        return -(-deadline_ms // interval_ms) * interval_ms

    def is_decided(self, transactional_id: str) -> bool:
        """Whether the id's transaction is being carried out."""
        transaction = self.transactions.get(transactional_id)
        return transaction is not None and transaction.state in DECIDED

    def when_complete(self, transactional_id: str, tell: Callable[[], None]) -> None:
        """Call `tell` once the transaction that is being carried out now is complete; never, if the shard is
        given up before."""
        self._waiting.setdefault(transactional_id, {})[tell] = None

    def wait_no_longer(self, transactional_id: str, tell: Callable[[], None]) -> None:
        """Remove a callback of `when_complete`. A transaction stays incomplete while one of its partitions
        is offline, and each retry of its producer would add another callback."""
        waiting = self._waiting.get(transactional_id)
        if waiting is not None:
            waiting.pop(tell, None)
            if not waiting:
                del self._waiting[transactional_id]

    def _all_written(self, prepared: Transaction) -> None:
        """Every partition of `prepared` has its marker: write the Complete record."""

        def complete(shard: TransactionShard, now_ms: int) -> Result[None]:
            if shard.transactions.get(prepared.transactional_id) is not prepared:
                return Result()  # the shard was loaded again, and delivers again
            return Result(
                records=[StateRecord(prepared.transactional_id, prepared.completed(now_ms))],
                on_commit=lambda: self._complete(prepared),
                on_failure=lambda _error_code: self.delivery.again(prepared),
            )

        self._submit(complete)

    def _complete(self, prepared: Transaction) -> None:
        self.delivery.completed(prepared)
        for tell in self._waiting.pop(prepared.transactional_id, ()):
            tell()
