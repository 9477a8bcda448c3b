"""Records of __share_group_state, printed by both commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moldau.broker.coordinator.share.records import StateRecord, Update, encode
from moldau.broker.coordinator.share.state import Key, ShareState, StateBatch
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record
from moldau.tools.app import run
from moldau.tools.kafka.programs import dump_log

SHARE = Key("billing", bytes(range(16)), 3)
STATE = ShareState(2, 1, 5, 100, 7, 1000, (StateBatch(100, 104, 2, 1),))


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    contents = [STATE, Update(2, 5, 105, 9, (StateBatch(105, 110, 0, 2),)), None]
    records = [
        Record(offset, 1000 + offset, *encode(StateRecord(SHARE, content, 1500)))
        for offset, content in enumerate(contents)
    ]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(build_batch(records)))
    return path


def test_moldaus_own(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dump-log", str(segment), "--share-group-state-decoder", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    records = [row for row in rows if row["kind"] == "record"]
    assert [row["key"]["name"] for row in records] == ["ShareSnapshot", "ShareUpdate", "ShareSnapshot"]
    assert records[0]["payload"]["start_offset"] == 100
    assert records[1]["payload"]["state_batches"][0]["delivery_count"] == 2
    assert records[2]["payload"] is None


def test_kafkas(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dump_log.main(["--files", str(segment), "--share-group-state-decoder"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    key = '{"type":"0","data":{"groupId":"billing","topicId":"AAECAwQFBgcICQoLDA0ODw","partition":3}}'
    assert f"key: {key}" in lines[0]
    assert '"startOffset":100' in lines[0]
    assert (
        '"stateBatches":[{"firstOffset":105,"lastOffset":110,"deliveryState":0,"deliveryCount":2}]'
        in lines[1]
    )
    assert lines[2].endswith("payload: <DELETE>")


def test_decoders_of_two_topics(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dump-log", str(segment), "--share-group-state-decoder", "--offsets-decoder"]) == 2
    assert "choose one" in capsys.readouterr().err
