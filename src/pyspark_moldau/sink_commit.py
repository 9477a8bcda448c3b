"""Exactly once, on the driver: a micro-batch becomes one transaction, and is written once however often Spark
repeats it.

    open the transactional id       fences another user of the id, and ends its open transaction
    read the ledger                 the last committed batch, and the run that wrote it
    send the batches, the ledger's new entry, commit

Failures in between:

    the driver dies before the commit     its successor opens the id, which aborts it; the batch is repeated
    ... after it, before Spark noted it   opening waits for the end; the ledger has the batch: not repeated
    the commit's response is lost         sent again; a broker that is gone is waited for; else as above
    another driver opens the id           our next request is refused; we open the id to read the ledger, find
                                          ourselves among the earlier runs, and stop with an error
    a broker dies                         each request is repeated for `kafka.delivery.timeout.ms`

The producer is kept between micro-batches (Spark keeps the process): then nothing needs to be opened or read,
and a micro-batch costs three round trips. This is an optimisation only: without it, or if another process has
used the id in between, the longer way decides as above.

Not here: reading and writing the ledger's entry (moldau.client.ledger).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

from moldau.client.cluster import Cluster
from moldau.client.errors import RequestRefused, UnknownTopic
from moldau.client.ledger import Entry, read_entry
from moldau.client.producer import Fenced, TransactionalProducer, TransactionLost
from moldau.client.sealing import EncodedBatch
from pyspark_moldau.errors import FencedError, OptionError, SinkError
from pyspark_moldau.sink_options import SinkOptions

ATTEMPTS_MAX = 10
SLOW_ATTEMPTS_MAX = 2
PAUSE_SECONDS = 0.2
KEPT_MAX = 16
NUMBERED_BY_USER = "batches"
"""Whose numbers those of the option batchId are, outside of a streaming query."""


def commit_micro_batch(
    options: SinkOptions, query_id: str, run_id: str, batch_id: int, batches: Sequence[EncodedBatch]
) -> None:
    """Write a streaming query's micro-batch, unless it was written before. FencedError."""
    transactional_id = options.transactional_id or default_transactional_id(query_id)
    _commit(options, transactional_id, query_id, run_id, batch_id, batches)


def commit_batch(
    options: SinkOptions, query_id: str | None, run_id: str | None, batches: Sequence[EncodedBatch]
) -> None:
    """Write all of a batch query or nothing; with a batchId, once.

    Inside a streaming query's `foreachBatch`, `query_id` and `run_id` are that query's.
    """
    if not batches:
        return
    transactional_id = options.transactional_id
    if options.batch_id is None:
        # Numbers of its own: nothing was written under them before.
        stream, batch_id = str(uuid.uuid4()), 0
        transactional_id = transactional_id or f"moldau-{stream}"
    else:
        stream, batch_id = query_id or NUMBERED_BY_USER, options.batch_id
        if transactional_id is None and query_id is None:
            raise OptionError("batchId needs a transactionalId: the number counts the batches of one id")
        transactional_id = transactional_id or default_transactional_id(stream)
    _commit(options, transactional_id, stream, run_id or str(uuid.uuid4()), batch_id, batches)


def default_transactional_id(query_id: str) -> str:
    """The id of a query without the option: the same as long as the query has its checkpoint."""
    return f"moldau-{query_id}"


def ledger_group(transactional_id: str) -> str:
    """The consumer group that keeps the ledger."""
    return f"{transactional_id}-batches"


class _Session:
    """An open transactional id with the ledger's newest entry."""

    def __init__(self, options: SinkOptions, transactional_id: str) -> None:
        self.cluster = Cluster(options.bootstrap_servers, options.client_options)
        self.group_id = ledger_group(transactional_id)
        self.producer = TransactionalProducer(self.cluster, transactional_id, options.transaction_timeout_ms)
        self.entry: Entry | None = None

    def open(self) -> None:
        self.producer.open()
        self.entry = read_entry(self.cluster, self.group_id)

    def write(self, entry: Entry, batches: Sequence[EncodedBatch], place: tuple[str, int]) -> None:
        try:
            self.producer.send(batches)
            self.producer.commit_offset(self.group_id, *place, entry.batch_id, entry.text())
        except (RequestRefused, UnknownTopic):
            self.producer.abort()  # it will not work a second time: let nobody wait for the timeout
            raise
        self.producer.commit()
        self.entry = entry

    def close(self) -> None:
        self.cluster.close()


_sessions: dict[tuple[str, str], _Session] = {}


def _commit(
    options: SinkOptions,
    transactional_id: str,
    stream: str,
    run_id: str,
    batch_id: int,
    batches: Sequence[EncodedBatch],
) -> None:
    key = (options.bootstrap_servers, transactional_id)
    session = _sessions.pop(key, None)
    too_slow = 0
    for attempt in range(ATTEMPTS_MAX):
        last, started = attempt == ATTEMPTS_MAX - 1, time.monotonic()
        is_new = session is None or not _continues(session.entry, stream, run_id, batch_id)
        if session is None:
            session = _Session(options, transactional_id)
        try:
            if is_new:
                session.open()
            _write_once(session, stream, run_id, batch_id, batches)
        except (Fenced, TransactionLost):
            session.close()
            session = None
            too_slow += time.monotonic() - started > options.transaction_timeout_ms / 1000
            if too_slow == SLOW_ATTEMPTS_MAX:
                raise SinkError(_slow_sentence(options, batch_id)) from None
            if last:
                raise
            if is_new:  # else it was what we remembered, and not the cluster, that was wrong
                time.sleep(PAUSE_SECONDS * (attempt + 1))
        except BaseException:
            session.close()
            raise
        else:
            break
    assert session is not None
    _sessions[key] = session
    while len(_sessions) > KEPT_MAX:
        _sessions.pop(next(iter(_sessions))).close()


def _continues(entry: Entry | None, stream: str, run_id: str, batch_id: int) -> bool:
    """Whether the session's last batch is this run's, and the one before this batch."""
    return entry is not None and entry.run == run_id and entry.stream == stream and entry.batch_id < batch_id


def _write_once(
    session: _Session, stream: str, run_id: str, batch_id: int, batches: Sequence[EncodedBatch]
) -> None:
    before = session.entry
    place = min((batch.topic, batch.partition) for batch in batches)
    if before is None:
        session.write(Entry(stream, run_id, batch_id), batches, place)
        return
    if run_id in before.earlier_runs:
        raise FencedError(_fenced_sentence(session, stream, run_id, before))
    if before.stream != stream or before.batch_id < batch_id:
        session.write(before.next(stream, run_id, batch_id), batches, place)
    elif batch_id < before.batch_id:
        raise SinkError(_late_sentence(session, stream, batch_id, before))
    elif before.run != run_id:
        # Written by an earlier run. Nothing to write but who is in charge now.
        session.write(before.next(stream, run_id, before.batch_id), [], place)


def _slow_sentence(options: SinkOptions, batch_id: int) -> str:
    """The message for a transaction that exceeded its timeout and was aborted by the cluster."""
    return (
        f"to send batch {batch_id} takes longer than kafka.transaction.timeout.ms "
        f"({options.transaction_timeout_ms} ms), and the cluster has aborted the transaction: raise the "
        "option, or bound micro-batches with maxOffsetsPerTrigger where they are read"
    )


def _late_sentence(session: _Session, stream: str, batch_id: int, entry: Entry) -> str:
    """The message for a batch that is older than the last one: it is unknown whether it was written."""
    name = session.producer.transactional_id
    if stream == NUMBERED_BY_USER:
        return (
            f"batchId {batch_id} is lower than {entry.batch_id}, the last one written with the "
            f"transactionalId {name!r}: whether it was written before is not known, and it is not written "
            "now. Numbers must rise; give other numbers another transactionalId"
        )
    return (
        f"micro-batch {batch_id} comes although {entry.batch_id} has been committed with the transactional "
        f"id {name!r}: the query's checkpoint is older than what it has written, or another driver runs it. "
        "Nothing was written, because part of it may have been before. To go on from this checkpoint, and "
        "write that part twice, give the query another transactionalId"
    )


def _fenced_sentence(session: _Session, stream: str, run_id: str, entry: Entry) -> str:
    name = session.producer.transactional_id
    if entry.stream == stream:
        return (
            f"this run ({run_id}) of the query is fenced: a later run ({entry.run}) writes with its "
            f"transactional id {name!r} now, and has committed batch {entry.batch_id}. Nothing was written "
            "twice; stop one of the two drivers"
        )
    return (
        f"this run ({run_id}) is fenced: another query ({entry.stream}, run {entry.run}) writes with the "
        f"transactional id {name!r} now. Give each query a transactionalId of its own, or leave the option "
        "out"
    )
