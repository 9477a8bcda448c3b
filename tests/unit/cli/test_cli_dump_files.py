"""dump-log: every kind of file, whole and damaged."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from poisoned_batches import Poison, poisons

from moldau.broker.log.state.producers import ProducerBatch, ProducerState
from moldau.broker.log.state.snapshots import encode_snapshot
from moldau.common.protocol.messages.coordinator_records import OffsetCommitKey, OffsetCommitValue
from moldau.common.protocol.messages.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from moldau.common.records.record import Record
from moldau.tools.commands.dump.coordinator_records import decode_offsets_record, decode_transaction_record
from moldau.tools.commands.dump.files import Content, Row, dump_file
from moldau.tools.main import main

ALL = Content(records=True, payload=True)
READABLE_BY_SOME = ("behind it", "twice", "two streams", "skipped", "linked blocks", "deltas")
POISONS = [
    each for each in poisons() if each.ours and not any(words in each.name for words in READABLE_BY_SOME)
]
"""What nobody here can read."""


def batch(base_offset: int, count: int = 2, codec: str = "none") -> bytes:
    records = [
        Record(base_offset + index, 1_000 + index, b"k%d" % index, None if index else b"v", (("h", b"x"),))
        for index in range(count)
    ]
    return build_batch(records, base_offset=base_offset, compression=codec)


def rows(path: Path, content: Content = ALL) -> list[Row]:
    return list(dump_file(path, content))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_segment_shows_batches_and_records(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000010.log"
    first = batch(10, codec=codec)
    path.write_bytes(first + batch(12))
    start, head, one, two, second, *_ = rows(path)
    assert start.fields == {"Log starting offset": 10}
    assert head.fields["baseOffset"] == 10
    assert head.fields["lastOffset"] == 11
    assert head.fields["compresscodec"] == codec
    assert head.fields["isvalid"] is True
    assert one.fields["key"] == b"k0"
    assert one.fields["payload"] == b"v"
    assert one.fields["headerKeys"] == "[h]"
    assert "payload" not in two.fields
    assert second.fields["position"] == len(first)


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("poison", POISONS, ids=[each.name for each in POISONS])
def test_a_batch_that_cannot_be_read_is_named_and_reading_goes_on(
    poison: Poison, records: bool, tmp_path: Path
) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(poison.batch + batch(poison.count))
    found = rows(path, Content(records=records, payload=False))
    damaged = [row.fields["records of baseOffset"] for row in found if row.damaged]
    assert damaged == [0]
    assert [row.fields["baseOffset"] for row in found if row.kind == "batch"] == [0, poison.count]


def test_a_wrong_crc_is_marked_and_reading_goes_on(tmp_path: Path) -> None:
    damaged = bytearray(batch(0))
    damaged[-1] ^= 1
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(damaged) + batch(2))
    batches = [row for row in rows(path, Content()) if row.kind == "batch"]
    assert [(row.damaged, row.fields["isvalid"]) for row in batches] == [(True, False), (False, True)]


@pytest.mark.parametrize("cut", [1, 5, 30, 62])
def test_a_torn_end_is_told(cut: int, tmp_path: Path) -> None:
    whole = batch(0)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(whole + batch(2)[:cut])
    last = rows(path, Content())[-1]
    assert last.kind == "damage"
    assert last.fields["position"] == len(whole)
    assert last.fields["unread bytes"] == cut


def test_an_index_is_checked_against_its_segment(tmp_path: Path) -> None:
    first = batch(5)
    (tmp_path / "00000000000000000005.log").write_bytes(first + batch(7))
    index = tmp_path / "00000000000000000005.index"
    index.write_bytes(struct.pack(">IIIIII", 0, 0, 3, len(first), 9, 4) + b"\0" * 80)
    found = rows(index)
    assert [row.fields["offset"] for row in found] == [5, 8, 14]
    assert [row.damaged for row in found] == [False, False, True]


def test_other_files(tmp_path: Path) -> None:
    times = tmp_path / "00000000000000000005.timeindex"
    times.write_bytes(struct.pack(">qI", 1_000, 2))
    assert rows(times)[0].fields == {"timestamp": 1_000, "offset": 7}
    aborted = tmp_path / "00000000000000000005.txnindex"
    aborted.write_bytes(struct.pack(">hqqqq", 0, 9, 5, 6, 7))
    assert rows(aborted)[0].fields["producerId"] == 9
    snapshot = tmp_path / "00000000000000000007.snapshot"
    state = ProducerState(2, 5, 6, 1_000, -1, -1, (ProducerBatch(5, 5, 6, 6, 1_000),))
    snapshot.write_bytes(encode_snapshot({77: state}))
    assert rows(snapshot)[0].fields["producerId"] == 77
    snapshot.write_bytes(b"nonsense")
    assert rows(snapshot)[0].damaged
    epochs = tmp_path / "leader-epoch-checkpoint"
    epochs.write_text("0\n1\n3 0\n")
    assert [row.fields for row in rows(epochs)] == [{"line 1": "0"}, {"line 2": "1"}, {"line 3": "3 0"}]


def test_the_offsets_decoder_names_group_and_offset() -> None:
    key = struct.pack(">h", 1) + OffsetCommitKey(group="g", topic="t", partition=2).encode(1)
    value = struct.pack(">h", 3) + OffsetCommitValue(offset=99, metadata="m").encode(3)
    shown = decode_offsets_record(Record(0, 0, key, value, ()))
    assert shown["key"] == {"type": 1, "name": "OffsetCommit", "group": "g", "topic": "t", "partition": 2}
    assert shown["payload"]["offset"] == 99
    assert decode_offsets_record(Record(0, 0, key, None, ()))["payload"] is None
    assert decode_offsets_record(Record(0, 0, b"\0\x63rest", None, ()))["key"]["type"] == 99
    assert "damaged" in decode_offsets_record(Record(0, 0, key[:5], value, ()))


@pytest.mark.parametrize("version", [0, 1])
def test_the_transaction_log_decoder_names_id_producer_state_and_places(version: int) -> None:
    key = struct.pack(">h", 0) + TransactionLogKey(transactional_id="billing").encode(0)
    value = struct.pack(">h", version) + TransactionLogValue(
        producer_id=7,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=2,
        transaction_partitions=[PartitionsSchema(topic="orders", partition_ids=[0, 1])],
    ).encode(version)
    shown = decode_transaction_record(Record(0, 0, key, value, ()))
    assert shown["key"] == {"type": 0, "name": "TransactionLog", "transactional_id": "billing"}
    payload = shown["payload"]
    assert (payload["version"], payload["producer_id"], payload["producer_epoch"]) == (version, 7, 3)
    assert payload["state"] == "PrepareCommit"
    assert payload["transaction_partitions"] == [{"topic": "orders", "partition_ids": [0, 1]}]
    assert decode_transaction_record(Record(0, 0, key, None, ()))["payload"] is None
    assert "damaged" in decode_transaction_record(Record(0, 0, key, value[:9], ()))


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_a_marker_says_what_it_decides(kind: ControlType, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(
        build_end_transaction_marker(
            EndTransactionMarker(kind, 5), producer_id=7, producer_epoch=3, timestamp_ms=1_000
        )
    )
    *_, head, marker = rows(path, Content(records=True))
    assert (head.fields["isControl"], head.fields["producerId"]) == (True, 7)
    assert (marker.fields["endTxnMarker"], marker.fields["coordinatorEpoch"]) == (kind.name, 5)


def test_the_command_prints_json_and_fails_on_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch(0))
    assert main(["dump-log", str(tmp_path), "--print-data-log", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["kind"] for line in lines] == ["segment", "batch", "record", "record"]
    path.write_bytes(batch(0) + b"torn")
    assert main(["dump-log", str(path)]) == 1
    assert "1 damaged" in capsys.readouterr().err


def test_what_is_no_log_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("x")
    for path in (other, tmp_path / "none.log", tmp_path):
        assert main(["dump-log", str(path)]) == 1
        assert "moldau: " in capsys.readouterr().err


def test_the_metadata_of_a_healthy_folder_is_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "moldau-metadata.log").write_bytes(b"frames of its own")
    (tmp_path / "meta.properties").write_text("version=1\n")
    assert main(["dump-log", str(tmp_path)]) == 0
