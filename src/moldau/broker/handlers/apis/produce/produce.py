"""Produce, versions 3-13: batches for partitions, appended as they came.

    v3  magic 2 batches, transactional id      v5  log start offset in the answer      v7  zstd allowed
    v8  record errors and a message            v9  flexible      v10  current leader    v13  topic ids

The frame is read in place: the records of a partition are a view into the receive buffer that the log stages
or writes before this function returns. The answer waits for the turn's one write, and with durability `group`
for its fsync. With acks=0 there is no answer; an error then ends the connection, because nothing else could
tell the client.

Hot for requests to several partitions; a producer's repeated ones take the shortcut (produce_repeat.py). Of
its budget bench/hot_path.py checks the codec's part (hot_produce.py).
Not here: what becomes of a row (produce_request.py); a request that takes longer than a slice of the loop's
time (produce_later.py) or has hundreds of rows (produce_many.py); a batch that opens a transaction in its
partition (produce_transactional.py).
"""

from moldau.broker.handlers.apis.produce.produce_later import go_on_later
from moldau.broker.handlers.apis.produce.produce_many import produce_many
from moldau.broker.handlers.apis.produce.produce_repeat import remember
from moldau.broker.handlers.apis.produce.produce_request import PendingProduce, begin, refused_transaction
from moldau.broker.handlers.apis.produce.produce_transactional import producer_of
from moldau.broker.handlers.parts.broker import Broker
from moldau.broker.handlers.parts.exchange import COUNTED_BYTES, AnswerFrame, Exchange
from moldau.broker.handlers.parts.registry import serves_frames
from moldau.common.protocol.hot_produce import PartitionAnswer, ProduceTopic, decode_produce
from moldau.common.protocol.messages.produce import ProduceRequest
from moldau.common.records.packed_records import PACKED_BYTES_MAX

_LOOKED_AT_EVERY = 4  # rows: how often, and before each large one, the clock is asked for the slice


@serves_frames(ProduceRequest, many_rows=produce_many)
def produce(
    broker: Broker, exchange: Exchange, view: memoryview, body: int, version: int, correlation_id: int
) -> AnswerFrame | None:
    transactional_id, acks, timeout_ms, topics = decode_produce(view, body, version)
    refused = 0
    transactional = transactional_id is not None  # and the client has the right to that
    if (transactional_id is None or broker.authorizer is not None) and (
        transactional := any(
            producer_of(records) for _, rows in topics for _, records in rows if records is not None
        )
    ):
        name = None if transactional_id is None else transactional_id.decode(errors="replace")
        refused = refused_transaction(broker, exchange.session, name)
    request = begin(
        PendingProduce,
        broker,
        exchange,
        version,
        correlation_id,
        transactional_id,
        acks,
        timeout_ms,
        refused,
    )
    limits = request.limits
    if limits is not None:
        request.charge(len(view))
    if acks == -1 and len(view) > COUNTED_BYTES:
        request.size_bytes = len(view)
    if not _append_rows(request, topics):
        return None
    answers = request.answers
    if limits is None and len(answers) == 1 and len(answers[0][1]) == 1 and not request.failed:
        lookup = request.lookup
        remember(
            broker, exchange, view, version, topics[0], lookup, acks, timeout_ms, transactional=transactional
        )
    request.verify()
    if request.slot is not None:
        request.release()
        return None
    if acks == 0:
        if request.failed:
            exchange.close()
        return None
    return request.frame()


def _append_rows(request: PendingProduce, topics: list[ProduceTopic]) -> bool:
    """Append the rows; False when the rest of them goes on later."""
    slices = None
    count = 0
    for topic_at, (key, partitions) in enumerate(topics):
        held = request.lookup.get(key)
        rows: list[PartitionAnswer] = []
        request.answers.append((key, rows))
        for at, (index, records) in enumerate(partitions):
            if count % _LOOKED_AT_EVERY == 1 or (records is not None and len(records) > PACKED_BYTES_MAX):
                if slices is None:
                    slices = request.broker.slow_lane.slices()
                elif slices.spent():
                    go_on_later(request, topics, topic_at, at, None)
                    return False
            count += 1
            deferred = request.append_row(key, held, rows, index, records)
            if deferred is not None:
                go_on_later(request, topics, topic_at, at + 1, deferred)
                return False
    return True
