"""The records of `__transaction_state`: one key a transactional id, whose value is the whole transaction.

    key    | version 2 = 0 | transactional id |
    value  | version 2 = 0 or 1 | TransactionLogValue |     absent (null) when the id has expired

Byte for byte as Kafka writes them (protocol/messages/transaction_records.py has the fields). Version 1 is
written from feature `transaction.version` 1 on; what only version 1 can say, a producer id that is being
replaced, happens with version 2 of transactions only.
"""

import struct
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from moldau.broker.coordinator.markers import TopicPartition
from moldau.broker.coordinator.transaction.metadata import (
    EPOCH_BUMPING_VERSION,
    NO_PRODUCER_EPOCH,
    PRODUCER_EPOCH_MAX,
    Transaction,
)
from moldau.broker.coordinator.transaction.states import COMPLETE, DECIDED, TransactionState
from moldau.common.protocol.messages.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

_PREFIX = struct.Struct(">h")

KEY_VERSION = 0
FLEXIBLE_VALUE_VERSION = 1
"""The first version with tagged fields, where the fields of KIP-890 stand."""


class StateRecord(NamedTuple):
    """One change of one transactional id; None deletes it."""

    transactional_id: str
    transaction: Transaction | None


def value_version(transaction_version: int) -> int:
    """The version in which values are written at this level of the feature `transaction.version`."""
    return FLEXIBLE_VALUE_VERSION if transaction_version >= 1 else 0


def encode(record: StateRecord, version: int) -> tuple[bytes, bytes | None]:
    """The bytes of a record's key and value."""
    key = TransactionLogKey(transactional_id=record.transactional_id)
    key_bytes = _PREFIX.pack(KEY_VERSION) + key.encode(KEY_VERSION)
    if record.transaction is None:
        return key_bytes, None
    return key_bytes, _PREFIX.pack(version) + _value(record.transaction, version).encode(version)


def decode(key: bytes, value: bytes | None) -> StateRecord | None:
    """The record that these bytes mean; None for a kind of key that is not known. Raises
    MalformedMessage."""
    if _PREFIX.unpack_from(key)[0] != KEY_VERSION:
        return None
    transactional_id = TransactionLogKey.decode(key[_PREFIX.size :], KEY_VERSION).transactional_id
    if value is None:
        return StateRecord(transactional_id, None)
    message = TransactionLogValue.decode(value[_PREFIX.size :], _PREFIX.unpack_from(value)[0])
    return StateRecord(transactional_id, _transaction(transactional_id, message))


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """Partitions as the protocol groups them: each topic once, everything in order."""
    return [
        (topic, [index for _, index in group])
        for topic, group in groupby(sorted(partitions), key=lambda partition: partition[0])
    ]


def _value(transaction: Transaction, version: int) -> TransactionLogValue:
    partitions = None
    if transaction.state is not TransactionState.EMPTY:
        partitions = [
            PartitionsSchema(topic=topic, partition_ids=indexes)
            for topic, indexes in by_topic(transaction.partitions)
        ]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    if version >= FLEXIBLE_VALUE_VERSION:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return value


def _transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        updated_ms=value.transaction_last_update_timestamp_ms,
        partitions=frozenset(
            (topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        last_producer_epoch=_last_producer_epoch(value),
        client_version=value.client_transaction_version,
    )


def _last_producer_epoch(value: TransactionLogValue) -> int:
    """What no record holds, but follows from one that an end with a new epoch has left."""
    ended = value.transaction_status in DECIDED | COMPLETE
    if not ended or value.client_transaction_version < EPOCH_BUMPING_VERSION:
        return NO_PRODUCER_EPOCH
    if value.producer_id != value.previous_producer_id:
        return PRODUCER_EPOCH_MAX - 1  # the last of the producer id before
    return value.producer_epoch - 1
