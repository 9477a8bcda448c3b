"""Control records: what the log relies on."""

from moldau.common.records.control import (
    MARKER_BYTES,
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)


def test_every_marker_has_the_same_size() -> None:
    for kind in (ControlType.ABORT, ControlType.COMMIT):
        for number in (0, 2**31 - 1):
            marker = EndTransactionMarker(kind, number)
            data = build_end_transaction_marker(
                marker, producer_id=number, producer_epoch=32_000, timestamp_ms=number
            )
            assert len(data) == MARKER_BYTES
