"""The bytes in `__transaction_state`, as Kafka writes and reads them."""

import pytest

from moldau.broker.coordinator.transaction.metadata import Transaction
from moldau.broker.coordinator.transaction.records import StateRecord, decode, encode, value_version
from moldau.broker.coordinator.transaction.states import TransactionState

ONGOING = Transaction(
    transactional_id="till",
    producer_id=7,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    updated_ms=1_700_000_000_123,
    partitions=frozenset({("beer", 1), ("wine", 0), ("beer", 0)}),
    start_ms=1_700_000_000_000,
    previous_producer_id=7,
    client_version=2,
)
KEY = bytes.fromhex("0000") + b"\x00\x04till"


def test_a_value_of_version_0_byte_for_byte() -> None:
    key, value = encode(StateRecord("till", ONGOING._replace(client_version=0)), 0)
    assert key == KEY
    assert value is not None
    assert value.hex(" ") == (
        "00 00 "  # version
        "00 00 00 00 00 00 00 07 "  # producer id
        "00 03 "  # producer epoch
        "00 00 ea 60 "  # timeout
        "01 "  # status
        "00 00 00 02 "  # topics
        "00 04 62 65 65 72 00 00 00 02 00 00 00 00 00 00 00 01 "  # beer: 0, 1
        "00 04 77 69 6e 65 00 00 00 01 00 00 00 00 "  # wine: 0
        "00 00 01 8b cf e5 68 7b "  # last update
        "00 00 01 8b cf e5 68 00"  # start
    )


def test_a_value_of_version_1_byte_for_byte() -> None:
    _, value = encode(StateRecord("till", ONGOING._replace(partitions=frozenset({("beer", 0)}))), 1)
    assert value is not None
    assert value.hex(" ") == (
        "00 01 "  # version
        "00 00 00 00 00 00 00 07 "  # producer id
        "00 03 "  # producer epoch
        "00 00 ea 60 "  # timeout
        "01 "  # status
        "02 05 62 65 65 72 02 00 00 00 00 00 "  # one topic: beer, one partition: 0; no tags
        "00 00 01 8b cf e5 68 7b "  # last update
        "00 00 01 8b cf e5 68 00 "  # start
        "02 "  # two tags
        "00 08 00 00 00 00 00 00 00 07 "  # previous producer id
        "02 02 00 02"  # client's version of transactions
    )


def test_only_an_empty_transaction_has_null_for_its_partitions() -> None:
    empty = ONGOING._replace(state=TransactionState.EMPTY, partitions=frozenset(), start_ms=-1)
    complete = ONGOING._replace(state=TransactionState.COMPLETE_ABORT, partitions=frozenset())
    offset = 2 + 8 + 2 + 4 + 1
    for transaction, length in ((empty, -1), (complete, 0)):
        _, value = encode(StateRecord("till", transaction._replace(client_version=0)), 0)
        assert value is not None
        assert int.from_bytes(value[offset : offset + 4], "big", signed=True) == length


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("state", list(TransactionState)[:6])
def test_a_record_comes_back(state: TransactionState, version: int) -> None:
    fields = {"state": state}
    if version == 0:
        fields |= {"client_version": 0, "previous_producer_id": -1}
    transaction = ONGOING._replace(**fields)
    if state is TransactionState.EMPTY:
        transaction = transaction._replace(partitions=frozenset(), start_ms=-1)
    if version and state >= TransactionState.PREPARE_COMMIT:
        transaction = transaction._replace(last_producer_epoch=2)
    key, value = encode(StateRecord("till", transaction), version)
    assert decode(key, value) == StateRecord("till", transaction)


def test_a_producer_id_that_is_being_replaced_is_written() -> None:
    moving = ONGOING._replace(
        state=TransactionState.PREPARE_COMMIT,
        producer_epoch=32767,
        next_producer_id=8,
        last_producer_epoch=32766,
    )
    key, value = encode(StateRecord("till", moving), 1)
    assert decode(key, value) == StateRecord("till", moving)


def test_tombstones_and_strange_keys() -> None:
    assert encode(StateRecord("till", None), 1) == (KEY, None)
    assert decode(KEY, None) == StateRecord("till", None)
    assert decode(b"\x00\x05whatever", b"\x00\x00") is None


def test_the_version_follows_the_feature() -> None:
    assert [value_version(level) for level in (0, 1, 2)] == [0, 1, 1]
