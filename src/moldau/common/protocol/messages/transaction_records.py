"""What stands in `__transaction_state`: one key and value a transactional id, byte for byte as Kafka writes
them.

A key is `| record type 2 = 0 | key |`, a value `| version 2 | value |`; a null value deletes.

    v1   flexible; previous_producer_id, next_producer_id, client_transaction_version (KIP-890)

Version 0 is written while the cluster's feature `transaction.version` is 0, else version 1.
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    array,
    message,
    tagged,
)


@message(key=0, versions=(0, 0), flexible_from=None)
class TransactionLogKey(Message):
    """Which transactional id."""

    transactional_id: String = ""


@message(versions=(0, 1), flexible_from=1)
class TransactionLogValue(Message):
    """A transaction's state: its producer, its partitions (null once it is complete), and when it last moved.

    transaction_status: 0 empty, 1 ongoing, 2 prepare commit, 3 prepare abort, 4 complete commit, 5 complete
    abort, 6 dead, 7 prepare epoch fence.
    """

    producer_id: Int64 = 0
    previous_producer_id: Int64 = tagged(0, since=1, default=-1)
    next_producer_id: Int64 = tagged(1, since=1, default=-1)
    producer_epoch: Int16 = 0
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: list[PartitionsSchema] | None = array()
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Int16 = tagged(2, since=1)


class PartitionsSchema(Struct):
    topic: String = ""
    partition_ids: list[Int32] = array()
